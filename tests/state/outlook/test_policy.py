"""An outlook follows the policy in force, also where it is made from what was gathered under the one before."""

import pytest

from rebalancer.domain.policy import Policy
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy
from tests.state.loads import load_of, minutes_of, two_pods
from tests.state.objects import a_cluster_node, a_ready_pod, a_sample, a_state, a_workload, feed

MINUTE = 60.0  # an outlook stands no longer


def least_looked_at(state: ClusterState, minute: int) -> int:
    """Of model b, in cycle `minute`, after that many minutes more of work."""
    for second in range(5, 65, 5):
        at = NOW + MINUTE * (minute - 1) + second
        feed(state, *(a_sample(pod=pod, at=at, running=4.0) for pod in ("b-1", "b-2")), now=at)
    outlook = load_of(state.snapshot(NOW + MINUTE * minute, minute)).outlook
    assert outlook is not None
    return outlook.least


def of_floor(floor: int) -> Policy:
    return a_policy(a_model("b", floor, entitlement=4))


def test_a_model_whose_floor_is_another_is_looked_at_from_there_on() -> None:
    state = feed(two_pods(of_floor(1)), *minutes_of(running=4.0, minutes=20))
    assert least_looked_at(state, 1) == 1
    state.set_policy(of_floor(2), NOW + MINUTE)
    assert least_looked_at(state, 2) == 2
    state.set_policy(of_floor(1), NOW + 2 * MINUTE)
    assert least_looked_at(state, 3) == 1


def test_a_model_knows_nothing_of_one_that_left_the_policy_before_it_came() -> None:
    def work_of_one(policies: tuple[Policy, ...]) -> float:
        """As y knows it, whose producer counts no requests; whoever was there before it served 20 in a second."""
        state = a_state(
            policies[0], a_cluster_node(), *map(a_workload, "axy"), *(a_ready_pod(f"{name}-1", name) for name in "axy")
        )
        at = NOW
        for policy in policies:
            state.set_policy(policy, at)
            for _ in range(60):
                at += 5.0
                for model in policy.models:
                    done = None if model.id == "y" else 20.0 * (at - NOW)
                    feed(state, a_sample(model.id, f"{model.id}-1", at=at, running=2.0, finished=done), now=at)
            state.snapshot(at, int(at))
        outlook = load_of(state.peek(at), "y").outlook
        assert outlook is not None
        return outlook.work_of_one

    a, x, y = a_model("a"), a_model("x"), a_model("y")
    fresh = work_of_one((a_policy(a), a_policy(a, y)))
    assert work_of_one((a_policy(a, x), a_policy(a), a_policy(a, y))) == fresh
    assert work_of_one((a_policy(a, x), a_policy(a, y))) == fresh


def test_a_policy_may_want_none() -> None:
    model = a_model("b", 1, entitlement=4)
    state = feed(two_pods(a_policy(model)), *minutes_of(running=4.0, minutes=20))
    assert load_of(state.snapshot(NOW, 1)).outlook is not None
    state.set_policy(a_policy(model, look_ahead=False), NOW)
    assert load_of(state.snapshot(NOW + 1.0, 2)).outlook is None
    state.set_policy(a_policy(model), NOW)
    assert load_of(state.snapshot(NOW + 2.0, 3)).outlook is not None


def test_what_metrics_of_fifteen_seconds_smooth_away_is_put_back() -> None:
    """The same steady load, told finely and coarsely: within 15 s requests may have come all at once."""
    late = []
    for seconds in (5.0, 15.0):
        state = two_pods(of_floor(1))
        at = NOW - 1800.0
        while (at := at + seconds) <= NOW:
            feed(
                state,
                *(a_sample(pod=pod, at=at, running=3.6, interval_seconds=seconds) for pod in ("b-1", "b-2")),
                now=at,
            )
        outlook = load_of(state.snapshot(NOW, 1)).outlook
        assert outlook is not None
        late.append(outlook.late[outlook.current - outlook.least])
    fine, coarse = late
    assert coarse > fine + 0.1


def test_only_a_deadline_beyond_a_start_and_what_it_must_serve_defers() -> None:
    found = []
    for deadline in (150.0, 151.0, None):  # a start of 60 s, and 90 s
        model = a_model("b", 1, workload_class="batch", slo=deadline and {"latency_seconds": deadline})
        state = feed(two_pods(a_policy(model)), *minutes_of(running=4.0, minutes=20))
        outlook = load_of(state.snapshot(NOW, 1)).outlook
        assert outlook is not None
        found.append((outlook.horizon_seconds, outlook.deferred))
    assert found == [(150, False), (150, True), (150, True)]


def test_of_deferred_work_a_count_costs_what_it_leaves_undone() -> None:
    late = {}
    for kind in ("interactive", "batch"):
        state = feed(two_pods(a_policy(a_model("b", 0, workload_class=kind))), *minutes_of(running=4.0, minutes=20))
        outlook = load_of(state.snapshot(NOW, 1)).outlook
        assert outlook is not None
        late[kind] = {outlook.least + place: cost for place, cost in enumerate(outlook.late)}
    # Two replicas of work for 150 s; one that is there does 150 of the 300 replica-seconds, and none does none of them.
    assert late["batch"][0] - late["batch"][1] == pytest.approx(late["batch"][0] / 2, rel=0.1)
    assert late["batch"][1] != late["interactive"][1]


def test_a_policy_that_comes_right_after_a_start_may_leave_out_whom_the_last_cycle_saw() -> None:
    """Else the cycle after it fails: outlooks of before a start are taken up once the rings have what they rest on."""
    both = a_policy(a_model("a"), a_model("b"))
    state = ClusterState(both, NOW)
    state.resume(ClusterState(both, NOW).peek(NOW))
    state.set_policy(a_policy(a_model("b")), NOW)
    assert [load.model for load in state.snapshot(NOW, 1).loads] == ["b"]
