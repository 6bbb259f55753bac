"""The curve of one model: what it says, what it costs to change, and the traps."""

import itertools

import numpy as np
import pytest

from rebalancer.domain import codec
from rebalancer.planning.shares.curves import Curve, share_out
from rebalancer.state.outlook import Outlook, Terms, from_cells, learn, outlooks
from rebalancer.state.outlook.changepoint import shift, usual_of
from rebalancer.state.outlook.learned import Learned
from rebalancer.state.outlook.level import base, level, usual
from rebalancer.state.outlook.outlook import ModelTerms
from rebalancer.state.outlook.past import NOW
from rebalancer.state.outlook.scenarios import paths
from rebalancer.state.outlook.value import capacities, costs
from tests.state.outlook import plain
from tests.state.outlook.ahead import TERMS, ahead_of, bursty, past_of, service, serving, standing

T = 9000


def outlook(work: np.ndarray, there: tuple[int, list[float], float], of: ModelTerms | None = None) -> Outlook:
    found = outlooks(past_of(work), [Learned()], standing(there), of or service(), TERMS)[0]
    assert found is not None
    return found


def test_its_values_are_the_mean_over_the_paths_with_switching_caution_and_surges_unseen() -> None:
    work = bursty(T)
    past = past_of(work)
    learned = learn(past, 60, 150)
    there = standing((5, [20.0], 3.0))
    found = outlooks(past, learned, there, service(floor=2, priority=2.0), TERMS)[0]
    assert found is not None
    sums = past.running_sums(9000)
    now = level(base(sums, NOW), np.array([learned[0].beta]))[0]
    of, _ = paths(ahead_of(past, 75, 2, list(learned)), shift(sums, now, learned, usual_of(learned, sums, past.each)))
    tried = (2, 3, 4, 5, 6, 7, 8, 9, 12)
    each = costs(of, capacities(there, np.array(tried)[:, np.newaxis], 75, 2, 60), there.backlog, serving(1), 2)
    assert (found.least, len(found.values), found.current) == (2, 11, 6)
    assert (found.weight, found.by_minute) == (1.0, False)
    request = 2.0 / 0.5
    each_late = sum(of.weight * each[4]) / 6
    for row, count in enumerate(tried):
        late = sum(w * x for w, x in zip(of.weight, each[row], strict=True))
        apart = each[row] - each[4]
        mean = sum(of.weight * apart)
        error = np.sqrt(sum(of.weight * (apart - mean) ** 2) * sum(of.weight**2))
        caution = 2 * error + 0.06 * each_late * (6 - count) if count < 6 else 0.0
        unseen = 0.03 * 150 * now[0] ** 2 / max(count, now[0])
        wanted = (late + abs(count - 6) + caution + unseen) * request - 1e-6 * count
        assert found.values[count - 2] == pytest.approx(wanted, abs=2e-6)
        assert found.late[count - 2] == pytest.approx(late * request, abs=2e-6)
        assert found.errors[count - 2] == pytest.approx(error * request, abs=2e-6)


def test_by_the_minute_a_late_second_counts_the_same_however_much_traffic_it_has() -> None:
    # Twice the work on twice the replicas waits as long: as many late seconds, of twice the requests.
    work = bursty(T)
    minutes = service(priority=2.0)._replace(serving=serving(1, by_minute=True))
    late = {}
    for times in (1, 2):
        for of in (service(priority=2.0), minutes):
            found = outlook(times * work, (9 * times, [], 0.0), of)
            late[times, found.by_minute] = found.late[9 * times - found.least]
            usually = usual(past_of(times * work).running_sums(9000))[0]
            assert found.work_of_one == pytest.approx(usually if found.by_minute else 0.5, abs=1e-6)
    assert late[1, True] > 1.0
    assert late[2, True] == pytest.approx(late[1, True], rel=1e-3)
    assert late[2, False] == pytest.approx(2.0 * late[1, False], rel=1e-3)


def test_by_the_minute_a_second_of_a_model_that_nobody_asks_does_not_count_for_all_others() -> None:
    minutes = service()._replace(serving=serving(1, by_minute=True))
    assert outlook(bursty(T) / 100.0, (1, [], 0.0), minutes).work_of_one == 0.5


def test_models_that_start_in_different_times_are_compared_over_the_same_time() -> None:
    work = bursty(T)
    slow = Terms(180, 2)
    found = [
        outlooks(past_of(work), [Learned()], standing((5, [], 0.0)), service(), terms)[0] for terms in (TERMS, slow)
    ]
    fast, far = found
    assert fast is not None
    assert far is not None
    assert (fast.horizon_seconds, far.horizon_seconds) == (150, 270)
    assert far.weight == pytest.approx(fast.weight * 150 / 270, abs=1e-6)


def test_between_the_counts_tried_lines_are_drawn() -> None:
    found = outlook(bursty(T), (8, [], 0.0))
    at = dict(zip(range(found.least, found.least + len(found.late)), found.late, strict=True))
    for count in (12, 13):
        part = (count - 11) / 3
        assert at[count] == pytest.approx(at[11] * (1 - part) + at[14] * part, abs=2e-6)
    assert at[4] == pytest.approx(at[2] / 3 + at[5] * 2 / 3, abs=1e-5) or found.least > 2


def test_what_it_says_about_the_level_is_that_of_the_text() -> None:
    work = bursty(T)
    found = outlook(work, (5, [], 0.0))
    assert found.level == pytest.approx(plain.level(work[0], T, (0, 0, 0)), abs=1e-6)
    assert found.base == pytest.approx(plain.base(work[0], T), abs=1e-6)
    assert found.dispersion == pytest.approx(plain.dispersion(work[0], T, 300), abs=1e-6)
    assert found.work_of_one == pytest.approx(0.5)
    assert found.replays == 31


def test_what_comes_with_more_than_the_level_needs_is_never_later() -> None:
    # Below the level the curve may fall again: a model that nothing can save in time is not where a GPU helps most.
    found = outlook(bursty(T), (6, [], 0.0))
    late = found.late[int(np.ceil(found.level)) - found.least :]
    assert len(late) >= 6
    assert all(more <= fewer + 1e-6 for fewer, more in itertools.pairwise(late))
    assert late[0] > 2 * late[-1]


def test_priority_weighs_what_is_late() -> None:
    once, thrice = (outlook(bursty(T), (5, [], 0.0), service(priority=p)) for p in (1.0, 3.0))
    assert thrice.late == pytest.approx([3 * value for value in once.late], abs=1e-5)


def test_its_range_keeps_to_floor_and_most() -> None:
    within = outlook(bursty(T), (5, [], 0.0), service(floor=3, most=7))
    assert (within.least, len(within.values)) == (3, 5)
    below = outlook(bursty(T), (2, [], 0.0), service(floor=12))
    assert (below.least, len(below.values)) == (12, 1)


def test_a_model_never_observed_has_none_and_does_not_disturb_others() -> None:
    work = bursty(3000).T
    seen = np.concatenate([np.ones_like(work), np.zeros_like(work)], axis=1)
    both = np.concatenate([work, np.zeros_like(work)], axis=1)
    past = from_cells(np.arange(3001), both, seen, np.full(2, 0.5))
    found = outlooks(past, [Learned()] * 2, standing((5, [], 0.0), (5, [], 0.0)), service(2), TERMS)
    assert found[1] is None
    assert found[0] == outlooks(past_of(work.T), [Learned()], standing((5, [], 0.0)), service(), TERMS)[0]


def test_late_work_counts_where_nobody_counts_requests() -> None:
    work = bursty(T)
    uncounted = outlooks(past_of(work, each=0.0), [Learned()], standing((5, [], 0.0)), service(), TERMS)[0]
    assert uncounted is not None
    assert uncounted.late[0] > 2 * uncounted.late[-1] > 0.0
    assert uncounted.work_of_one == 1.0


def test_models_of_a_batch_have_the_curves_that_they_have_alone() -> None:
    work = bursty(T, models=4, seed=9)
    there = [(5, [], 0.0), (3, [30.0, 50.0], 2.0), (9, [], 0.0), (6, [10.0], 30.0)]
    learned = learn(past_of(work), 60, 150)
    together = outlooks(past_of(work), learned, standing(*there), service(4), TERMS)
    for model in range(4):
        alone = outlooks(
            past_of(work[model : model + 1]), learned[model : model + 1], standing(there[model]), service(), TERMS
        )[0]
        assert codec.to_bytes(together[model]) == codec.to_bytes(alone)


def test_the_same_inputs_give_the_same_bytes() -> None:
    one, other = (codec.to_bytes(outlook(bursty(T).copy(), (5, [20.0], 1.0))) for _ in range(2))
    assert one == other
    assert codec.from_bytes(one, Outlook).current == 6


def test_doubt_makes_decreases_dearer_and_leaves_increases_alone() -> None:
    # Charged on increases too, free GPUs would stay idle while somebody gains from them. Who is late itself gives only
    # where more is gained than lost by 6 % of what is late of one of its replicas.
    found = outlook(bursty(T), (5, [], 0.0))
    each_late = found.late[5 - found.least] / 5
    assert each_late > 1.0
    for row, (value, late) in enumerate(zip(found.values, found.late, strict=True)):
        count = found.least + row
        unseen = 0.03 * 150 * found.level**2 / max(count, found.level)
        caution = (value + 1e-6 * count) / found.weight - late - (abs(count - 5) + unseen) / 0.5
        doubt = 2 * found.errors[row] + 0.06 * each_late * (5 - count)
        assert caution == pytest.approx(doubt if count < 5 else 0.0, abs=2e-2)


def test_free_gpus_go_to_whom_they_help() -> None:
    work = bursty(T, mean=6.0)
    short, easy = outlook(work, (6, [], 0.0)), outlook(bursty(T, mean=0.5, seed=2), (4, [], 0.0))
    counts = share_out((Curve(short.least, short.values), Curve(easy.least, easy.values)), 16).counts
    assert counts[0] >= 10
    assert sum(counts) <= 16


def test_a_hopeless_backlog_still_draws_replicas() -> None:
    # 14 replicas against a level of 13: what waits cannot drain within the horizon with any count in range.
    work = np.random.default_rng(3).gamma(40.0, 13.0 / 40, (1, T))
    hopeless = outlook(work, (14, [], 420.0))
    easy = outlook(bursty(T, mean=1.0), (6, [], 0.0))
    counts = share_out((Curve(hopeless.least, hopeless.values), Curve(easy.least, easy.values)), 20).counts
    assert counts[0] > 14


def test_after_a_step_it_asks_for_more_than_the_slow_level_says() -> None:
    work = np.random.default_rng(3).gamma(40.0, 0.1, (1, T))
    learned = learn(past_of(work), 60, 150)
    work[0, -60:] *= 3
    found = outlooks(past_of(work), learned, standing((6, [], 0.0)), service(), TERMS)[0]
    assert found is not None
    assert found.shift > 0.5
    assert found.shifted > 10.0
    best = found.least + min(range(len(found.values)), key=found.values.__getitem__)
    assert best >= 15  # six more would gain nothing: they would not catch up
