"""The gate is the last line: a plan that takes a model under its floor is refused, whatever it says."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Change
from tests.act.rig import Rig, change, deployment, refused, scaled_object
from tests.builders import (
    NOW,
    a_model,
    a_notice,
    a_policy,
    a_pool,
    a_snapshot,
    an_autoscaler,
    an_elastic_pool,
    an_override,
)


def two_pools(rig: Rig, a100: int, spot: int, **model: object) -> None:
    """Model b with a target in each of two pools, floor 3."""
    policy = a_policy(
        a_model("b", min_replicas=3, pools=("a100", "spot"), **model), pools=(a_pool(), an_elastic_pool())
    )
    rig.stand(policy, a_snapshot(policy, replicas={"b": {"a100": a100, "spot": spot}}, nodes={"spot": 2}))


def of_b(rig: Rig, name: str, to: int) -> Change:
    return change(rig.target(name), to, model="b")


async def test_a_release_below_the_floor_is_refused(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(rig.target("b"), 1))

    assert refused(outcome, "floor")
    assert "its floor is 2" in outcome.detail
    assert rig.writes == []


@pytest.mark.parametrize("kind", ["release", "settle", "withdraw", "bounds", "grant", "no such kind"])
async def test_no_kind_of_change_passes_the_floor(rig: Rig, kind: str) -> None:
    (outcome,) = await rig.apply(change(rig.target("b"), 1, kind=kind, passes="drain"))

    assert refused(outcome, "floor")
    assert rig.writes == []


async def test_a_release_to_the_floor_is_written(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(rig.target("b"), 2))

    assert outcome.status == "written"


@pytest.mark.parametrize(("to", "status"), [(4, "written"), (3, "refused")])
async def test_a_floor_that_a_schedule_raised_holds_for_the_write_too(rig: Rig, to: int, status: str) -> None:
    (outcome,) = await rig.apply(change(rig.target("b"), to, floor=4))

    assert outcome.status == status


async def test_a_plan_that_says_less_than_the_policys_floor_is_not_believed(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(rig.target("b"), 1, floor=0))

    assert refused(outcome, "floor")
    assert "its floor is 2" in outcome.detail


async def test_doomed_replicas_do_not_hold_up_the_floor(rig: Rig) -> None:
    target = rig.target("b")
    node = target.pods[0].node or ""
    pods = tuple(replace(pod, node="n9" if n < 3 else node) for n, pod in enumerate(target.pods))
    rig.show("b", pods=pods)
    rig.facts = replace(rig.facts, notices=(a_notice("n9"),))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))  # 4 asked for, 3 of them doomed: 1 stays

    assert refused(outcome, "floor")


def a_drain_of_three(rig: Rig) -> Change:
    """Three of b's five replicas are doomed, its floor is 2: those that stay."""
    target = rig.target("b")
    pods = tuple(replace(pod, node="n9" if n < 3 else "n1") for n, pod in enumerate(target.pods))
    rig.show("b", pods=pods)
    rig.facts = replace(rig.facts, notices=(a_notice("n9", karpenter=True),))
    victims = pods[:3]
    return change(
        rig.target("b"),
        2,
        passes="drain",
        victims=tuple(pod.uid for pod in victims),
        victim_names=tuple(pod.name for pod in victims),
    )


async def test_doomed_replicas_go_even_when_the_model_is_at_its_floor(rig: Rig) -> None:
    (outcome,) = await rig.apply(a_drain_of_three(rig))

    assert outcome.status == "written"


async def test_but_not_where_nobody_marks_them_for_kubernetes_might_end_those_that_stay(rig: Rig) -> None:
    drain = a_drain_of_three(rig)
    rig.facts = replace(rig.facts, marks_victims=False)

    (outcome,) = await rig.apply(drain)

    assert refused(outcome, "floor")
    assert rig.writes == []


async def test_nor_where_one_could_not_be_marked(rig: Rig) -> None:
    drain = a_drain_of_three(rig)
    rig.server.faults.fail_next(1, 403, method="PATCH", path_part="/pods/")

    (outcome,) = await rig.apply(drain)

    assert refused(outcome, "floor")
    assert "keeps its floor only if its victims are marked" in outcome.detail
    assert rig.replicas("b") == 5


async def test_a_model_under_its_floor_may_be_raised_part_of_the_way(rig: Rig) -> None:
    rig.store.put(deployment("b", 0))
    target = rig.show("b", replicas=0, pods=())

    (outcome,) = await rig.apply(change(target, 1))

    assert outcome.status == "written"


async def test_the_floor_is_summed_over_the_models_targets(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=2)

    first, second = await rig.apply(of_b(rig, "b-spot", 1), of_b(rig, "b", 1))

    assert {first.status, second.status} == {"written", "refused"}
    assert sorted((rig.replicas("b"), rig.replicas("b-spot"))) == [1, 2]


async def test_doomed_replicas_elsewhere_do_not_hold_up_the_floor(rig: Rig) -> None:
    two_pools(rig, a100=3, spot=2)
    rig.facts = replace(rig.facts, notices=(a_notice("spot-1"),))

    (outcome,) = await rig.apply(of_b(rig, "b", 2))

    assert refused(outcome, "floor")


async def test_a_maximum_of_ours_counts_for_the_floor_before_the_hpa_shows_it(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=3)
    lowered = an_autoscaler(2, 2, effective_maximum=3, originals=Originals(1, 9))
    pods = rig.target("b-spot").pods
    rig.show("b-spot", autoscaler=lowered, pods=(replace(pods[0], node="n9"), *pods[1:]))  # still runs 3, one doomed
    rig.facts = replace(rig.facts, notices=(a_notice("n9"),))

    (outcome,) = await rig.apply(of_b(rig, "b", 1))

    assert refused(outcome, "floor")


async def test_two_releases_side_by_side_cannot_both_use_the_same_surplus(rig: Rig) -> None:
    """The facts show neither write: what counts is what the gate has under way."""
    two_pools(rig, a100=2, spot=2)
    facts = rig.facts
    rig.notebook.before_answer = lambda: setattr(rig, "facts", facts)

    outcomes = await rig.apply(of_b(rig, "b-spot", 1), of_b(rig, "b", 1))

    assert sorted(outcome.status for outcome in outcomes) == ["refused", "written"]


async def test_a_write_of_the_last_cycle_counts_before_any_watch_shows_it(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=2)
    facts, gate = rig.facts, rig.gate()
    await rig.apply_by(gate, of_b(rig, "b-spot", 1))
    rig.facts = facts

    (outcome,) = await rig.apply_by(gate, of_b(rig, "b", 1))

    assert refused(outcome, "floor")


async def test_a_release_whose_reply_was_lost_counts_as_made_for_the_floor(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=2)
    gate = rig.gate()
    rig.server.faults.fail_next(1, 500, method="PUT")

    (unknown,) = await rig.apply_by(gate, of_b(rig, "b-spot", 1))
    (outcome,) = await rig.apply_by(gate, of_b(rig, "b", 1))

    assert unknown.status == "unknown"
    assert refused(outcome, "floor")


async def test_a_raise_elsewhere_whose_reply_was_lost_does_not_hold_up_the_floor(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=2)
    gate = rig.gate()
    rig.server.faults.fail_next(1, 500, method="PUT")

    (unknown,) = await rig.apply_by(gate, of_b(rig, "b-spot", 4))
    rig.store.put(deployment("b", 2))
    (outcome,) = await rig.apply_by(gate, of_b(rig, "b", 0))

    assert unknown.status == "unknown"
    assert refused(outcome, "floor")


async def test_a_refused_write_leaves_nothing_counted(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=2)
    gate = rig.gate()
    rig.server.faults.fail_next(1, 403, method="PUT")

    await rig.apply_by(gate, of_b(rig, "b-spot", 1))
    (outcome,) = await rig.apply_by(gate, of_b(rig, "b", 1))

    assert outcome.status == "written"


async def test_a_lower_bound_below_the_floor_is_refused(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 3, 5))
    target = rig.show("b", autoscaler=an_autoscaler(3, 5, originals=Originals(1, 9)))

    (outcome,) = await rig.apply(change(target, 5, kind="bounds", minimum=1))

    assert refused(outcome, "floor")
    assert rig.bounds("b") == (3, 5)


@pytest.mark.parametrize(
    ("replicas", "shown", "status"),
    [(1, 3, "refused"), (3, 1, "refused"), (3, 3, "written")],
    ids=["the HPA has not acted on it", "KEDA has not passed it on", "it is there"],
)
async def test_a_raised_minimum_counts_for_the_floor_as_far_as_the_autoscaler_has_come(
    rig: Rig, replicas: int, shown: int, status: str
) -> None:
    two_pools(rig, a100=1, spot=3)
    raised = an_autoscaler(3, 3, effective_minimum=shown, originals=Originals(1, 9))
    rig.show("b-spot", autoscaler=raised, replicas=replicas)

    (outcome,) = await rig.apply(of_b(rig, "b", 0))

    assert outcome.status == status


async def test_an_override_that_says_so_by_name_passes_the_floor(rig: Rig) -> None:
    rig.facts = replace(rig.facts, overrides=(an_override("pin", "b", 1, allow_below_floor=True),))

    (below,) = await rig.apply(change(rig.target("b"), 0, passes="override pin-b allowBelowFloor"))
    (outcome,) = await rig.apply(change(rig.target("b"), 1, passes="override pin-b allowBelowFloor"))

    assert refused(below, "floor")  # not below what it says either
    assert outcome.status == "written"


@pytest.mark.parametrize(
    "override",
    [
        an_override("pin", "b", 1),
        an_override("pin", "b", 1, allow_below_floor=True, expires_at=NOW - 1.0),
        an_override("pin", "a", 1, allow_below_floor=True),
        an_override("drain", "b", 1, allow_below_floor=True),
    ],
    ids=["does not say so", "expired", "of another model", "of another kind"],
)
async def test_the_plans_word_alone_does_not_pass_the_floor(rig: Rig, override: Override) -> None:
    rig.facts = replace(rig.facts, overrides=(override,))

    (outcome,) = await rig.apply(change(rig.target("b"), 1, passes="override pin-b allowBelowFloor"))

    assert refused(outcome, "floor")


async def test_a_change_that_no_override_decided_keeps_the_policys_floor(rig: Rig) -> None:
    rig.facts = replace(rig.facts, overrides=(an_override("pin", "b", 1, allow_below_floor=True),))

    (outcome,) = await rig.apply(change(rig.target("b"), 1, passes="drain"))

    assert refused(outcome, "floor")


async def test_a_newer_override_of_the_kind_takes_the_exception_away(rig: Rig) -> None:
    old = an_override("pin", "b", 1, allow_below_floor=True, created_at=NOW - 90.0)
    rig.facts = replace(rig.facts, overrides=(old, an_override("pin", "b", 2, name="pin-newer")))

    (outcome,) = await rig.apply(change(rig.target("b"), 1, passes="override pin-b allowBelowFloor"))

    assert refused(outcome, "floor")


@pytest.mark.parametrize("over", [an_override("pin", "b", 2), an_override("freeze", "b")], ids=["pin", "freeze"])
async def test_an_override_that_outranks_it_takes_the_exception_away(rig: Rig, over: Override) -> None:
    rig.facts = replace(rig.facts, overrides=(an_override("cap", "b", 1, allow_below_floor=True), over))

    (outcome,) = await rig.apply(change(rig.target("b"), 1, passes="override cap-b allowBelowFloor"))

    assert refused(outcome, "floor")


def failed(rig: Rig, name: str, count: int) -> None:
    """The first `count` pods of the target are not Ready any more: they failed after the plan was made."""
    pods = rig.target(name).pods
    rig.show(name, pods=tuple(replace(pod, phase="loading") if n < count else pod for n, pod in enumerate(pods)))


async def test_pods_of_the_other_target_that_failed_since_the_plan_stop_a_release(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=3)  # floor 3: one may go while all five serve
    release = of_b(rig, "b-spot", 2)
    failed(rig, "b", 1)

    (outcome,) = await rig.apply(release)

    assert outcome.status == "written"  # 1 + 2 serve

    two_pools(rig, a100=2, spot=3)
    release = of_b(rig, "b-spot", 2)
    failed(rig, "b", 2)

    (outcome,) = await rig.apply(release)

    assert refused(outcome, "floor")
    assert outcome.detail == "floor: b would keep 2 Ready replicas, and its floor is 3"


async def test_a_release_that_may_have_been_written_excuses_no_second_one_when_pods_have_failed(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=3)
    gate = rig.gate()
    rig.server.faults.fail_next(1, 500, method="PUT")
    (first,) = await rig.apply_by(gate, of_b(rig, "b-spot", 2))
    failed(rig, "b", 2)

    (second,) = await rig.apply_by(gate, of_b(rig, "b-spot", 2))

    assert first.status == "unknown"
    assert refused(second, "floor")


async def test_nor_may_a_number_that_comes_back_take_them(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=3)
    settle = change(rig.target("b-spot"), 2, model="b", kind="settle")
    failed(rig, "b", 2)

    (outcome,) = await rig.apply(settle)

    assert refused(outcome, "floor")


async def test_pods_on_a_node_that_is_gone_serve_no_floor(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=3)
    pods = tuple(replace(pod, node="n9") for pod in rig.target("b").pods)
    rig.show("b", pods=pods)
    rig.facts = replace(rig.facts, notices=(a_notice("n9", kind="gone", deadline=NOW - 1.0),))

    (outcome,) = await rig.apply(of_b(rig, "b-spot", 2))

    assert refused(outcome, "floor")


async def test_nor_do_pods_whose_node_nobody_has_seen_and_a_replica_set_may_keep_just_them(rig: Rig) -> None:
    # Floor 3, of five Ready by their last word one is lost: nobody can be sure that it is the one that goes.
    two_pools(rig, a100=2, spot=3)
    lost, *others = rig.target("b-spot").pods
    rig.show("b-spot", pods=(replace(lost, phase="lost"), *others))

    (outcome,) = await rig.apply(of_b(rig, "b-spot", 1))

    assert refused(outcome, "floor")
    assert outcome.detail == "floor: b would keep 2 Ready replicas, and its floor is 3"


async def test_replicas_that_load_may_go_whoever_failed(rig: Rig) -> None:
    two_pools(rig, a100=1, spot=4)
    spot = rig.target("b-spot")
    rig.show("b-spot", pods=tuple(replace(pod, phase="loading") if n < 2 else pod for n, pod in enumerate(spot.pods)))
    failed(rig, "b", 1)

    (outcome,) = await rig.apply(of_b(rig, "b-spot", 3))  # 2 Ready before and after

    assert outcome.status == "written"
