"""All models' outlooks over the rings: the same as made afresh, and few of them made."""

import numpy as np
import pytest

from rebalancer.state.outlook import Group, OutlookCache, outlooks
from rebalancer.state.outlook.cache import remembered
from rebalancer.state.ring_level import COVERAGE, REQUESTS, WORK
from rebalancer.state.rings import Rings
from tests.state.outlook.ahead import TERMS, bursty, service, standing

T0 = 1_800_000_001
SECONDS, MODELS = 16_000, 12
READY = 7


@pytest.fixture(scope="module")
def work() -> np.ndarray:
    noise = np.random.default_rng(1).gamma(8.0, 0.5, (MODELS, SECONDS + 600))
    noisy: np.ndarray = noise * bursty(SECONDS + 600, 1.0, models=MODELS)
    return noisy


def feed(rings: Rings, work: np.ndarray, begin: int, end: int) -> None:
    models, seconds = work.shape[0], end - begin
    columns, ends = np.repeat(np.arange(models), seconds), np.tile(np.arange(begin, end) + T0, models)
    part = work[:, begin:end].ravel()
    ones = np.ones(len(part))
    rings.add(columns, ends, ones.astype(np.int64), {WORK: part, REQUESTS: part / 0.4, COVERAGE: ones})


def group(ready: int = READY) -> Group:
    return Group(np.arange(MODELS), standing(*[(ready, [], 0.0)] * MODELS), service(MODELS), TERMS)


@pytest.fixture
def rings(work: np.ndarray) -> Rings:
    fed = Rings(MODELS)
    for begin in range(0, SECONDS, 1000):
        feed(fed, work, begin, begin + 1000)
    return fed


def test_before_the_first_sample_there_is_nothing_to_say() -> None:
    cache = OutlookCache(MODELS)
    cache.look(Rings(MODELS), [group()], 10)
    assert cache.outlooks == [None] * MODELS


def test_the_first_look_learns_and_makes_all(rings: Rings) -> None:
    cache = OutlookCache(MODELS)
    cache.look(rings, [group()], 10)
    assert cache.renewed == MODELS
    assert all(one.at for one in cache.learned)
    past = remembered(rings, np.arange(MODELS), 16_000, np.full(MODELS, 0.4))
    afresh = outlooks(past, cache.learned, group().standing, group().service, TERMS)
    for one, other in zip(cache.outlooks, afresh, strict=True):
        assert one is not None
        assert other is not None
        assert one.values == pytest.approx(other.values, rel=1e-4, abs=1e-3)
        assert one.work_of_one == pytest.approx(0.4, rel=1e-5)


def test_later_looks_renew_what_changed_and_each_model_within_a_minute(rings: Rings, work: np.ndarray) -> None:
    cache, renewed, stood = OutlookCache(MODELS), [], [0] * MODELS
    cache.look(rings, [group()], 10)
    for plan in range(12):
        before = list(cache.outlooks)
        feed(rings, work, SECONDS + 10 * plan, SECONDS + 10 * plan + 10)
        cache.look(rings, [group()], 10)
        renewed.append(cache.renewed)
        for model in range(MODELS):
            stood[model] = stood[model] + 1 if cache.outlooks[model] is before[model] else 0
            assert stood[model] < 6
    assert sum(renewed) < 0.7 * 12 * MODELS
    cache.look(rings, [group(READY + 1)], 10)
    assert cache.renewed == MODELS


def test_a_model_that_is_forgotten_is_made_and_learnt_again(rings: Rings) -> None:
    cache = OutlookCache(MODELS)
    cache.look(rings, [group()], 10)
    first = cache.outlooks[3]
    cache.forget(3)
    assert cache.outlooks[3] is None
    cache.look(rings, [group()], 10)
    (again,) = (one for one in cache.outlooks[3:4] if one is not None)
    assert first is not None
    assert again.values == pytest.approx(first.values, rel=1e-5)  # alone its sums are made in another order
    assert again.at == first.at


def test_who_starts_between_two_turns_goes_on_as_the_one_who_did_not(rings: Rings, work: np.ndarray) -> None:
    """Learnt as of the last turn, outlooks as they were, and renewed when the other one's are."""
    cache = OutlookCache(MODELS)
    for plan in range(34):  # a turn to learn comes every 30 plans
        feed(rings, work, SECONDS + 10 * plan, SECONDS + 10 * plan + 10)
        cache.look(rings, [group()], 10)
    started = OutlookCache(MODELS)
    started.restore(rings, {column: one for column, one in enumerate(cache.outlooks) if one is not None})
    started.resume(rings, group())
    assert started.outlooks == cache.outlooks
    for plan in range(34, 46):
        feed(rings, work, SECONDS + 10 * plan, SECONDS + 10 * plan + 10)
        for each in (cache, started):
            each.look(rings, [group()], 10)
        assert started.renewed == cache.renewed
        for one, other in zip(started.outlooks, cache.outlooks, strict=True):
            assert one is not None
            assert other is not None
            assert one.at == other.at
            assert one.values == pytest.approx(other.values, rel=1e-4, abs=1e-3)
    assert [one.beta for one in started.learned] == [pytest.approx(one.beta, abs=1e-3) for one in cache.learned]


def test_models_in_groups_have_the_outlooks_that_they_have_together(rings: Rings) -> None:
    whole, split = OutlookCache(MODELS), OutlookCache(MODELS)
    whole.look(rings, [group()], 10)
    parts = []
    for columns in (np.arange(0, MODELS, 2), np.arange(1, MODELS, 2)):
        count = len(columns)
        rules = service(count)._replace(serving=service(MODELS).serving.of(columns))
        parts.append(Group(columns, standing(*[(READY, [], 0.0)] * count), rules, TERMS))
    split.look(rings, parts, 10)
    assert split.learned == whole.learned
    assert split.outlooks == whole.outlooks


def test_the_end_of_the_past_is_a_border_of_two_second_cells(rings: Rings, work: np.ndarray) -> None:
    for more in (0, 1):
        feed(rings, work, SECONDS + more, SECONDS + more + 1)
        past = remembered(rings, np.array([0]), 3600, np.ones(1))
        assert past.until % 2 == 1
        assert rings.head is not None
        assert 0 <= rings.head - past.until <= 1


def test_a_model_of_which_less_is_known_yet_is_judged_as_it_was_then(work: np.ndarray) -> None:
    late, then = Rings(MODELS), Rings(MODELS)
    rising = work.copy()
    rising[:, SECONDS - 180 :] *= 8.0
    for rings, others_until in ((late, SECONDS), (then, SECONDS - 120)):
        for begin in range(0, SECONDS, 1000):
            feed(rings, rising[:1], begin, min(begin + 1000, SECONDS - 120))
            columns, seconds = np.ones(1000, dtype=np.int64), np.arange(begin, begin + 1000)
            there = seconds < others_until
            ones = np.ones(int(there.sum()))
            rings.add(columns[there], seconds[there] + T0, ones.astype(np.int64), {WORK: ones, COVERAGE: ones})
    of = Group(np.arange(1), standing((READY, [], 0.0)), service(1), TERMS)
    caches = [OutlookCache(MODELS) for _ in range(3)]
    caches[0].look(late, [of._replace(until=T0 + SECONDS - 121)], 10)
    caches[1].look(then, [of], 10)
    caches[2].look(late, [of], 10)
    (known, same, unseen) = (cache.outlooks[0] for cache in caches)
    assert known is not None
    assert same is not None
    assert unseen is not None
    assert known.at == same.at
    assert known.values == pytest.approx(same.values, rel=1e-6)
    assert known.shift > 0.2
    assert unseen.shift == 0.0, "read up to where others are known, its last minute says nothing"
