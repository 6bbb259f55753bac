"""The worlds of the suite over the traces that they need, an hour of each."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import json

from rebalancer.sim.demand import DemandStreams, Stream
from rebalancer.sim.peers.static import Static
from rebalancer.sim.requests.world import RequestScenario
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.suite.cases import SuiteCase
from rebalancer.sim.suite.peers import BY_NAME
from rebalancer.sim.suite.row import Row, played
from rebalancer.sim.suite.worlds import RELEASE_SECONDS, Batches, Heads, open_arena
from tests.beside import recorded_traffic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the first run compiles the kernels

SECONDS = 1800


@pytest.fixture
def folder() -> Path:
    return recorded_traffic()


def heads(folder: Path) -> Heads:
    """The first half hour of Faro's day."""
    arena = open_arena(SuiteCase("S1b", "11", 32, 35), "requests", folder, 24)
    assert isinstance(arena, Heads)
    of = arena.contents
    assert isinstance(of, RequestScenario)
    jobs = tuple(
        replace(
            job,
            at=job.at[job.at < SECONDS],
            service_seconds=job.service_seconds[job.at < SECONDS],
            route_seconds=job.route_seconds[job.at < SECONDS],
        )
        for job in of.jobs
    )
    return Heads(replace(of, scenario=replace(of.scenario, seconds=SECONDS), jobs=jobs))


def row(scenario: Scenario, world: str) -> Row:
    return Row(scenario.name, scenario.day, scenario.gpus, None, "hpa", None, None, 0, world)


def test_a_winner_is_scored_by_every_request_of_faros_jobs(folder: Path) -> None:
    arena = heads(folder)

    run = arena.peer(BY_NAME["hpa"].make("work@0.75"), "hpa")
    told = played(row(arena.scenario, "requests"), run.record, run.minutes)

    assert run.minutes is not None
    assert told.row.lost_utility == run.minutes.lost_utility
    assert told.row.lost_in_flight == 0
    lost, minutes = told.block_array().sum(axis=0)
    assert lost / minutes == pytest.approx(run.minutes.lost_utility)
    assert 0.001 < (told.row.violation or 0) < 0.5


def test_the_product_moves_faros_replicas_by_what_heads_measure(folder: Path) -> None:
    arena = heads(folder)

    scale, bounds = (arena.ours(actuation, 0) for actuation in ("scale", "bounds"))
    still = arena.peer(Static(), "static")

    assert still.minutes is not None
    for run in (scale, bounds):
        assert run.minutes is not None
        assert run.record.ready[:, -1].sum() > 20  # of 32; each job began with one
        assert run.minutes.lost_utility < 0.7 * still.minutes.lost_utility


def code(folder: Path) -> Batches:
    arena = open_arena(SuiteCase("S7", "azure-code", 16, 60), "batching", folder)
    assert isinstance(arena, Batches)
    short = replace(arena.scenario, seconds=SECONDS)
    return Batches(short, *arena.contents[1:])  # type: ignore[index]  # the scenario, its demand, and how it is served


def test_recorded_surges_are_served_with_the_tokens_that_were_recorded(folder: Path) -> None:
    arena = code(folder)

    run = arena.peer(BY_NAME["hpa"].make("work@0.7"), "hpa")
    ours = arena.ours("scale", 0)

    for each in (run, ours):
        assert each.slow is not None
        assert 0 < each.slow < 1
        told = played(row(arena.scenario, "batching"), each.record).row
        assert told.lost_in_flight is not None
        assert json.decode(json.encode(told), type=Row) == told
        assert 0 < (told.violation or 0) < 1
    # The work that arrives is that of the fluid form, within a second's rounding of requests.
    asked = sum(model.work[:SECONDS].sum() for model in arena.scenario.models)
    assert asked == pytest.approx(2 * 3.2 * SECONDS, rel=0.2)


def test_replicas_of_language_models_leave_in_thirty_seconds(folder: Path) -> None:
    arena = open_arena(SuiteCase("S2", "0", 32, 60), "batching", folder)

    assert {model.release_seconds for model in arena.scenario.models} == {RELEASE_SECONDS}


def test_another_days_tokens_are_refused() -> None:
    ones = np.ones(60)
    scenario = Scenario("S2", "0", (ScenarioModel("a", ones, ones, 1),), (2,), 60)
    demand = DemandStreams("other", (Stream("a", 2 * ones, ones, ones),))

    with pytest.raises(ValueError, match="the requests of a are not those of its stream"):
        Batches(scenario, demand, [])
