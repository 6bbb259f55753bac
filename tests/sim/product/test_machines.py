"""Elastic pools in the full world: it agrees with the fast path; the service hears, replaces, asks and gives back."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from rebalancer.sim.fluid import karpenter as fast
from rebalancer.sim.fluid.fast import FastWorld
from rebalancer.sim.product import default_policy
from rebalancer.sim.product.clock import still
from rebalancer.sim.product.notes import Unwritten
from rebalancer.sim.product.run import Product, play_on
from rebalancer.sim.product.stage import STARTED_AT, Stage
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import ELASTIC, PRIMARY, Launches, NodeChange, Scenario
from rebalancer.world import karpenter as full
from tests.sim.product.scenarios import a_model, a_surge

SECONDS = 1800
SURGE = a_surge(SECONDS)
SPOT = replace(
    SURGE,
    nodes=(12, 1, 1, 1, 1),
    elastic=4,
    usd_per_gpu_hour=6.0,
    elastic_usd_per_gpu_hour=3.0,
    changes=(
        NodeChange(0, 4, 0),  # not there at first
        NodeChange(700, 1, 0, 120),
        NodeChange(800, 4, 1),
        NodeChange(900, 2, 0),  # nobody had announced it
        NodeChange(1000, 1, 1),
        NodeChange(1250, 3, 0, 120),
    ),
)
# The second order finds no capacity.
BROUGHT = replace(
    SURGE, elastic_usd_per_gpu_hour=6.0, launches=Launches(1, 4, (150, None, 90, 200), 45, empty_seconds=120)
)

Script = Mapping[int, tuple[tuple[int, int, int], ...]]  # second: model, pool, replicas
ALONE: Script = {}
MOVES: Script = {
    100: ((0, ELASTIC, 1),),
    150: ((1, ELASTIC, 1),),
    200: ((2, ELASTIC, 2),),
    500: ((2, PRIMARY, 3), (0, PRIMARY, 5)),
    1100: ((1, ELASTIC, 0),),
    1400: ((2, ELASTIC, 0), (0, ELASTIC, 3)),
}


def in_full(scenario: Scenario, script: Script) -> Record:
    """The full world with nobody in it but who follows the script."""
    stage = Stage(scenario, default_policy(scenario))
    for second in range(scenario.seconds):
        stage.world.advance(STARTED_AT + second)
        for model, pool, replicas in script.get(second, ()):
            deployments = (stage.deployments, stage.elastic)[pool]
            stage.world.scale(deployments[model].ref, replicas)
        stage.note(second)
    stage.world.advance(STARTED_AT + scenario.seconds)
    return stage.record("scripted")


def on_the_fast_path(scenario: Scenario, script: Script) -> Record:
    world = FastWorld(scenario, split=True)
    for second, asks in sorted(script.items()):
        world.advance(second)
        for model, pool, replicas in asks:
            world.ask(model, replicas, pool)
    world.advance(scenario.seconds)
    return world.record("scripted")


@pytest.mark.parametrize("script", [ALONE, MOVES], ids=["static", "scripted"])
@pytest.mark.parametrize("scenario", [SPOT, BROUGHT], ids=["spot", "karpenter"])
def test_the_fast_path_agrees_with_the_full_world(scenario: Scenario, script: Script) -> None:
    there, here = in_full(scenario, script), on_the_fast_path(scenario, script)
    # A machine's end and an eviction come a moment before or after a second's requests: that second may differ.
    assert np.count_nonzero((there.ready != here.ready).any(axis=0)) <= 2 * len(scenario.changes)
    assert float(there.late.sum()) == pytest.approx(float(here.late.sum()), rel=0.01)
    assert int(there.gpus.sum()) == pytest.approx(int(here.gpus.sum()), rel=0.001)
    assert there.usd == pytest.approx(here.usd, rel=0.001)
    assert (there.starts, there.stops) == (here.starts, here.stops)
    assert there.lost_in_flight == (
        None if here.lost_in_flight is None else pytest.approx(here.lost_in_flight, rel=0.1)
    )
    if script:
        assert there.ready.sum() != in_full(scenario, ALONE).ready.sum()  # the elastic pool was used


def test_who_runs_on_a_machine_that_nobody_announced_dies_with_its_requests() -> None:
    assert in_full(SPOT, MOVES).lost_in_flight > 1.0  # type: ignore[operator]  # None would fail too
    announced = replace(
        SPOT,
        changes=tuple(
            replace(each, notice_seconds=120 if each.second else 0) for each in SPOT.changes if not each.gpus
        ),
    )
    assert in_full(announced, MOVES).lost_in_flight == 0.0


@pytest.fixture(scope="module")
def on_spot() -> tuple[Stage, Record]:
    """The service, with half of what the surge needs on spot machines."""
    scenario = replace(SPOT, models=tuple(replace(model, first=3) for model in SPOT.models), nodes=(9, 1, 1, 1, 1))
    stage = Stage(scenario, default_policy(scenario))
    return stage, play_on(stage, default_policy(scenario))


def test_spot_machines_serve_the_surge(on_spot: tuple[Stage, Record]) -> None:
    stage, record = on_spot
    assert stage.desired_in[ELASTIC, :, 600:1200].sum(axis=0).max() >= 3
    assert record.floor_breaches == 0
    assert record.gpus.max() <= 13
    held = record.gpus.sum() / 3600
    assert held * 3.0 < record.usd < held * 6.0  # some of both prices


def test_the_service_hears_of_an_interruption_before_karpenter_drains_the_node() -> None:
    policy = default_policy(SPOT)
    stage = Stage(SPOT, policy)
    product = Product(stage, policy, Unwritten())
    with still() as runner:
        for second in range(582):
            runner.run(product.live(second))
    (notice,) = product.ports.look(stage.world.now).notices
    assert (notice.kind, notice.since - STARTED_AT, notice.deadline - STARTED_AT) == ("spot-interruption", 580, 700)
    assert notice.karpenter
    assert not any(node.taints for node in stage.world.nodes.values())


def test_no_more_is_asked_for_on_spot_than_there_is(on_spot: tuple[Stage, Record]) -> None:
    stage, _ = on_spot
    assert stage.desired_in[ELASTIC, :, 590:799].sum(axis=0).max() <= 2  # the fourth comes at 800, the first is doomed


def test_the_service_asks_for_nodes_in_a_surge_and_gives_them_back() -> None:
    # Two of nine replicas are busy, and eight of them from minute 10 to 20.
    levels = {"a": (1.0, 7.0), "b": (0.5, 0.5), "c": (0.5, 0.5)}
    models = tuple(
        replace(a_model(name, *level, 3600, seed, part=6), first=3) for seed, (name, level) in enumerate(levels.items())
    )
    launches = Launches(1, 4, (150,), empty_seconds=120)
    scenario = replace(BROUGHT, models=models, seconds=3600, nodes=(9,), launches=launches)
    stage = Stage(scenario, default_policy(scenario))
    record = play_on(stage, default_policy(scenario))
    asked = stage.desired_in[ELASTIC].sum(axis=0)
    assert asked[:600].max() == 0
    assert asked[800:1200].min() == 4  # as many as Karpenter may bring
    assert record.gpus.max() == 13
    assert asked[-1] == len(stage.world.node_claims) <= 3  # the surge is among the replays for an hour


def test_karpenter_takes_its_time_on_the_fast_path_as_in_the_full_world() -> None:
    names = ("BATCH_SECONDS", "DRAIN_AFTER_SECONDS", "NO_CAPACITY_AFTER_SECONDS")
    assert [getattr(fast, name) for name in names] == [getattr(full, name) for name in names]


def test_a_policy_without_an_elastic_pool_does_not_fit() -> None:
    with pytest.raises(ValueError, match="has an elastic pool"):
        Stage(SPOT, default_policy(SURGE))
