"""What a count of replicas costs on one path, against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.state.outlook import value
from rebalancer.state.outlook.scenarios import Paths
from rebalancer.state.outlook.value import Serving, Standing, capacities, costs, late_and_left
from tests.state.outlook import plain
from tests.state.outlook.ahead import serving, standing

STEPS, DT, COLD = 75, 2, 60


def lanes(work: np.ndarray, model: list[int], level: list[float]) -> Paths:
    count = len(model)
    return Paths(work.astype(np.float32), np.array(model), np.ones(count), np.array(level))


@given(
    ready=st.integers(0, 6),
    due=st.lists(st.integers(0, 100), max_size=4),
    count=st.integers(0, 14),
    cold=st.integers(1, 150),
)
def test_capacity_follows_from_who_starts_when_and_who_goes_first(
    ready: int, due: list[int], count: int, cold: int
) -> None:
    there = standing((ready, [float(d) for d in due], 0.0), (1, [3.0], 0.0))
    counts = np.array([[count, 2]])
    found = capacities(there, counts, STEPS, DT, cold)
    assert found[:, 0, 0].tolist() == plain.capacity(ready, due, count, cold, STEPS, DT)
    assert found[:, 0, 1].tolist() == plain.capacity(1, [3.0], 2, cold, STEPS, DT)


def some_paths(seed: int, models: int, each: int, level: float = 6.0) -> Paths:
    chance = np.random.default_rng(seed)
    work = chance.gamma(0.3, level * DT / 0.3, (STEPS, models * each))
    return lanes(work, sorted(list(range(models)) * each), [level] * models * each)


def test_late_work_is_that_of_a_queue_stepped_second_by_second() -> None:
    of = some_paths(1, 2, 5)
    there = standing((6, [10.0, 40.0], 3.0), (9, [], 40.0))
    counts = np.array([[4, 5], [7, 8], [10, 12]])
    able = capacities(there, counts, STEPS, DT, COLD)
    found = costs(of, able, there.backlog, serving(2), DT)
    for row in range(3):
        for lane, model in enumerate(of.model.tolist()):
            wanted = plain.cost(of.work[:, lane].tolist(), able[:, row, model].tolist(), there.backlog[model], 6.0, DT)
            assert found[row, lane] == pytest.approx(wanted, rel=2e-4, abs=1e-3)


def test_of_what_arrives_no_more_is_late_than_arrives_and_what_waits_at_the_end_is_counted_apart() -> None:
    of = some_paths(3, 1, 4, level=9.0)
    there = standing((2, [], 0.0))
    able = capacities(there, np.array([[2]]), STEPS, DT, COLD)
    late, left = late_and_left(of, able, there.backlog, serving(1), DT)
    assert (late <= 1.1 * of.work.sum(axis=0)).all()  # who leaves counts a tenth more
    assert (late + left > of.work.sum(axis=0)).all()
    assert (late + left == costs(of, able, there.backlog, serving(1), DT)).all()


def test_clients_that_lost_patience_and_those_turned_away_come_to_nobody() -> None:
    of = some_paths(2, 2, 4, level=9.0)
    there = standing((2, [], 20.0), (3, [], 0.0))
    able = capacities(there, np.array([[1, 2], [2, 3]]), STEPS, DT, COLD)
    ones = np.ones(2)
    queue = np.array([np.inf, 10.0]), np.array([0.0, 0.8])
    how = Serving(ones * 2.0, ones * 0.5, np.array([8.0, 1e6]), *queue, ones < 0.0, ones < 0.0)
    found = costs(of, able, there.backlog, how, DT)
    for row in range(2):
        for lane, model in enumerate(of.model.tolist()):
            bound = {"patience": 8.0} if model == 0 else {"patience": 1e6, "bound": 10.0, "per": 0.8}
            path, course = of.work[:, lane].tolist(), able[:, row, model].tolist()
            wanted = plain.cost(path, course, there.backlog[model], 9.0, DT, **bound)
            assert found[row, lane] == pytest.approx(wanted, rel=2e-3, abs=1e-2)


def test_by_the_minute_two_with_as_much_late_work_cost_less_when_one_has_all_of_it() -> None:
    burst = 30.0
    apart, together = np.zeros((STEPS, 1)), np.zeros((STEPS, 1))
    apart[[5, 35]] = together[[5, 20]] = burst  # of two replicas: each burst wears away before the next one comes
    apart[[6, 36]] = together[[6, 21]] = 1.0  # late, every time
    there = standing((2, [], 0.0))
    able = capacities(there, np.array([[2]]), STEPS, DT, COLD)
    cost = {
        (name, by_minute): costs(lanes(of, [0], [2.0]), able, there.backlog, serving(1, by_minute=by_minute), DT)[0, 0]
        for name, of in {"apart": apart, "together": together}.items()
        for by_minute in (False, True)
    }
    assert cost["together", False] == pytest.approx(cost["apart", False])
    assert cost["together", True] == pytest.approx(cost["apart", True] - 2.0 * 60)


def test_a_model_by_the_minute_beside_one_by_the_request_each_pays_its_own() -> None:
    of = some_paths(3, 2, 4)
    there = standing((6, [10.0], 3.0), (5, [], 40.0))
    able = capacities(there, np.array([[4, 5], [7, 8]]), STEPS, DT, COLD)
    how = serving(2)._replace(by_minute=np.array([False, True]))
    found = costs(of, able, there.backlog, how, DT)
    for row in range(2):
        for lane, model in enumerate(of.model.tolist()):
            path, course = of.work[:, lane].tolist(), able[:, row, model].tolist()
            wanted = plain.cost(path, course, there.backlog[model], 6.0, DT, minute=float(model))
            assert found[row, lane] == pytest.approx(wanted, rel=2e-4, abs=1e-3)


def test_a_deferred_model_pays_for_what_is_left_undone_and_the_one_beside_it_for_what_is_late() -> None:
    of = lanes(np.full((STEPS, 2), 6.0), [0, 1], [3.0, 3.0])  # 3 replicas of work for 150 s
    there = standing((2, [], 100.0), (2, [], 100.0))
    able = capacities(there, np.array([[1, 1], [2, 2], [5, 5]]), STEPS, DT, COLD)
    how = serving(2, patience=1e9)._replace(deferred=np.array([True, False]))
    found = costs(of, able, there.backlog, how, DT)
    # 100 + 450 came; three new ones serve for 90 s.
    assert found[:, 0].tolist() == pytest.approx([400.0, 250.0, 0.0], abs=10.0)
    assert found[:, 1].tolist() == costs(of, able, there.backlog, serving(2, patience=1e9), DT)[:, 1].tolist()


def test_a_sweep_in_pieces_is_the_same_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    of = some_paths(4, 3, 7)
    there = standing((6, [10.0], 3.0), (9, [], 40.0), (4, [], 0.0))
    able = capacities(there, np.array([[5, 8, 4], [7, 9, 6]]), STEPS, DT, COLD)
    whole = costs(of, able, there.backlog, serving(3), DT)
    monkeypatch.setattr(value, "LANES_TIMES_COUNTS", 8)
    assert (costs(of, able, there.backlog, serving(3), DT) == whole).all()


def test_a_backlog_that_no_count_can_clear_in_time_is_still_worth_clearing() -> None:
    # Within the horizon every arrival is late whatever is done: only what comes after tells counts apart.
    of = lanes(np.full((STEPS, 1), 24.0), [0], [12.0])
    there = standing((13, [], 390.0))
    able = capacities(there, np.arange(13, 20)[:, np.newaxis], STEPS, DT, COLD)
    found = costs(of, able, there.backlog, serving(1), DT)[:, 0]
    assert (np.diff(found) < 0.0).all()
    assert found[0] - found[-1] > 20.0


def test_without_replicas_whatever_comes_is_late() -> None:
    of = lanes(np.full((STEPS, 1), 2.0), [0], [1.0])
    there = Standing(np.array([0]), np.zeros((1, 0)), np.array([0.0]))
    able = capacities(there, np.array([[0], [1]]), STEPS, DT, COLD)
    found = costs(of, able, there.backlog, serving(1), DT)[:, 0]
    assert found[0] >= 2.0 * (STEPS - 1)
    assert found[1] < 0.7 * found[0]
