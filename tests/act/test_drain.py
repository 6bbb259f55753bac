"""The writes of a drain through the gate: cordons under our name, and what becomes of every answer to an eviction."""

import pytest
from msgspec.structs import replace

from rebalancer.act.deletion_cost import ANNOTATION
from rebalancer.act.drain import CORDONED_BY
from rebalancer.act.rests import DENIED_SECONDS
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import DrainChange
from rebalancer.sandbox.api import Obj
from rebalancer.sandbox.api.resources import NODES, PODS
from rebalancer.sandbox.api.status import StatusError
from tests.act.rig import OURS, Rig, pod, refused, says, write_stop
from tests.builders import NAMESPACE, NOW, a_model, a_notice, a_policy, a_pool, a_snapshot

NODE = "a100-1"


@pytest.fixture(autouse=True)
def _under_notice(rig: Rig) -> None:
    """Model b has 2 replicas on a100-1, which goes in 120 s and is ours to drain."""
    policy = a_policy(a_model("b"), pools=(a_pool(drain=True),))
    facts = replace(a_snapshot(policy, {"b": 2}), drains_nodes=True)
    rig.stand(policy, replace(facts, notices=(a_notice(NODE, since=NOW, deadline=NOW + 120.0),)))
    rig.store.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {}})


def drain(kind: str, **fields: object) -> DrainChange:
    made = DrainChange(id=f"7-{kind}", kind=kind, node=NODE, pool="a100", reason="test")
    return replace(made, **fields)


def of_pod(rig: Rig, kind: str = "evict", number: int = 0, **fields: object) -> DrainChange:
    each = rig.target("b").pods[number]
    return drain(kind, model="b", namespace=NAMESPACE, pod=each.name, uid=each.uid, **fields)


def evictions(rig: Rig) -> int:
    """How often the API server was asked for one."""
    return sum(entry.target is not None and entry.target.subresource == "eviction" for entry in rig.server.audit)


def two_budgets(_pod: Obj) -> str:
    raise StatusError(
        500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )


def there(rig: Rig, name: str) -> Obj | None:
    return rig.store.get(PODS, name, NAMESPACE)


async def test_a_node_is_cordoned_under_our_name_and_uncordoned_again(rig: Rig) -> None:
    (outcome,) = await rig.apply(drain("cordon"))
    assert says(outcome, "written")
    node = rig.object(NODES, NODE)
    assert (node["spec"]["unschedulable"], node["metadata"]["annotations"]) == (True, {CORDONED_BY: OURS})
    pools = tuple(
        replace(pool, nodes=tuple(replace(each, cordoned=True, schedulable=False) for each in pool.nodes))
        for pool in rig.facts.pools
    )
    rig.facts = replace(rig.facts, notices=(), pools=pools)
    (outcome,) = await rig.apply(drain("uncordon"))
    assert says(outcome, "written")
    node = rig.object(NODES, NODE)
    assert (node["spec"], node["metadata"].get("annotations") or {}) == ({}, {})


@pytest.mark.parametrize(
    "left",
    [{"doubted": "too many"}, {"doomed_at": NOW + 86_400.0}, {"kind": "rebalance", "confidence": "possible"}],
    ids=["not believed", "for later", "merely possible"],
)
async def test_a_node_is_uncordoned_while_no_notice_counts_that_it_was_cordoned_for_and_not_before(
    rig: Rig, left: dict[str, object]
) -> None:
    await rig.apply(drain("cordon"))
    pools = tuple(
        replace(pool, nodes=tuple(replace(each, cordoned=True, schedulable=False) for each in pool.nodes))
        for pool in rig.facts.pools
    )
    rig.facts = replace(rig.facts, pools=pools)
    (outcome,) = await rig.apply(drain("uncordon"))
    assert refused(outcome, "moved")
    rig.facts = replace(rig.facts, notices=tuple(replace(one, **left) for one in rig.facts.notices))
    (outcome,) = await rig.apply(drain("uncordon"))
    assert says(outcome, "written")


async def test_what_somebody_else_cordoned_is_neither_taken_over_nor_freed(rig: Rig) -> None:
    theirs = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {"unschedulable": True}}
    rig.store.put(theirs)
    (outcome,) = await rig.apply(drain("cordon"))
    assert refused(outcome, "moved")
    pools = tuple(
        replace(pool, nodes=tuple(replace(each, cordoned=True) for each in pool.nodes)) for pool in rig.facts.pools
    )
    rig.facts = replace(rig.facts, notices=(), pools=pools)  # our picture of it is old
    (outcome,) = await rig.apply(drain("uncordon"))
    assert refused(outcome, "installation")
    assert rig.object(NODES, NODE)["spec"] == {"unschedulable": True}


async def test_a_pod_is_marked_and_evicted_with_its_own_grace_and_the_intent_comes_first(rig: Rig) -> None:
    change = of_pod(rig)
    rig.store.put({**pod(change.pod), "spec": {"terminationGracePeriodSeconds": 30, "nodeName": NODE}})
    (outcome,) = await rig.apply(change)
    assert says(outcome, "written")
    left = there(rig, change.pod)
    assert left is None or left["metadata"]["annotations"] == {ANNOTATION: "-1000"}
    assert evictions(rig) == 1
    (intent,) = rig.notebook.intents
    assert (intent.kind, intent.subject, intent.object) == ("evict", "b", f"pod/{NAMESPACE}/{change.pod}")
    assert intent.victims == (change.uid,)


async def test_429_is_tried_again_after_5_then_10_seconds_or_as_the_server_says(rig: Rig) -> None:
    gate, change = rig.gate(), of_pod(rig)
    rig.server.verbs.refuse_eviction = lambda _: "minAvailable 2"

    async def tried() -> Outcome:
        (outcome,) = await rig.apply_by(gate, change)
        return outcome

    assert says(await tried(), "failed")
    rig.clock.passed += 4.9
    assert refused(await tried(), "disruption-budget")
    rig.clock.passed += 0.2
    assert says(await tried(), "failed")
    rig.clock.passed += 9.0
    assert refused(await tried(), "disruption-budget")
    assert evictions(rig) == 2
    rig.clock.passed += 1.1
    rig.server.faults.fail_next(1, 429, path_part="/eviction", retry_after_seconds=25)
    assert says(await tried(), "failed")
    rig.clock.passed += 20.0
    assert refused(await tried(), "disruption-budget")
    rig.clock.passed += 5.1
    rig.server.verbs.refuse_eviction = lambda _: None
    assert says(await tried(), "written")


async def test_a_restart_forgets_that_an_eviction_rests_asks_once_and_rests_as_the_server_says_again(rig: Rig) -> None:
    change = of_pod(rig)
    for gate in (rig.gate(), rig.gate()):
        rig.server.faults.fail_next(1, 429, path_part="/eviction", retry_after_seconds=25)
        (outcome,) = await rig.apply_by(gate, change)
        assert says(outcome, "failed")
        (outcome,) = await rig.apply_by(gate, change)
        assert refused(outcome, "disruption-budget")
        assert outcome.detail.endswith("it is tried again in 25 s")
    assert evictions(rig) == 2


async def test_500_of_two_budgets_is_told_and_tried_again_after_an_hour(rig: Rig) -> None:
    gate, change = rig.gate(), of_pod(rig)
    rig.server.verbs.refuse_eviction = two_budgets
    (outcome,) = await rig.apply_by(gate, change)
    assert says(outcome, "failed")
    rig.clock.passed += 50.0
    (outcome,) = await rig.apply_by(gate, change)
    assert refused(outcome, "disruption-budget")
    assert outcome.detail.endswith("it is tried again in 3550 s")
    await gate.events.post()
    notes = [entry for entry in rig.server.audit if entry.target and entry.target.resource.plural == "events"]
    assert len(notes) == 1
    rig.facts = replace(rig.facts, notices=(a_notice(NODE, since=NOW, deadline=NOW + 7200.0),))
    rig.clock.passed += 3550.0
    rig.server.verbs.refuse_eviction = lambda _: None
    (outcome,) = await rig.apply_by(gate, change)
    assert says(outcome, "written")


@pytest.mark.parametrize("code", [403, 422])
@pytest.mark.parametrize("kind", ["cordon", "evict"])
async def test_what_admission_denies_twice_rests_a_minute_and_other_nodes_and_pods_go_on(
    rig: Rig, kind: str, code: int
) -> None:
    gate = rig.gate()
    change, other = (drain(kind), of_pod(rig)) if kind == "cordon" else (of_pod(rig), of_pod(rig, number=1))
    path = f"/nodes/{NODE}" if kind == "cordon" else f"/{change.pod}/eviction"
    rig.server.faults.fail_next(3, code, method="PATCH" if kind == "cordon" else "POST", path_part=path)

    async def tried(one: DrainChange) -> Outcome:
        (outcome,) = await rig.apply_by(gate, one)
        return outcome

    for _ in range(2):
        assert says(await tried(change), "failed")
        rig.clock.passed += 10.0
    assert refused(await tried(change), "webhook")
    assert says(await tried(other), "written")
    rig.clock.passed += 50.0
    assert says(await tried(change), "failed")
    assert refused(await tried(change), "webhook")


@pytest.mark.parametrize("code", [500, 504])
async def test_any_other_5xx_to_an_eviction_is_tried_again_with_the_next_plan(rig: Rig, code: int) -> None:
    """A webhook that is away for a moment, an etcd that changes its leader."""
    gate, change = rig.gate(), of_pod(rig)
    rig.server.faults.fail_next(1, code, path_part="/eviction")
    (outcome,) = await rig.apply_by(gate, change)
    assert says(outcome, "unknown")
    (outcome,) = await rig.apply_by(gate, change)
    assert says(outcome, "written")


async def test_404_is_a_success(rig: Rig) -> None:
    change = of_pod(rig)
    rig.store.delete(PODS, change.pod, NAMESPACE, 0)
    (outcome,) = await rig.apply(change)
    assert says(outcome, "written", "it was gone already")


async def test_409_is_another_pod_which_stays(rig: Rig) -> None:
    change = of_pod(rig)
    rig.store.delete(PODS, change.pod, NAMESPACE, 0)
    rig.store.put({**pod(change.pod), "metadata": {"name": change.pod, "namespace": NAMESPACE, "uid": "another"}})
    (outcome,) = await rig.apply(change)
    assert refused(outcome, "moved")
    assert there(rig, change.pod) is not None


async def test_it_is_deleted_in_the_last_seconds_alone_and_whatever_its_budget_says(rig: Rig) -> None:
    rig.server.verbs.refuse_eviction = lambda _: "minAvailable 2"
    change = of_pod(rig, "delete", grace_seconds=15)
    (outcome,) = await rig.apply(change)
    assert refused(outcome, "deadline")
    rig.clock.passed += 105.0
    (outcome,) = await rig.apply(change)
    assert says(outcome, "written")
    assert evictions(rig) == 0
    deleted = [entry for entry in rig.writes if entry.verb == "delete"]
    assert len(deleted) == 1


@pytest.mark.parametrize("why", ["taken back", "karpenter", "not by policy", "elsewhere"])
async def test_what_is_not_ours_to_drain_any_more_is_left_alone(rig: Rig, why: str) -> None:
    change = of_pod(rig)
    if why == "taken back":
        rig.facts = replace(rig.facts, notices=())
    elif why == "karpenter":
        rig.facts = replace(rig.facts, notices=tuple(replace(one, karpenter=True) for one in rig.facts.notices))
    elif why == "not by policy":
        rig.policy = a_policy(a_model("b"), pools=(a_pool(),))
    else:
        rig.show("b", pods=tuple(replace(each, node="a100-2") for each in rig.target("b").pods))
    (outcome,) = await rig.apply(change)
    assert refused(outcome, "moved")
    assert rig.writes == []


async def test_shadow_and_write_stop_hold_it(rig: Rig) -> None:
    (outcome,) = await rig.apply_by(rig.gate("shadow"), of_pod(rig))
    assert says(outcome, "shadow")
    rig.store.put(write_stop())
    for change in (drain("cordon"), of_pod(rig)):
        (outcome,) = await rig.apply(change)
        assert refused(outcome, "write-stop")
    assert rig.writes == []


async def test_surplus_is_evicted_only_while_the_floor_is_ready_on_nodes_that_stay(rig: Rig) -> None:
    surplus = of_pod(rig, floor=1)
    (outcome,) = await rig.apply(surplus)  # the other one is on that node, too
    assert refused(outcome, "floor")
    assert evictions(rig) == 0
    first, other = rig.target("b").pods
    rig.show("b", pods=(first, replace(other, node="a100-2")))
    (outcome,) = await rig.apply(surplus)
    assert says(outcome, "written")


async def test_a_cordon_that_was_written_at_last_is_no_denied_one_in_the_next_drain(rig: Rig) -> None:
    gate = rig.gate()

    async def cordoned(*, denied: int = 0) -> Outcome:
        rig.server.faults.fail_next(denied, 403, method="PATCH", path_part=f"/nodes/{NODE}")
        (outcome,) = await rig.apply_by(gate, drain("cordon"))
        return outcome

    for _ in range(2):
        assert says(await cordoned(denied=1), "failed")
    rig.clock.passed += DENIED_SECONDS
    assert says(await cordoned(), "written")
    rig.store.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {}})
    assert says(await cordoned(denied=1), "failed")
    assert says(await cordoned(), "written")
