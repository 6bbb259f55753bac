"""Targets whose ScaledObjects ask us: the gate's checks hold, and nothing goes to the API server."""

from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import MetricView, TargetView
from tests.act.rig import Rig, change, refused, scaled_object
from tests.builders import NOW, a_model, a_policy, an_autoscaler


def a_follower(rig: Rig, minimum: int = 1, maximum: int = 9, **metric: object) -> TargetView:
    """The target of b, which follows our answer between the bounds of ScaledObject b."""
    rig.policy = a_policy(a_model("a"), a_model("b", min_replicas=2, actuation="metric"), pools=rig.policy.pools)
    rig.store.put(scaled_object("b", minimum, maximum))
    return rig.show("b", autoscaler=an_autoscaler(minimum, maximum), metric=replace(MetricView(), **metric))


async def test_a_number_is_noted_with_intent_and_outcome_and_nothing_is_written(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(a_follower(rig), 4))

    assert outcome.status == "written"
    assert rig.written == [("b", 4)]
    assert (rig.notebook.intents[0].replicas_to, rig.notebook.intents[0].minimum_to) == (4, None)
    assert rig.writes == []


async def test_a_decrease_waits_for_its_intent_here_too(rig: Rig) -> None:
    rig.notebook.acknowledges = False
    (outcome,) = await rig.apply(change(a_follower(rig), 4))
    assert refused(outcome, "unrecorded")
    assert rig.written == []


async def test_no_number_goes_below_the_floor(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(a_follower(rig), 1))
    assert refused(outcome, "floor")


async def test_a_number_that_its_scaled_object_does_not_admit_is_refused_with_both(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(a_follower(rig, maximum=5), 6))
    assert refused(outcome, "bounds")
    assert "admits 1 to 5 replicas, and 6 are wanted" in outcome.detail


async def test_who_does_not_follow_or_is_paused_by_now_is_asked_for_nothing(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(a_follower(rig, faults=("its targetValue is 10, not 1",)), 4))
    assert refused(outcome, "metric")
    rig.store.put(scaled_object("b", 1, 9, annotations={"autoscaling.keda.sh/paused": "true"}))
    (outcome,) = await rig.apply(change(rig.show("b", metric=MetricView()), 4))
    assert refused(outcome, "paused")
    assert rig.written == []


async def test_shadow_notes_no_number(rig: Rig) -> None:
    plan = Plan(cycle=7, at=NOW, changes=(change(a_follower(rig), 4),), node_pools=())
    await rig.gate("shadow").apply(plan, rig.policy, Memory())
    assert rig.written == []
