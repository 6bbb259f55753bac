"""NodePools: limits and the consolidation hold, given back byte by byte."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.act.hand_back import restorer
from rebalancer.act.node_pool_parts import HOLD, Parts, patch
from rebalancer.act.rests import DENIED_SECONDS
from rebalancer.kube.resources import NODEPOOLS as KUBE_NODEPOOLS
from rebalancer.sandbox.api import Obj
from rebalancer.sandbox.api.objects import merged
from rebalancer.sandbox.api.resources import NODEPOOLS
from tests.act.rig import GPU, OURS, Rig, node_pool, node_pool_change, refused, says
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_elastic_pool

ORIGINALS = "rebalancer.io/originals"
BUDGETS: list[Obj] = [
    {"nodes": "20%", "reasons": ["Drifted"]},
    {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"},
]
HELD = {"nodes": "0", "reasons": ["Empty", "Underutilized"]}


@pytest.fixture(autouse=True)
def _elastic(rig: Rig) -> None:
    policy = a_policy(a_model("a"), pools=(a_pool(), an_elastic_pool(gpus=16)))
    rig.stand(policy, a_snapshot(policy))


def spec(rig: Rig) -> Obj:
    found: Obj = rig.object(NODEPOOLS, "spot")["spec"]
    return found


def annotations(rig: Rig) -> Obj:
    found: Obj = rig.object(NODEPOOLS, "spot")["metadata"].get("annotations", {})
    return found


async def test_a_limit_is_raised_and_restored_and_nothing_of_ours_stays(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "4", "cpu": "1k"}, budgets=BUDGETS))
    before = msgspec.json.encode(spec(rig))

    (raised,) = await rig.apply(node_pool_change("limit", limit_from=4, limit_to=8, grant="g1"))
    during = dict(spec(rig)["limits"])
    saved = msgspec.json.decode(annotations(rig)[ORIGINALS])
    (restored,) = await rig.apply(node_pool_change("restore-limit", limit_from=8, limit_to=4))

    assert (raised.status, restored.status) == ("written", "written")
    assert (raised.intent.grant, raised.intent.limit_to) == ("g1", 8)
    assert during == {GPU: "8", "cpu": "1k"}
    assert saved == {"limits": {GPU: "4", "cpu": "1k"}, "budgets": BUDGETS, "by": OURS}
    assert msgspec.json.decode(msgspec.json.encode(spec(rig))) == msgspec.json.decode(before)
    assert annotations(rig) == {}


async def test_a_limit_where_there_was_none_is_removed_again(rig: Rig) -> None:
    rig.store.put(node_pool())

    await rig.apply(node_pool_change("limit", limit_from=None, limit_to=8))
    saved = msgspec.json.decode(annotations(rig)[ORIGINALS])
    await rig.apply(node_pool_change("restore-limit", limit_from=8, limit_to=None))

    assert saved == {"limits": None, "budgets": None, "by": OURS}
    assert "limits" not in spec(rig)


async def test_more_than_the_saved_limit_stays_while_it_is_in_use(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "8"}, used=6))
    rig.store.patch(
        NODEPOOLS,
        "spot",
        {"metadata": {"annotations": {ORIGINALS: '{"limits":{"nvidia.com/gpu":"4"},"budgets":null}'}}},
    )

    (under,) = await rig.apply(node_pool_change("restore-limit", limit_from=8, limit_to=4))
    (partly,) = await rig.apply(node_pool_change("restore-limit", limit_from=8, limit_to=6))

    assert under.detail.startswith("under-use")
    assert partly.status == "written"
    assert spec(rig)["limits"] == {GPU: "6"}
    assert ORIGINALS in annotations(rig)


async def test_a_limit_is_never_set_under_use(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "8"}, used=6))

    (outcome,) = await rig.apply(node_pool_change("limit", limit_from=8, limit_to=5))

    assert outcome.detail == "under-use: limit 5 is under the 6 of nvidia.com/gpu in use"


@pytest.mark.parametrize(("limit", "used"), [("2k", "1k"), ("2000", "1k"), ("2e3", "992")])
async def test_limit_and_use_are_read_as_kubernetes_spells_quantities(rig: Rig, limit: str, used: str) -> None:
    policy = a_policy(a_model("a"), pools=(a_pool(), an_elastic_pool(gpus=4000)))
    rig.stand(policy, a_snapshot(policy))
    obj = node_pool(limits={GPU: limit})
    obj["status"]["resources"][GPU] = used
    rig.store.put(obj)

    (outcome,) = await rig.apply(node_pool_change("limit", limit_from=2000, limit_to=2008))

    assert says(outcome, "written")
    assert spec(rig)["limits"] == {GPU: "2008"}


async def test_what_spells_no_limit_or_no_use_is_told(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "many"}))
    (outcome,) = await rig.apply(node_pool_change("limit", limit_from=4, limit_to=8))
    assert outcome.detail == "moved: the limit of nvidia.com/gpu is 'many', no whole number"

    obj = node_pool(limits={GPU: "4"})
    obj["status"]["resources"][GPU] = "some"
    rig.store.put(obj)
    (outcome,) = await rig.apply(node_pool_change("limit", limit_from=4, limit_to=8))
    assert outcome.detail == "moved: the use of nvidia.com/gpu is 'some', no whole number"


async def test_a_limit_that_somebody_changed_is_decided_anew(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "6"}))

    (outcome,) = await rig.apply(node_pool_change("limit", limit_from=4, limit_to=8))

    assert outcome.detail == "moved: nodepool/spot has limit 6, the plan saw 4"


async def test_a_node_pool_made_again_is_not_written(rig: Rig) -> None:
    rig.store.put(node_pool() | {"metadata": {"name": "spot", "uid": "another"}})

    (outcome,) = await rig.apply(node_pool_change("hold"))

    assert outcome.detail.startswith("recreated")


@pytest.mark.parametrize("budgets", [BUDGETS, [], None])
async def test_a_hold_ends_with_the_budgets_equal_byte_by_byte(rig: Rig, budgets: list[Obj] | None) -> None:
    rig.store.put(node_pool(budgets=budgets))
    before = spec(rig)

    (held,) = await rig.apply(node_pool_change("hold"))
    during = spec(rig)["disruption"]["budgets"]
    (ended,) = await rig.apply(node_pool_change("end-hold"))

    assert (held.status, ended.status) == ("written", "written")
    assert during == [*(budgets or [{"nodes": "10%"}]), HELD]  # without a list of its own, Karpenter's default holds on
    assert msgspec.json.encode(spec(rig)) == msgspec.json.encode(before)
    assert annotations(rig) == {}


async def test_the_template_is_in_no_patch(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "4"}, budgets=BUDGETS))

    await rig.apply(node_pool_change("hold"), node_pool_change("limit", limit_from=4, limit_to=8))
    await rig.apply(node_pool_change("restore-limit", limit_from=8, limit_to=4), node_pool_change("end-hold"))

    assert len(rig.writes) == 4
    assert {key for entry in rig.writes for key in entry.body["spec"]} == {"limits", "disruption"}
    assert all(set(entry.body["spec"].get("disruption", {})) <= {"budgets"} for entry in rig.writes)


async def test_a_second_hold_writes_nothing(rig: Rig) -> None:
    rig.store.put(node_pool(budgets=BUDGETS))
    await rig.apply(node_pool_change("hold"))

    (outcome,) = await rig.apply(node_pool_change("hold"))

    assert outcome.status == "written"
    assert len(rig.writes) == 1


async def test_the_annotation_stays_until_hold_and_limit_are_both_given_back(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "4"}, budgets=BUDGETS))
    before = spec(rig)
    await rig.apply(node_pool_change("hold"), node_pool_change("limit", limit_from=4, limit_to=8))

    await rig.apply(node_pool_change("end-hold"))
    between = annotations(rig)
    await rig.apply(node_pool_change("restore-limit", limit_from=8, limit_to=4))

    assert ORIGINALS in between
    assert annotations(rig) == {}
    assert msgspec.json.encode(spec(rig)) == msgspec.json.encode(before)


async def test_limits_that_a_person_sets_during_a_hold_are_theirs(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "8", "cpu": "100"}, budgets=BUDGETS))
    await rig.apply(node_pool_change("hold"))
    saved = msgspec.json.decode(annotations(rig)[ORIGINALS])
    rig.store.patch(NODEPOOLS, "spot", {"spec": {"limits": {GPU: "32", "cpu": "400"}}})

    given_back = restorer(KUBE_NODEPOOLS, OURS, unnamed=False)(rig.object(NODEPOOLS, "spot"))
    await rig.apply(node_pool_change("end-hold"))

    assert saved == {"budgets": BUDGETS, "by": OURS}
    assert given_back is not None
    assert given_back["spec"] == {"disruption": {"budgets": BUDGETS}}
    assert spec(rig)["limits"] == {GPU: "32", "cpu": "400"}
    assert annotations(rig) == {}


async def test_limits_that_were_given_back_are_a_persons_again_while_a_hold_lasts(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "4"}, budgets=BUDGETS))
    await rig.apply(node_pool_change("hold"), node_pool_change("limit", limit_from=4, limit_to=8))
    await rig.apply(node_pool_change("restore-limit", limit_from=8, limit_to=4))
    rig.store.patch(NODEPOOLS, "spot", {"spec": {"limits": {GPU: "32"}}})

    await rig.apply(node_pool_change("end-hold"))

    assert spec(rig)["limits"] == {GPU: "32"}
    assert annotations(rig) == {}


async def test_budgets_edited_during_a_hold_lose_only_the_hold(rig: Rig) -> None:
    rig.store.put(node_pool(budgets=BUDGETS))
    await rig.apply(node_pool_change("hold"))
    rig.store.patch(NODEPOOLS, "spot", {"spec": {"disruption": {"budgets": [{"nodes": "5%"}, HELD]}}})

    await rig.apply(node_pool_change("end-hold"))

    assert spec(rig)["disruption"]["budgets"] == [{"nodes": "5%"}]


async def test_budgets_edited_between_two_holds_are_the_ones_given_back(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "4"}, budgets=BUDGETS))
    await rig.apply(node_pool_change("limit", limit_from=4, limit_to=8))  # saves budgets too
    rig.store.patch(NODEPOOLS, "spot", {"spec": {"disruption": {"budgets": [{"nodes": "5%"}]}}})

    await rig.apply(node_pool_change("hold"))
    await rig.apply(node_pool_change("end-hold"))
    await rig.apply(node_pool_change("restore-limit", limit_from=8, limit_to=4))

    assert spec(rig)["disruption"]["budgets"] == [{"nodes": "5%"}]
    assert annotations(rig) == {}


@pytest.mark.parametrize("kind", ["end-hold", "restore-limit"])
async def test_without_originals_nothing_is_restored(rig: Rig, kind: str) -> None:
    rig.store.put(node_pool(limits={GPU: "8"}))

    (outcome,) = await rig.apply(node_pool_change(kind, limit_from=8, limit_to=4))

    assert outcome.detail.startswith("originals")
    assert rig.writes == []


@pytest.mark.parametrize("kind", ["hold", "limit", "end-hold", "restore-limit"])
async def test_a_lost_reply_is_read_back(rig: Rig, kind: str) -> None:
    rig.store.put(node_pool(limits={GPU: "4"}, budgets=BUDGETS))
    numbers = {"hold": (4, 4), "limit": (4, 8), "end-hold": (4, 4), "restore-limit": (8, 4)}[kind]
    if kind == "end-hold":
        await rig.apply(node_pool_change("hold"))
    if kind == "restore-limit":
        await rig.apply(node_pool_change("limit", limit_from=4, limit_to=8))
    rig.server.faults.lose_next_replies(1, method="PATCH")

    (outcome,) = await rig.apply(node_pool_change(kind, limit_from=numbers[0], limit_to=numbers[1]))

    assert (outcome.status, outcome.detail) == ("written", "the reply was lost; the object shows our value")


BUDGET = st.fixed_dictionaries(
    {"nodes": st.sampled_from(["0", "10%", "3"])},
    optional={"reasons": st.lists(st.sampled_from(["Empty", "Drifted", "Underutilized"]), min_size=1, unique=True)},
).filter(lambda budget: budget != HOLD)
OPS = st.sampled_from(["limit", "restore-limit", "hold", "end-hold"])


@given(
    limits=st.none() | st.dictionaries(st.sampled_from([GPU, "cpu"]), st.sampled_from(["4", "9"])),
    budgets=st.none() | st.lists(BUDGET, max_size=3),
    steps=st.lists(OPS, max_size=8),
)
def test_any_sequence_ends_where_it_began(limits: Obj | None, budgets: list[Obj] | None, steps: list[str]) -> None:
    """Pure: what hold and limit took, end-hold and restore-limit give back, in whatever order."""
    obj = node_pool(limits=limits, budgets=budgets)
    before = msgspec.json.encode(obj, order="sorted")
    for step in [*steps, "end-hold", "restore-limit"]:
        now, saved = Parts.of(obj), Parts.saved(obj, OURS)
        if step == "limit":
            wanted = now.with_limit(GPU, "8")
        elif step == "hold":
            wanted = now.with_hold()
        elif saved is None:
            continue
        else:
            wanted = now.with_limit_of(saved, GPU) if step == "restore-limit" else now.without_hold(saved)
        obj = merged(obj, patch(obj, wanted, OURS) or {})
    if not obj["metadata"].get("annotations"):
        obj["metadata"].pop("annotations", None)
    assert msgspec.json.encode(obj, order="sorted") == before


@pytest.mark.parametrize("kind", ["hold", "limit", "end-hold"])
async def test_another_installations_node_pool_is_refused_and_named(rig: Rig, kind: str) -> None:
    obj = node_pool(limits={GPU: "4"})
    obj["metadata"]["annotations"] = {ORIGINALS: '{"limits":null,"budgets":null,"by":"search/rebalancer"}'}
    rig.store.put(obj)

    (outcome,) = await rig.apply(node_pool_change(kind, limit_from=4, limit_to=8))

    assert refused(outcome, "installation")
    assert rig.writes == []


async def test_a_node_pool_that_the_policy_has_left_out_is_not_written(rig: Rig) -> None:
    rig.store.put(node_pool())
    rig.facts = rig.facts_under(a_policy(a_model("a")))

    (outcome,) = await rig.apply(node_pool_change("hold"))

    assert refused(outcome, "moved")


async def test_a_change_that_the_server_denied_twice_rests_a_minute_and_other_kinds_do_not(rig: Rig) -> None:
    rig.store.put(node_pool(limits={GPU: "4"}))
    rig.server.faults.fail_next(2, 403, method="PATCH", path_part="/nodepools/spot")
    gate = rig.gate()
    raised, held = node_pool_change("limit", limit_from=4, limit_to=8), node_pool_change("hold")

    outcomes = [(await rig.apply_by(gate, raised))[0] for _ in range(3)]
    (other,) = await rig.apply_by(gate, held)
    rig.clock.passed += DENIED_SECONDS
    (later,) = await rig.apply_by(gate, raised)

    assert [outcome.status for outcome in outcomes] == ["failed", "failed", "refused"]
    assert refused(outcomes[2], "webhook")
    assert (other.status, later.status) == ("written", "written")
