"""Targets whose ScaledObjects ask us for their replicas: what is answered, and what it survives."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from rebalancer.domain.arithmetic import assured, converging, peak_replicas
from rebalancer.domain.autoscalers import Originals, ScaledObject
from rebalancer.domain.metric_trigger import Fallback, HpaPace, MetricTrigger, desired_path
from rebalancer.domain.owners import claims, refusing, written
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import MetricView, TargetView
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy, a_pool
from tests.state.objects import a_cluster_node, a_scaled_object, a_state, a_workload, an_hpa, changed, feed, gone, ref

POLICY = a_policy(a_model("b", min_replicas=1, max_replicas=8, actuation="metric"), pools=(a_pool(),))
BY_BOUNDS = a_policy(a_model("b", min_replicas=1, max_replicas=8), pools=(a_pool(),))
OURS = Originals(1, 4)
TRIGGER = MetricTrigger(desired_path("b", "a100"), everybody=True, fallback=Fallback(1, "currentReplicasIfHigher"))


def follower(minimum: int = 1, maximum: int = 8, trigger: MetricTrigger | None = TRIGGER) -> ScaledObject:
    one = a_scaled_object()
    assert isinstance(one, ScaledObject)
    return replace(one, minimum=minimum, maximum=maximum, metric=trigger)


def a_following_state(replicas: int = 3, policy: Policy = POLICY, scaled: ScaledObject | None = None) -> ClusterState:
    return a_state(policy, a_cluster_node(), a_workload(replicas=replicas), scaled or follower())


def target_in(state: ClusterState) -> TargetView:
    (target,) = next(model for model in state.peek(NOW).models if model.id == "b").targets
    return target


def desired(target: TargetView) -> int | None:
    assert isinstance(target.metric, MetricView)
    return target.metric.desired


def test_before_a_plan_asked_for_a_number_the_replicas_there_are_are_it() -> None:
    target = target_in(a_following_state(3))
    assert target.by_metric
    assert (desired(target), converging(target)) == (None, 3)


def test_a_number_counts_until_the_next_one_and_a_release_until_the_replicas_have_gone() -> None:
    state = a_following_state(3)
    state.note_write("b", ref(), 2, NOW)
    later = next(model for model in state.peek(NOW + 3600.0).models if model.id == "b").targets[0]
    assert (converging(later), peak_replicas(later), assured(later)) == (2, 3, 2)
    feed(state, changed(a_workload(replicas=2, resource_version="2", writer="kube-controller-manager")))
    there = target_in(state)
    assert (converging(there), peak_replicas(there), there.foreign) == (2, 2, ())


def test_its_own_bounds_hold_whatever_is_asked_for() -> None:
    state = a_following_state(3, scaled=follower(2, 4))
    state.note_write("b", ref(), 7, NOW)
    assert converging(target_in(state)) == 4


def test_a_new_start_goes_on_with_the_number_unless_more_runs_by_then() -> None:
    before = a_following_state(3)
    before.note_write("b", ref(), 5, NOW)
    for replicas, then in ((3, 5), (5, 5), (6, None)):
        after = a_following_state(replicas)
        after.restore_foreign(before.foreign_past())
        assert desired(target_in(after)) == then
        standing_by = a_following_state(replicas)
        standing_by.succeed_foreign(before.foreign_past())
        assert desired(target_in(standing_by)) == then


def test_a_number_does_not_come_back_with_the_actuation_nor_for_another_deployment_of_that_name() -> None:
    state = a_following_state(3)
    state.note_write("b", ref(), 5, NOW)
    state.set_policy(BY_BOUNDS, NOW)
    assert target_in(state).metric is UNSET
    state.set_policy(POLICY, NOW)
    assert desired(target_in(state)) is None
    state.note_write("b", ref(), 5, NOW)
    feed(state, gone(a_workload()), changed(a_workload(replicas=1, uid="another")))
    assert desired(target_in(state)) is None


def test_who_does_not_follow_is_refused_by_name_and_who_follows_late_is_told() -> None:
    unasked = refusing(target_in(a_following_state(scaled=follower(trigger=None))))
    assert unasked is not None
    assert "does not ask for /v1/models/b/desired/a100" in unasked.why
    late = target_in(a_following_state())
    assert refusing(late) is None
    assert [claim.way_out for claim in claims(late)] == ["set behavior.scaleDown.stabilizationWindowSeconds to 0"]
    assert written(late) == "the answer to the metrics-api trigger of ScaledObject b"


@pytest.mark.parametrize(
    ("tolerances", "ways"), [((0.0, 0.0), []), ((None, 0.0), ["up"]), ((None, None), ["up", "down"])]
)
def test_a_tolerance_that_the_api_server_dropped_is_told_with_its_gate(
    tolerances: tuple[float | None, float | None], ways: list[str]
) -> None:
    at_once = replace(TRIGGER, up=HpaPace(0.0), down=HpaPace(0.0))
    large = a_policy(a_model("b", min_replicas=1, max_replicas=20, actuation="metric"), pools=(a_pool(),))
    scaled = replace(follower(maximum=20, trigger=at_once), hpa_name="keda-hpa-b")
    hpa = replace(an_hpa(), name="keda-hpa-b", tolerances=tolerances)
    target = target_in(a_state(large, a_cluster_node(), a_workload(), scaled, hpa))
    assert isinstance(target.metric, MetricView)
    ignored = [limit for limit in target.metric.limits if "is not followed" in limit]
    assert [limit.split()[2] for limit in ignored] == ways
    assert all("HPAConfigurableTolerance" in limit for limit in ignored)


def test_bounds_that_we_wrote_before_are_given_back() -> None:
    saved = replace(follower(), originals=OURS)
    assert [one.state for one in a_following_state(policy=BY_BOUNDS, scaled=saved).pinned()] == ["held"]
    assert [one.state for one in a_following_state(scaled=saved).pinned()] == ["departed"]
