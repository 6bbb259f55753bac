"""The recorded work played again: the physics are the simulator's, and each course gets the same work."""

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.domain.policy import Policy
from rebalancer.domain.pool_view import PoolView
from rebalancer.ledger.looks import look
from rebalancer.obs.ledger_reading import RecordedLook
from rebalancer.report.days import DAY, Days, ModelDay, RecordedDay
from rebalancer.report.lateness import by_its_autoscaler, late_with, needed, played
from rebalancer.sim.controller import Seen
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.scenario import Scenario, ScenarioModel
from tests.builders import NOW, a_model, a_node, a_policy, a_snapshot

SECONDS = 1800


def a_served(work: float = 3.0, **overrides: float) -> ScenarioModel:
    wave = np.full(SECONDS, work)
    wave[600:900] *= 2.0
    fields: dict[str, object] = {"name": "a", "work": wave, "requests": 2.0 * wave, "first": 4, "floor": 4, "most": 4}
    return ScenarioModel(**(fields | overrides))  # type: ignore[arg-type]  # the fields of a scenario's model


class _Stays:
    every_seconds = 60

    def decide(self, seen: Seen) -> list[int]:
        return list(seen.desired)


@pytest.mark.parametrize("promised", [{"slo_wait_seconds": 2.0}, {"slo_wait_seconds": 60.0, "deferred": True}])
def test_recorded_replicas_are_as_late_as_the_simulator_finds_them(promised: dict[str, float]) -> None:
    model = a_served(**promised)
    simulated = play(Scenario("x", "", (model,), (8,), SECONDS), _Stays(), "stays").late[0]
    assert simulated.sum() > 0.0
    np.testing.assert_array_equal(late_with(model, np.full(SECONDS, 4, np.int32)), simulated)


def test_the_need_of_an_hour_is_the_smallest_number_that_keeps_99_of_100_in_time() -> None:
    model = a_served()
    need = needed(model, 0, SECONDS)
    late = [late_with(model, np.full(SECONDS, count, np.int32)).sum() for count in (need - 1, need)]
    assert late[1] <= 0.01 * model.requests.sum() < late[0]
    assert needed(a_served(0.0), 0, SECONDS) == 0


@pytest.mark.parametrize("counted", [0, 300, 1200])
def test_the_need_of_an_hour_is_by_its_work_while_nobody_counts_its_requests(counted: int) -> None:
    model = a_served()
    model.requests[counted:] = 0.0
    assert needed(model, 0, SECONDS) == needed(a_served(), 0, SECONDS) > 1


def a_day(ready: int, entitlement: int) -> RecordedDay:
    policy = a_policy(a_model("a", entitlement=entitlement))
    day = RecordedDay(int(NOW), policy, SECONDS, nodes=(8,))
    model = ModelDay(policy.models[0], ready, (1, 8))
    model.work[:SECONDS] = model.requests[:SECONDS] = 3.5
    model.ready[:SECONDS] = ready
    day.models["a"] = model
    return day


def test_late_work_of_which_nobody_counts_requests_is_heard_as_no_late_request() -> None:
    day = a_day(ready=2, entitlement=2)
    heard: list[float] = []
    played(day, None, lambda _, late: heard.append(float(late.sum())))
    day.models["a"].requests[:] = 0.0
    (hour,) = played(day, None, lambda _, late: heard.append(float(late.sum())))
    assert (hour.requests, hour.counted_work, len(heard)) == (None, 0.0, 1)
    assert hour.late > 0.0


def test_alone_a_model_has_its_entitlement_and_nothing_else() -> None:
    (hour,) = played(a_day(ready=5, entitlement=2), None)
    assert (hour.late, hour.late_by_autoscaler, hour.needed) == (0.0, None, 4)
    assert hour.late_alone is not None
    assert hour.late_alone > 0.9 * 3.5 * SECONDS


def test_what_owns_nothing_is_not_played_alone() -> None:
    (hour,) = played(a_day(ready=5, entitlement=1), None)
    assert hour.late_alone is not None
    day = a_day(ready=5, entitlement=1)
    day.models["a"].entry = a_model("a", 0, entitlement=0)
    (hour,) = played(day, None)
    assert hour.late_alone is None


def test_the_autoscaler_begins_where_it_was_and_goes_on_where_it_ended() -> None:
    kept: dict[str, int] = {}
    played(a_day(ready=5, entitlement=2), kept)
    assert kept == {"a": 5}  # nobody scales it: it stays as it stood


def a_day_of(policies: list[Policy], work: float, replicas: int) -> RecordedDay:
    """Ten seconds under each policy of one model; its replicas have all four GPUs there are."""
    days: list[RecordedDay] = []
    gathering = Days(days.append)
    for step, policy in enumerate([*policies, policies[-1]]):
        name = policy.models[0].id
        pools = (PoolView(policy.pools[0].name, (a_node("n1", 4),)),)
        seen = a_snapshot(policy, {name: replicas}, work={name: work}, at=NOW + 10.0 * step, pools=pools)
        gathering.see(RecordedLook(look(seen, policy), policy))
    gathering.end()
    (day,) = days
    return day


def test_a_day_keeps_the_most_gpus_of_each_pool() -> None:
    policy, days = a_policy(), list[RecordedDay]()
    gathering = Days(days.append)
    for step, gpus in enumerate((4, 8, 2)):
        pools = (PoolView("a100", (a_node("n1", gpus), a_node("n2", 1))),)
        seen = a_snapshot(policy, {"a": 1}, at=NOW + 10.0 * step, pools=pools)
        gathering.see(RecordedLook(look(seen, policy), policy))
    gathering.end()
    assert days[0].pool_gpus == {"a100": 9}
    assert next(days[0].stretches()).pool_gpus == {"a100": 9}


def test_a_model_that_took_anothers_place_has_all_gpus_before_too() -> None:
    one, other = (a_policy(a_model(name)) for name in ("v1", "v2"))
    hours = played(a_day_of([one] * 90 + [other] * 90, work=3.0, replicas=4), {})
    assert {hour.model for hour in hours} == {"v1", "v2"}
    assert [(hour.late, hour.late_by_autoscaler) for hour in hours] == [(0.0, 0.0)] * len(hours)


def test_a_model_that_gets_another_name_and_its_old_one_again_is_before_one_model() -> None:
    """Its replicas stay as they stood: at no time are there twice as many, and none waits for GPUs."""
    named = a_policy(a_model("a"))
    renamed = a_policy(named.models[0].model_copy(update={"id": "z"}))  # the workload is the same
    day = a_day_of([named] * 2 + [renamed] * 2 + [named] * 2, work=2.0, replicas=3)
    assert list(day.models["a"].work[:60] + day.models["z"].work[:60]) == [2.0] * 60  # the look that shows it, too
    courses = by_its_autoscaler(day, begin := {"a": 4})
    assert [part.policy.models[0].id for part in day.stretches()] == ["a", "z", "a"]
    assert list(courses["a"].ready + courses["z"].ready) == [4] * 60
    assert list(np.flatnonzero(courses["z"].ready)) == list(range(20, 40))
    assert begin["a"] == 4


def test_work_is_that_of_the_later_look_and_replicas_are_those_of_the_earlier() -> None:
    policy = a_policy()
    days: list[RecordedDay] = []
    gathering = Days(days.append)
    for at, replicas, work in ((0.0, 2, 9.0), (10.0, 4, 1.5), (20.0, 1, 2.5)):
        seen = replace(a_snapshot(policy, {"a": replicas}, work={"a": work}), at=NOW + at)
        gathering.see(RecordedLook(look(seen, policy), policy))
    gathering.end()
    (day,) = days
    assert day.seconds == 20
    assert list(day.models["a"].ready[[0, 9, 10, 19]]) == [2, 2, 4, 4]
    assert list(day.models["a"].work[[0, 9, 10, 19]]) == [1.5, 1.5, 2.5, 2.5]
    assert len(day.models["a"].work) == DAY


def test_requests_are_counted_where_somebody_counts_them() -> None:
    policy = a_policy()
    assert look(a_snapshot(policy, {"a": 1}, work={"a": 1.0}), policy).models["a"].work_of_one is None
