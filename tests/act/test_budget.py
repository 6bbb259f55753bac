"""The gate is the last line: a plan that promises GPUs or nodes beyond the budget is refused, whatever it says."""

import pytest
from msgspec.structs import replace

from rebalancer.act.checks import Ground, check_budget
from rebalancer.act.unseen_writes import UnseenWrites
from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.memory import Memory, NodeGrant
from rebalancer.domain.snapshot import AutoscalerView, TargetView
from tests.act.rig import Rig, a_grant_of, change, deployment, node_pool, node_pool_change, refused, says, scaled_object
from tests.builders import (
    NOW,
    a_model,
    a_notice,
    a_policy,
    a_pool,
    a_snapshot,
    an_autoscaler,
    an_elastic_pool,
)


async def test_a_raise_beyond_the_budget_is_refused(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(rig.target("a"), 4))

    assert refused(outcome, "budget")
    assert outcome.detail == "budget: 9 GPUs of pool a100 would be promised, and its budget is 8"
    assert rig.writes == []


async def test_gpus_are_not_granted_before_the_released_pods_are_gone(rig: Rig) -> None:
    release, grant = await rig.apply(change(rig.target("b"), 4), change(rig.target("a"), 4))

    assert release.status == "written"
    assert refused(grant, "budget")


async def test_two_raises_side_by_side_cannot_both_use_the_last_gpu(rig: Rig) -> None:
    rig.show("b", replicas=4, pods=rig.target("b").pods[:4])
    rig.store.put(deployment("b", 4))
    facts = rig.facts
    rig.notebook.before_answer = lambda: setattr(rig, "facts", facts)

    outcomes = await rig.apply(change(rig.target("a"), 4), change(rig.target("b"), 5))

    assert sorted(outcome.status for outcome in outcomes) == ["refused", "written"]


async def test_a_raise_whose_reply_was_lost_counts_as_promised(rig: Rig) -> None:
    rig.show("b", replicas=4, pods=rig.target("b").pods[:4])
    rig.store.put(deployment("b", 4))
    gate = rig.gate()
    rig.server.faults.fail_next(1, 500, method="PUT")

    (unknown,) = await rig.apply_by(gate, change(rig.target("a"), 4))
    (outcome,) = await rig.apply_by(gate, change(rig.target("b"), 5))
    rig.clock.passed += 10.1
    (later,) = await rig.apply_by(gate, change(rig.target("b"), 5))

    assert unknown.status == "unknown"
    assert refused(outcome, "budget")
    assert later.status == "written"  # after 10 s the watches know


async def test_a_raise_that_met_a_conflict_is_judged_by_what_is_free_when_it_is_tried_again(rig: Rig) -> None:
    """Whether it was written is open, which is no leave to write it: others may have its GPUs by now."""
    *stay, last = rig.target("b").pods
    rig.show("b", replicas=4, pods=tuple(stay))
    gate = rig.gate()
    rig.server.faults.fail_next(3, 409, method="PUT")

    (conflict,) = await rig.apply_by(gate, change(rig.target("a"), 4))
    rig.show("b", replicas=5, pods=(*stay, last))
    (beyond,) = await rig.apply_by(gate, change(rig.target("a"), 4))
    rig.show("b", replicas=4, pods=tuple(stay))
    (free,) = await rig.apply_by(gate, change(rig.target("a"), 4))

    assert refused(conflict, "conflict")
    assert beyond.detail == "budget: 9 GPUs of pool a100 would be promised, and its budget is 8"
    assert free.status == "written"


async def test_a_replacement_beside_doomed_pods_fits_the_budget_that_is_left(rig: Rig) -> None:
    rig.policy = a_policy(a_model("a"), a_model("b", min_replicas=2), pools=(a_pool(gpus=16),))
    pools = (replace(rig.facts.pools[0], nodes=a_snapshot(rig.policy).pools[0].nodes),)
    rig.facts = replace(rig.facts, pools=pools, notices=(a_notice("a100-1"),))

    five, six = (
        await rig.apply(change(rig.target("b"), 10, kind="replace")),
        await rig.apply(change(rig.target("a"), 7, kind="replace")),
    )

    assert five[0].status == "written"  # 5 on the node that stays
    assert refused(six[0], "budget")  # 4 more where 3 are free


async def test_what_others_took_since_the_plan_is_not_found_on_a_node_under_notice(rig: Rig) -> None:
    """A maintenance in a fortnight takes nothing away yet, and nothing new goes there either."""
    policy = a_policy(a_model("a"), a_model("b", min_replicas=2), pools=(a_pool(gpus=16),))
    seen = a_snapshot(policy, replicas={"a": 6, "b": 3})  # 6 of a and 2 of b on a100-1, one of b on a100-2
    soon = NOW + 14 * 86_400.0
    notice = a_notice("a100-2", kind="scheduled-change", deadline=soon, doomed_at=soon - 600.0)
    rig.stand(policy, replace(seen, notices=(notice,)))

    (none,) = await rig.apply(change(rig.target("a"), 7))
    rig.facts = replace(rig.facts, notices=())
    (there,) = await rig.apply(change(rig.target("a"), 7))

    assert none.detail == "budget: 9 GPUs of pool a100 would be promised on nodes that stay, and its budget is 8"
    assert there.status == "written"


async def test_a_number_is_not_put_back_into_the_gpu_of_a_pod_that_ends_while_more_is_promised_than_there_is(
    rig: Rig,
) -> None:
    """Others took a replica of b away, and 11 of 8 GPUs are promised: who gets this one is for the next plan."""
    *stay, last = rig.target("b").pods
    rig.show("b", replicas=len(stay), pods=(*stay, replace(last, phase="terminating")))
    rig.store.put(deployment("b", len(stay)))
    rig.show("a", replicas=6)

    (outcome,) = await rig.apply(change(rig.target("b"), 5, kind="bounds"))

    assert refused(outcome, "budget")


async def test_a_grant_into_nodes_still_to_come_is_in_the_budget(rig: Rig) -> None:
    policy = a_policy(
        a_model("a", pools=("spot",)), a_model("b", pools=("spot",)), pools=(an_elastic_pool(gpus=8), a_pool())
    )
    rig.stand(policy, a_snapshot(policy, replicas={"a": 0, "b": 0}))

    plain = await rig.apply(change(rig.target("a"), 3))
    granted = await rig.apply(a_grant_of(rig.target("a"), 3, "g1"), a_grant_of(rig.target("b"), 5, "g2"))
    beyond = await rig.apply(a_grant_of(rig.target("b"), 6, "g3"))

    assert refused(plain[0], "budget")
    assert [outcome.status for outcome in granted] == ["written", "written"]
    assert refused(beyond[0], "budget")  # the policy's limit of 8 binds grants too


async def test_so_is_one_into_a_node_group_and_nothing_is_written_but_the_replicas(rig: Rig) -> None:
    pool = an_elastic_pool(gpus=8, node_pools=(), node_groups=("eks-gpu-*",))
    policy = a_policy(a_model("a", pools=("spot",)), pools=(pool, a_pool()))
    rig.stand(policy, a_snapshot(policy, replicas={"a": 0}))

    (stranger,) = await rig.apply(a_grant_of(rig.target("a"), 3, "g1", node_pool="aks-gpu-*"))
    (granted,) = await rig.apply(a_grant_of(rig.target("a"), 3, "g2", node_pool="eks-gpu-*"))

    assert refused(stranger, "budget")
    assert granted.status == "written"


async def test_grants_in_memory_are_in_the_budget(rig: Rig) -> None:
    policy = a_policy(a_model("a", pools=("spot",)), pools=(an_elastic_pool(gpus=8), a_pool()))
    rig.stand(policy, a_snapshot(policy, replicas={"a": 0}))
    grant = NodeGrant("g1", "a", "spot", "spot", 3, 3, NOW, NOW + 900.0)

    (outcome,) = await rig.apply(change(rig.target("a"), 3), memory=Memory(node_grants=(grant,)))

    assert outcome.status == "written"


async def test_a_node_grant_without_a_node_pool_behind_the_pool_is_no_budget(rig: Rig) -> None:
    rig.policy = a_policy(a_model("a"), a_model("b", min_replicas=2), pools=(a_pool(gpus=16),))

    (outcome,) = await rig.apply(a_grant_of(rig.target("a"), 4, "g1", node_pool="spot"))

    assert refused(outcome, "budget")


async def test_a_node_grant_that_was_not_written_is_no_budget_for_others(rig: Rig) -> None:
    policy = a_policy(
        a_model("a", pools=("spot",)), a_model("b", pools=("spot",)), pools=(an_elastic_pool(gpus=8), a_pool())
    )
    rig.stand(policy, a_snapshot(policy, replicas={"a": 0, "b": 0}))
    rig.server.faults.fail_next(3, 409, method="PUT")

    first, second = await rig.apply(
        replace(a_grant_of(rig.target("a"), 3, "g1"), kind="replace"), change(rig.target("b"), 3)
    )

    assert refused(first, "conflict")
    assert refused(second, "budget")


async def test_a_model_that_left_the_policy_is_not_written(rig: Rig) -> None:
    rig.policy = a_policy(a_model("a"))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert refused(outcome, "moved")


async def test_a_limit_beyond_the_policys_is_refused(rig: Rig) -> None:
    policy = a_policy(a_model("a"), pools=(a_pool(), an_elastic_pool(gpus=16)))
    rig.stand(policy, a_snapshot(policy))
    rig.store.put(node_pool(limits={"nvidia.com/gpu": "8"}))

    (beyond,) = await rig.apply(node_pool_change("limit", limit_from=8, limit_to=17))
    (unlimited,) = await rig.apply(node_pool_change("limit", limit_from=8, limit_to=None))
    (strange,) = await rig.apply(node_pool_change("limit", pool="a100", limit_from=8, limit_to=8))
    (outcome,) = await rig.apply(node_pool_change("limit", limit_from=8, limit_to=16))

    assert refused(beyond, "budget")
    assert refused(unlimited, "budget")
    assert refused(strange, "budget")
    assert outcome.status == "written"


async def test_a_node_has_at_least_the_gpus_that_pods_hold_there(rig: Rig) -> None:
    nodes = tuple(replace(node, gpus=4) for node in rig.facts.pools[0].nodes)
    rig.facts = replace(rig.facts, pools=(replace(rig.facts.pools[0], nodes=nodes), *rig.facts.pools[1:]))

    (outcome,) = await rig.apply(change(rig.target("a"), 4))

    assert outcome.detail == "budget: 9 GPUs of pool a100 would be promised, and its budget is 8"


async def test_a_pool_that_offers_no_gpu_while_pods_run_there_has_no_budget_to_promise_from(rig: Rig) -> None:
    nodes = tuple(replace(node, gpus=0) for node in rig.facts.pools[0].nodes)
    rig.facts = replace(rig.facts, pools=(replace(rig.facts.pools[0], nodes=nodes), *rig.facts.pools[1:]))

    (outcome,) = await rig.apply(change(rig.target("a"), 4))

    assert refused(outcome, "budget")
    assert "offer no nvidia.com/gpu while pods run there" in outcome.detail


async def test_pods_that_hold_more_than_the_policy_says_count_with_what_they_hold(rig: Rig) -> None:
    rig.show("b", replicas=2, pods=rig.target("b").pods[:2], running_gpus=2)

    (within, beyond) = (await rig.apply(change(rig.target("a"), 4)), await rig.apply(change(rig.target("a"), 5)))

    assert within[0].status == "written"  # 2 x 2 + 4
    assert refused(beyond[0], "budget")
    assert "9 GPUs" in beyond[0].detail


async def test_where_pods_will_hold_more_their_node_has_no_more_than_they_hold_now(rig: Rig) -> None:
    rig.policy = a_policy(a_model("a"), a_model("b"), pools=(a_pool(gpus=16),))
    node = rig.facts.pools[0].nodes[0]
    nodes = (replace(node, gpus=4), replace(node, name="full", gpus=5))
    rig.facts = replace(rig.facts, pools=(replace(rig.facts.pools[0], nodes=nodes), *rig.facts.pools[1:]))
    pods = tuple(replace(pod, node="full") for pod in rig.target("b").pods)
    rig.show("b", pods=pods, gpus_per_pod=2, running_gpus=1)

    (outcome,) = await rig.apply(change(rig.target("a"), 4))

    assert outcome.detail == "budget: 14 GPUs of pool a100 would be promised, and its budget is 9"


async def test_a_maximum_that_somebody_else_wrote_promises_what_runs(rig: Rig) -> None:
    ours = an_autoscaler(2, 100, originals=Originals(1, 10))
    pods = rig.target("b").pods[:2]
    rig.show("b", replicas=2, pods=pods, autoscaler=ours)

    (outcome,) = await rig.apply(change(rig.target("a"), 4))
    assert refused(outcome, "budget")

    rig.show("b", replicas=2, pods=pods, autoscaler=ours, by_others=True)
    (outcome,) = await rig.apply(change(rig.target("a"), 4))
    assert outcome.status == "written"


@pytest.mark.parametrize(
    "theirs",
    [
        an_autoscaler(5, 5, other="search/rebalancer"),  # another installation took it over in the middle of our raise
        an_autoscaler(5, 9),  # nobody's yet
        an_autoscaler(5, 5, originals=Originals(1, 10)),  # ours, and somebody wrote the maximum again
        an_autoscaler(2, 2, originals=Originals(1, 10), effective_minimum=5, effective_maximum=5),  # ours, taken back
    ],
)
async def test_an_autoscaler_on_its_way_up_to_its_minimum_promises_that(rig: Rig, theirs: AutoscalerView) -> None:
    pods = rig.target("b").pods[:2]
    by_others = theirs.originals is not None and theirs.minimum == 5
    rig.show("b", replicas=2, pods=pods, autoscaler=theirs, by_others=by_others)

    beyond, within = [(await rig.apply(change(rig.target("a"), replicas)))[0] for replicas in (4, 3)]

    assert refused(beyond, "budget")
    assert "9 GPUs" in beyond.detail
    assert within.status == "written"


@pytest.mark.parametrize(
    ("waits", "free", "status"), [(True, 1, "written"), (False, 1, "refused"), (True, 2, "refused")]
)
async def test_a_pod_of_a_rollout_is_promised_what_it_waits_for_unless_no_node_has_room_for_it(
    rig: Rig, *, waits: bool, free: int, status: str
) -> None:
    """B's replicas hold 2 of the 8 GPUs, and its rollout asks for one more of them; so much is free."""
    policy = a_policy(a_model("a"), a_model("b", gpus_per_replica=2))
    rig.stand(policy, a_snapshot(policy, replicas={"a": 4 - free, "b": 2}))
    surge = replace(rig.target("b").pods[0], uid="new", name="new", node=None, phase="pending")
    rig.show("b", rolling=waits, pods=(*rig.target("b").pods, surge))

    (outcome,) = await rig.apply(change(rig.target("a"), 5 - free))

    assert outcome.status == status


@pytest.mark.parametrize(
    ("of_a", "before", "minimum", "status"),
    [(4, 1, 5, "refused"), (4, 1, 3, "written"), (3, 1, 5, "written"), (4, 5, 5, "written")],
)
async def test_a_minimum_above_what_somebody_let_run_waits_while_more_is_promised_than_there_is(
    rig: Rig, of_a: int, before: int, minimum: int, status: str
) -> None:
    """Of 8 GPUs b was asked for 5 and runs 3; others have its GPUs by now, or its autoscaler would raise it anyway."""
    rig.store.put(scaled_object("b", before, 5))
    rig.show("a", replicas=of_a)
    pods, autoscaler = rig.target("b").pods[:3], an_autoscaler(before, 5, originals=Originals(1, 9))
    target = rig.show("b", replicas=3, pods=pods, autoscaler=autoscaler)

    (outcome,) = await rig.apply(change(target, 5, kind="bounds", minimum=minimum))

    assert says(outcome, status, "budget: 9 GPUs of pool a100 would be promised" if status == "refused" else "")


async def test_such_a_minimum_does_not_wait_until_the_notice_of_a_node_is_over(rig: Rig) -> None:
    policy = a_policy(a_model("a"), a_model("b", min_replicas=2), pools=(a_pool(gpus=16),))
    seen = a_snapshot(policy, replicas={"a": 6, "b": 3})  # 6 of a and 2 of b on a100-1, one of b on a100-2
    soon = NOW + 14 * 86_400.0
    rig.stand(policy, replace(seen, notices=(a_notice("a100-2", deadline=soon, doomed_at=soon - 600.0),)))
    rig.store.put(scaled_object("b", 2, 5))
    target = rig.show("b", autoscaler=an_autoscaler(2, 5, originals=Originals(1, 9)))

    (outcome,) = await rig.apply(change(target, 5, kind="bounds", minimum=5))

    assert outcome.status == "written"


class Asked(UnseenWrites):
    """Notes whose replicas are summed."""

    def __init__(self) -> None:
        super().__init__()
        self.of: set[str] = set()

    def with_most(self, target: TargetView) -> TargetView:
        self.of.add(target.name)
        return super().with_most(target)


def test_a_raise_is_summed_over_its_own_pool_alone_since_the_loop_stands_meanwhile() -> None:
    # With a thousand models each of fifty raises cost a look at the pods of all of them.
    models = [a_model(name, 0, pools=(pool,), entitlement=0) for name, pool in (("a", "p1"), ("b", "p1"), ("c", "p2"))]
    policy = a_policy(*models, pools=(a_pool("p1"), a_pool("p2")))
    facts = a_snapshot(policy, {"a": 1, "b": 1, "c": 1})
    unseen, target = Asked(), facts.models[0].targets[0]
    check_budget(change(target, 2), facts, Ground(policy, ()), (), unseen)
    assert unseen.of == {"a", "b"}
