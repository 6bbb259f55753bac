"""Families of shapes: what each one's worlds have in common, and that no two are alike."""

from pathlib import Path

import numpy as np
import pytest

from rebalancer.sim.demand import F64
from rebalancer.sim.suite import families
from rebalancer.sim.suite.cases import TUNED_WORLDS, data_digest, development_days, family_cases
from rebalancer.sim.suite.families import FAMILIES, GPUS, level, world

NOWHERE = Path("nowhere")


def levels(family: str) -> list[F64]:
    return [level(family, seed) for seed in range(5)]


@pytest.mark.parametrize("family", FAMILIES)
def test_all_could_be_served_in_time_if_replicas_were_where_they_are_needed(family: str) -> None:
    for each in levels(family):
        assert 0.6 * GPUS - 1e-9 <= each.sum(axis=0).max() <= 0.85 * GPUS + 1e-9
        assert each.min() > 0.0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_is_a_world_and_another_one_is_another(family: str) -> None:
    one, again, other = world(family, 3), world(family, 3), world(family, 4)

    assert data_digest(one) == data_digest(again) != data_digest(other)
    assert 2 <= len(one.models) <= 4
    assert sum(model.first for model in one.models) == GPUS == one.gpus
    arrived = sum(model.work.mean() for model in one.models)
    assert arrived == pytest.approx(level(family, 3).sum(axis=0).mean(), rel=0.05)


def test_fifty_worlds_are_judged_and_peers_are_tuned_on_others() -> None:
    for case in family_cases():
        tuned = development_days(case.budget)
        assert len(case.seeds) == 50
        assert len(tuned) == TUNED_WORLDS
        of_tuned = {data_digest(each.build(NOWHERE)) for each in tuned}
        assert len(of_tuned) == TUNED_WORLDS
        assert not of_tuned & {data_digest(case.build(NOWHERE, seed)) for seed in (0, 49)}


def test_in_swaps_one_half_is_busy_while_the_other_is_not() -> None:
    for each in levels("swaps"):
        half = len(each) // 2
        first, second = each[:half].sum(axis=0), each[half:].sum(axis=0)
        assert np.corrcoef(first, second)[0, 1] < -0.9


def test_in_joint_rises_all_models_rise_and_fall_together() -> None:
    for each in levels("joint-rises"):
        relative = each / each[:, :1]
        assert np.allclose(relative, relative[0])
        assert 2.0 <= relative.max() <= 3.5


def test_in_joint_falls_one_model_rises_while_all_others_end() -> None:
    for each in levels("joint-falls"):
        relative = each / each[:, :1]
        rising = relative.max(axis=1) > 1.5
        assert rising.sum() == 1
        assert np.allclose(relative[~rising].min(), families.QUIET)
        at_top = relative[rising][0] > 1.9
        assert (relative[~rising][:, at_top] < 0.2).mean() > 0.9


def test_spikes_are_over_before_a_replica_has_started() -> None:
    for each in levels("spikes"):
        for row in each:
            high = np.concatenate([[0], (row > 1.5 * row[0]).astype(int), [0]])
            begins, ends = (np.flatnonzero(np.diff(high) == sign) for sign in (1, -1))
            assert all(ends - begins < families.START_SECONDS)
        assert each.max() > 2.9 * each[:, 0].min()


def test_bursts_come_back_at_a_period_of_each_model_s_own() -> None:
    periods = []
    for each in levels("bursts"):
        for row in each:
            up = np.flatnonzero((row[1:] > 1.2 * row[0]) & (row[:-1] <= 1.2 * row[0]))
            apart = np.diff(up)
            assert np.ptp(apart) <= 1  # the same second of every period
            periods.append(int(apart[0]))
    assert len(set(periods)) > len(periods) // 2


def test_dips_go_as_they_came_and_ramps_never_jump() -> None:
    for each in levels("dips"):
        assert np.allclose(each.max(axis=1), each[:, 0])
        assert (each < 0.5 * each[:, :1]).mean() < 0.4
    for each in levels("ramps"):
        assert np.abs(np.diff(each)).max() < GPUS / 900


def test_offices_work_for_some_hours_in_zones_of_their_own() -> None:
    for each in levels("office-hours"):
        busy = each > 0.4 * each.max(axis=1, keepdims=True)
        hours = busy.sum(axis=1) / families.HOUR
        assert all(hours > 3.0)
        assert all(hours < 6.0)
        assert len(set(busy.argmax(axis=1))) == len(each)
