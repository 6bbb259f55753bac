"""Any service model plugs into the world: it is told each step who is Ready, and its looks become samples."""

from collections.abc import Sequence

import pytest

from rebalancer.domain.events import Counters, Gauges
from rebalancer.world import Look, WorldPod
from tests.world.worlds import START, a_deployment, a_world


class Told:
    """Keeps what it is told, shows how often it was."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float, int]] = []

    def flow(self, since: float, until: float, pods: Sequence[WorldPod]) -> None:
        self.steps.append((since - START, until - START, len(pods)))

    def looks(self, pods: Sequence[WorldPod]) -> list[Look]:
        return [Look(pod.uid, Gauges(running=float(len(self.steps))), Counters(START)) for pod in pods]


def test_steps_follow_each_other_and_say_who_is_ready() -> None:
    world, told = a_world(step_seconds=1.0, load_jitter=0.0), Told()
    world.add_service("a", told)
    a_deployment(world, replicas=2, load_seconds=3.0)
    world.advance(START + 5.0)
    assert told.steps == [(n, n + 1.0, 2 if n >= 2 else 0) for n in range(5)]
    deployment = next(iter(world.deployments.values()))
    assert [pod.ready_at for pod in deployment.pods.values()] == [START + 3.0] * 2


def test_looks_come_as_samples_of_their_instant_after_the_delay() -> None:
    world = a_world(step_seconds=1.0, interval_seconds=5.0, delay_seconds=2.0, load_jitter=0.0)
    world.add_service("a", Told())
    a_deployment(world, replicas=2, load_seconds=3.0)
    world.advance(START + 6.9)
    assert world.take_samples() == []
    world.advance(START + 7.0)
    samples = world.take_samples()
    assert [(each.at - START, each.interval_seconds, each.gauges.running) for each in samples] == [(5.0, 5.0, 5.0)] * 2
    assert {each.pod for each in samples} == {pod.uid for pod in world.pods.values()}


def test_without_jitter_a_load_takes_its_time_exactly() -> None:
    world = a_world(load_jitter=0.0)
    a_deployment(world, load_seconds=20.0)
    world.advance(START + 60.0)
    assert [pod.ready_at for pod in world.pods.values()] == [pytest.approx(START + 20.0)] * 2
    assert (world.starts, world.stops, world.gpus_held) == (2, 0, 4)
