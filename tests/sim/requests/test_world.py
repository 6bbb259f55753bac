from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rebalancer.sim.controller import Seen
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.requests.fluid import fluid_minutes, lost_utility
from rebalancer.sim.requests.scenarios import OWN_SECONDS, s1
from rebalancer.sim.requests.world import RequestScenario, RequestSeen, play_requests
from rebalancer.sim.traces.faro import FaroDay


class Timetable:
    """Asks for what a table says from a second on."""

    every_seconds = 10

    def __init__(self, table: dict[int, list[int]], look: Callable[[Seen], None] = lambda _: None) -> None:
        self._table = table
        self._look = look

    def decide(self, seen: Seen) -> Sequence[int]:
        self._look(seen)
        return self._table.get(seen.now, list(seen.desired))


def scenario(*per_minute: int, minutes: int = 5, gpus: int = 8) -> RequestScenario:
    counts = np.repeat(np.array(per_minute)[:, None], minutes, axis=1)
    return s1(FaroDay(1, tuple(f"job{n}" for n in range(len(per_minute))), counts), gpus, "clean", 42)


def test_a_replica_serves_35_seconds_after_it_was_asked_for() -> None:
    run = play_requests(scenario(100), Timetable({20: [3]}), "t")
    assert run.record.ready[0, 54] == 1
    assert run.record.ready[0, 55] == 3
    assert run.record.starts == 2


def test_a_replica_that_moves_between_jobs_is_away_for_65_seconds() -> None:
    run = play_requests(scenario(100, 100, gpus=4), Timetable({10: [3, 1], 100: [1, 3]}), "t")
    assert run.record.ready[0, 99] == 3
    assert run.record.ready[0, 100] == 1
    assert run.record.ready[1, 164] == 1
    assert run.record.ready[1, 165] == 3
    assert run.record.gpus.max() <= 4


def test_the_record_counts_the_same_requests_as_the_minutes() -> None:
    run = play_requests(scenario(900, 200), Timetable({}), "t")
    assert run.record.late.sum() == np.nansum(run.minutes.late * run.minutes.requests)
    assert run.record.lost[0].sum() > 0
    assert run.record.lost[1].sum() == 0
    assert (run.record.lost <= run.record.late).all()
    assert (run.record.late <= np.stack([model.requests for model in run.record.scenario.models])).all()


def test_the_view_shows_latency_by_the_second_of_the_answer_refusals_included() -> None:
    seen_at: dict[int, float | None] = {}

    def look(seen: Seen) -> None:
        assert isinstance(seen, RequestSeen)
        seen_at[seen.now] = seen.latency_seconds(0, 30)

    run = play_requests(scenario(1600), Timetable({}, look), "t")
    latest = seen_at[290]
    assert latest is not None
    assert run.record.lost.sum() > 0.6 * 5 * 1600  # one replica serves 6.5 of 26.7 per second
    assert 0.2 * 8.6 < latest < 0.3 * 8.6  # a quarter waits behind 55 others, the rest is refused at once


def test_an_idle_job_shows_no_latency() -> None:
    seen_at: list[float | None] = []

    def look(seen: Seen) -> None:
        assert isinstance(seen, RequestSeen)
        seen_at.append(seen.latency_seconds(1, 30))

    play_requests(scenario(10, 0), Timetable({}, look), "t")
    assert set(seen_at) == {None}


def test_two_controllers_on_one_seed_meet_the_same_requests_and_a_run_repeats_itself() -> None:
    case = scenario(700)
    one, again = (play_requests(case, Timetable({20: [2]}), "t") for _ in range(2))
    assert np.array_equal(one.record.wait, again.record.wait)
    more = play_requests(case, Timetable({20: [4]}), "t")
    assert np.array_equal(more.minutes.requests, one.minutes.requests)
    assert more.lost_utility < one.lost_utility


def test_a_number_under_the_floor_is_a_breach_once_for_as_long_as_it_stands() -> None:
    run = play_requests(scenario(10), Timetable({20: [0], 30: [0], 40: [1]}), "t")
    assert run.record.floor_breaches == 1


def test_on_the_fast_path_a_minute_is_worth_its_longest_wait() -> None:
    case = scenario(400, minutes=3)  # 6.7 per second on a replica that does 6.5
    record = play(case.scenario, Timetable({}), "t")
    minutes = fluid_minutes(record)
    assert minutes.p99_seconds[0, 1] == pytest.approx(record.wait[0, 60:120].max() + OWN_SECONDS)
    assert lost_utility(record) == pytest.approx(1.0 - np.minimum(1.0, 0.72 / minutes.p99_seconds).mean())
    assert (minutes.late[0] > 0).tolist() == [bool(record.late[0, 60 * n : 60 * n + 60].any()) for n in range(3)]


def test_who_is_held_up_by_nobody_takes_as_long_as_the_fluid_form_says() -> None:
    case = scenario(1, minutes=2000)  # a request a minute: its latency is the minute's p99
    minutes = play_requests(case, Timetable({}), "t").minutes
    alone = np.nanquantile(minutes.p99_seconds, 0.99)
    assert alone == pytest.approx(OWN_SECONDS, rel=0.1)
    (model,) = case.scenario.models
    assert model.slo_wait_seconds == pytest.approx(0.72 - alone, rel=0.1)  # so much it may wait besides
    fluid = fluid_minutes(play(case.scenario, Timetable({}), "t"))
    assert np.nanmax(fluid.p99_seconds) == pytest.approx(alone, rel=0.1)


def test_on_the_fast_path_a_minute_that_turned_away_a_hundredth_is_worth_nothing() -> None:
    record = play(scenario(1600).scenario, Timetable({}), "t")
    assert fluid_minutes(record).utility[0, 1:].tolist() == [0.0] * 4
