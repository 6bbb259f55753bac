"""Which worlds and seeds a case is played with, and whether a full run still fits into hours."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from rebalancer.sim.suite.__main__ import QUICK_PEERS
from rebalancer.sim.suite.cases import SuiteCase, cases, every_case, family_cases, given_cases, quick_cases
from rebalancer.sim.suite.given import GIVEN
from rebalancer.sim.suite.peers import BY_NAME, PEERS, Peer
from rebalancer.sim.suite.rounds import cpu_seconds, rounds
from rebalancer.sim.suite.row import BOUND, OURS
from rebalancer.sim.suite.run import BOUNDED, players
from rebalancer.sim.suite.worlds import WORLDS, open_arena

CORES, HOURS = 2, 4


def worlds(scenario: str, day: str, gpus: int, start_seconds: int) -> list[str]:
    case = next(c for c in cases() if (c.scenario, c.day, *c.budget[1:3]) == (scenario, day, gpus, start_seconds))
    return [each.world for each in rounds(case)]


def test_every_case_is_played_in_the_fluid_world_first() -> None:
    assert {rounds(case)[0].world for case in cases()} == {"fluid"}


def test_faros_jobs_are_played_request_by_request_where_it_matters_with_five_seeds() -> None:
    assert worlds("S1b", "11", 32, 35) == ["fluid", *["requests"] * 5]
    assert worlds("S1b", "8", 32, 35) == ["fluid", "requests"]
    assert worlds("S1a", "11", 16, 35) == ["fluid", "requests"]
    assert worlds("S1b", "8", 16, 35) == ["fluid"]


def test_language_models_are_played_with_continuous_batching_in_the_main_cells() -> None:
    assert worlds("S2", "1", 32, 60) == worlds("S2", "0", 40, 60) == ["fluid", "batching"]
    assert worlds("S2", "1", 32, 180) == worlds("S2", "1", 28, 60) == ["fluid"]
    assert worlds("S7", "azure-code", 16, 60) == ["fluid", "batching"]
    assert worlds("S7", "generated", 16, 60) == ["fluid"] * 5  # its requests have no tokens


def test_wrong_figures_late_metrics_and_families_are_played_in_the_fluid_world_by_scale() -> None:
    for case in (*given_cases(), *family_cases()):
        assert [(each.world, each.actuations) for each in rounds(case)] == [("fluid", ("scale",))] * len(case.seeds)


def test_a_full_run_without_tuning_fits_into_four_hours_of_two_cores(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = sum(whole(case, PEERS) for case in every_case())

    with capsys.disabled():
        print(f"\na full run: {seconds / 3600:.1f} CPU h, {seconds / 3600 / CORES:.1f} h on {CORES} cores")  # noqa: T201  # an estimate is told
    assert seconds < CORES * HOURS * 3600


def test_a_quick_run_fits_into_five_minutes_of_two_cores() -> None:
    peers = [BY_NAME[name] for name in QUICK_PEERS]
    seconds = sum(whole(case, peers, ("fluid",), with_bound=False) for case in quick_cases())

    assert seconds < CORES * 300


def test_a_quick_run_has_a_cell_of_each_kind_of_figures_and_metrics() -> None:
    assert {case.given.name for case in quick_cases()} == set(GIVEN)


def whole(
    case: SuiteCase, peers: Sequence[Peer], played_in: Sequence[str] = WORLDS, *, with_bound: bool = True
) -> float:
    seconds = 0.0
    for world, _, actuations in rounds(case):
        names = [*(peer.name for peer in players(case, peers)), *[OURS] * len(actuations)]
        if with_bound and world == "fluid" and case.scenario in BOUNDED and case.is_plain:
            names.append(BOUND)
        seconds += sum(cpu_seconds(case, world, name) for name in names if world in played_in)
    return seconds


def test_the_product_acts_by_bounds_too_on_every_reported_day() -> None:
    acting: dict[str, int] = {}
    for case in cases():
        both = [each for each in rounds(case) if "bounds" in each.actuations]
        assert len({(each.world, each.seed) for each in both}) <= 2
        acting[case.scenario] = acting.get(case.scenario, 0) + len(both)

    assert all(acting.values())
    assert all("scale" in each.actuations for case in cases() for each in rounds(case))


def test_every_controller_has_a_price() -> None:
    for case in every_case():
        assert all(cpu_seconds(case, "fluid", name) > 0 for name in (*BY_NAME, OURS, BOUND))
    assert len(BY_NAME) == len(PEERS)


def test_a_world_that_a_case_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="S7 generated is not played in the world batching"):
        open_arena(SuiteCase("S7", "generated", 16, 60), "batching", Path("nowhere"))
