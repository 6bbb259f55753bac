"""The product plays a scenario: same seed, same bytes; the gate is in the way; the fast path agrees with the world."""

from dataclasses import fields, replace

import numpy as np
import pytest

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Change, Decision, Plan
from rebalancer.domain.policy import Policy
from rebalancer.sim.fluid.fast import FastWorld
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.product.clock import still
from rebalancer.sim.product.notes import Unwritten
from rebalancer.sim.product.run import Product, play_on
from rebalancer.sim.product.stage import Stage
from rebalancer.sim.record import Record
from rebalancer.sim.score import score
from tests.sim.product.scenarios import GPUS, a_surge

SCENARIO = a_surge()


@pytest.fixture(scope="module")
def played() -> Record:
    return play_product(SCENARIO, default_policy(SCENARIO))


def held(record: Record, model: int, begin: int, end: int) -> float:
    """Ready replicas of a model, mean over a span."""
    return float(record.ready[model, begin:end].mean())


def test_before_anybody_surges_gpus_stay_where_they_are(played: Record) -> None:
    # 2, 1 and 1.5 replicas are busy; a third of the 12 GPUs is enough for each.
    assert [held(played, model, 300, 600) for model in range(3)] == [4.0, 4.0, 4.0]


def test_idle_gpus_go_to_the_model_that_surges(played: Record) -> None:
    assert held(played, 0, 900, 1200) > held(played, 0, 300, 600) + 2
    assert held(played, 0, 900, 1200) > 7  # of which it keeps busy 7


def test_budget_and_floors_hold_in_every_second(played: Record) -> None:
    assert played.gpus.max() <= GPUS
    assert played.floor_breaches == 0
    assert all(played.ready[index].min() >= model.floor for index, model in enumerate(SCENARIO.models))


def test_the_same_seed_gives_the_same_bytes(played: Record) -> None:
    again = play_product(SCENARIO, default_policy(SCENARIO))
    for field in fields(Record):
        one, other = getattr(played, field.name), getattr(again, field.name)
        if isinstance(one, np.ndarray):
            assert one.tobytes() == other.tobytes(), field.name


def test_a_replica_serves_after_its_start_time_and_its_gpus_are_free_when_it_is_gone() -> None:
    slow = replace(SCENARIO, models=tuple(replace(model, release_seconds=20) for model in SCENARIO.models))
    record = play_product(slow, default_policy(slow))
    grown = np.flatnonzero(np.diff(record.ready[0]) > 0)
    shrunk = np.flatnonzero(np.diff(record.ready[1:].sum(axis=0)) < 0)
    # Released, 20 s to go, then 40 s to load.
    assert grown[0] + 1 >= shrunk[0] + 1 + 20 + 40


def test_a_model_that_the_policy_does_not_name_is_an_error() -> None:
    policy = default_policy(SCENARIO)
    other = Policy.model_validate({**policy.model_dump(), "models": policy.models[:2]})
    with pytest.raises(ValueError, match="no model c; it has a, b"):
        play_product(SCENARIO, other)


def test_the_fast_path_that_plays_the_recorded_asks_agrees_with_the_full_world() -> None:
    stage = Stage(SCENARIO, default_policy(SCENARIO))
    full = play_on(stage, default_policy(SCENARIO))
    world = FastWorld(SCENARIO)
    for second in range(SCENARIO.seconds):
        for model, replicas in enumerate(stage.desired[:, second]):
            world.ask(model, int(replicas))
        world.advance(second + 1)
    fast = world.record("recorded")
    ours, again = score(full), score(fast)
    assert ours.violation > 0.01  # there is something to agree on
    assert again.violation == pytest.approx(ours.violation, rel=0.02, abs=1e-4)
    assert again.gpu_hours == pytest.approx(ours.gpu_hours, rel=0.002)
    assert again.starts_and_stops == pytest.approx(ours.starts_and_stops, rel=0.02)


def test_what_the_gate_would_refuse_in_a_cluster_it_refuses_here() -> None:
    policy = default_policy(SCENARIO)
    stage = Stage(SCENARIO, policy)
    ports = Product(stage, policy, Unwritten()).ports
    snapshot = ports.look(stage.world.now)
    (target,) = snapshot.models[0].targets

    def asked_for(replicas: int) -> str:
        change = Change(f"to-{replicas}", "grant", "a", target, target.replicas, replicas, replicas, "a test")
        with still() as runner:
            (outcome,) = runner.run(ports.carry_out(Decision(Plan(1, snapshot.at, (change,)), Memory())))
        return outcome.detail or outcome.status

    assert asked_for(1).startswith("floor: ")
    assert asked_for(GPUS).startswith("budget: ")
    assert asked_for(3) == "written"
    assert stage.deployments[0].replicas == 3
    assert asked_for(2).startswith("moved: ")
