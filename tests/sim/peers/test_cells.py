"""Gate E for the peers: the fluid path against the cells of S2 that a prototype printed.

A cell is the best request-weighted violation of the targets 0.6, 0.7, 0.8 and 0.9. What the prototype did besides what
the peers and the world do by default, and what is undone here: it decided at the end of seconds 0, 15, 30, ...; a
recommendation of 300 s ago still counted; waiting pods were placed in the order of the models.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from rebalancer.sim.controller import Controller, Seen
from rebalancer.sim.fluid.fast import FastWorld
from rebalancer.sim.peers.behaviour import DOWN
from rebalancer.sim.peers.hpa import HpaMetric, HpaPeer, PodReading
from rebalancer.sim.peers.keda import Keda
from rebalancer.sim.peers.signals import WorkRate
from rebalancer.sim.peers.static import Static
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.score import Score, score
from rebalancer.sim.suite.scenarios import s2
from tests.beside import recorded_traffic

pytestmark = pytest.mark.slow  # 20 s

TARGETS = (0.6, 0.7, 0.8, 0.9)
INCLUSIVE_DOWN = replace(DOWN, window_seconds=301)

# (day, GPUs, start in seconds): violation in percent, and GPU-hours where they were printed
STATIC = {
    (0, 32, 60): (15.4, 720),
    (0, 32, 180): (15.4, None),
    (0, 40, 60): (5.72, 936),
    (0, 40, 180): (5.72, None),
    (1, 32, 60): (17.2, None),
    (1, 32, 180): (17.2, None),
    (1, 40, 60): (9.1, None),
    (1, 40, 180): (9.1, None),
}
KEDA = {
    (0, 32, 60): (3.64, 692),
    (0, 32, 180): (4.18, None),
    (0, 40, 60): (0.65, 894),
    (0, 40, 180): (0.67, None),
    (1, 32, 60): (2.63, 602),
    (1, 32, 180): (2.93, None),
    (1, 40, 60): (0.70, 791),
    (1, 40, 180): (0.73, None),
}
HPA = {
    (0, 32, 60): (6.37, 659),
    (0, 32, 180): (7.20, None),
    (0, 40, 60): (0.77, 858),
    (0, 40, 180): (0.76, None),
    (1, 32, 60): (2.27, 635),
    (1, 32, 180): (3.49, None),
    (1, 40, 60): (0.70, 741),
    (1, 40, 180): (0.78, None),
}
# The one cell that is not within 2 %, and how far off it is. An HPA that acts on its own utilisation amplifies a
# second: let the same HPA begin to sync at each of 15 seconds, and the cell is anything from 0.61 to 0.88 %. Windows of
# 29 or 31 s, metrics of 14 or 16 s ago, start times one second off, 15 ways to count pods that are not Ready, and
# averages that fade were tried besides: none brings all eight cells nearer.
HPA_GAPS = {(0, 40, 180): 0.06}
ROUNDED = 0.005  # percent: half of the last digit that was printed is not ours to miss


@cache
def a_scenario(day: int, gpus: int, start_seconds: int) -> Scenario:
    return replace(s2(recorded_traffic(), day, gpus, start_seconds), by_model=True)


def late_use(seen: Seen, model: int) -> PodReading | None:
    """The prototype's utilisation: of 30 s, 15 s old; pods that are not Ready are missing, waiting ones too."""
    used, ready = seen.utilisation(model, 30), seen.ready[model]
    return None if used is None else PodReading(used * ready, ready, ready, missing=seen.desired[model] - ready)


def prototype_hpa(target: float) -> HpaPeer:
    return HpaPeer((HpaMetric(late_use, target),), down=INCLUSIVE_DOWN)


def played(scenario: Scenario, controller: Controller, delay_seconds: int = 0, first: int = 1) -> Score:
    """`first`: the second in which it decides for the first time."""
    world = FastWorld(scenario, delay_seconds)
    world.advance(first)
    while world.now < scenario.seconds:
        for model, replicas in enumerate(controller.decide(world.seen)):
            world.ask(model, replicas)
        world.advance(min(scenario.seconds, world.now + controller.every_seconds))
    return score(world.record("peer"))


def best(cell: tuple[int, int, int], peer: Callable[[float], Controller], delay_seconds: int = 0) -> Score:
    scores = [played(a_scenario(*cell), peer(target), delay_seconds) for target in TARGETS]
    return min(scores, key=lambda told: told.violation)


def compare(name: str, cell: tuple[int, int, int], published: tuple[float, int | None], told: Score) -> float:
    """Prints both numbers; how far off what was printed the violation is at least, as a share of it."""
    violation, gpu_hours = published
    off = told.violation * 100 / violation - 1
    print(  # noqa: T201  # a gate shows both numbers
        f"\n{name} day {cell[0]}, {cell[1]} GPUs, {cell[2]} s: published {violation} % ({gpu_hours} GPU-h), "
        f"here {told.violation * 100:.3f} % ({told.gpu_hours:.1f} GPU-h), off by {off:+.1%}"
    )
    return max(0.0, abs(off) - ROUNDED / violation)


@pytest.mark.parametrize("cell", STATIC)
def test_the_fixed_split_has_the_published_violation(cell: tuple[int, int, int]) -> None:
    told = played(a_scenario(*cell), Static())
    assert compare("static", cell, STATIC[cell], told) <= 0.02
    assert told.gpu_hours == pytest.approx(cell[1] // 3 * 3 * 24)


@pytest.mark.parametrize("cell", KEDA)
def test_keda_has_the_published_violation(cell: tuple[int, int, int]) -> None:
    told = best(cell, lambda target: Keda((HpaMetric(WorkRate(60), target),), down=INCLUSIVE_DOWN))
    assert compare("KEDA", cell, KEDA[cell], told) <= 0.02
    assert told.gpu_hours == pytest.approx(KEDA[cell][1] or told.gpu_hours, rel=0.005)


@pytest.mark.parametrize("cell", HPA)
def test_the_hpa_has_the_published_violation(cell: tuple[int, int, int]) -> None:
    told = best(cell, prototype_hpa, delay_seconds=15)
    assert compare("HPA", cell, HPA[cell], told) <= HPA_GAPS.get(cell, 0.02)
    assert told.gpu_hours == pytest.approx(HPA[cell][1] or told.gpu_hours, rel=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("cell", [*HPA_GAPS, (1, 40, 60)])
def test_the_second_of_the_first_sync_moves_a_cell_by_more_than_its_gap(cell: tuple[int, int, int]) -> None:
    told = [played(a_scenario(*cell), prototype_hpa(0.7), 15, first).violation * 100 for first in range(1, 16)]
    mean, spread, published = float(np.mean(told)), float(np.std(told)), HPA[cell][0]
    print(  # noqa: T201  # a gate shows both numbers
        f"\nHPA day {cell[0]}, {cell[1]} GPUs, {cell[2]} s: published {published} %, here over the 15 seconds of a sync"
        f" {min(told):.3f} to {max(told):.3f} %, mean {mean:.3f}, standard deviation {spread:.3f}"
    )
    assert min(told) < published < max(told)
    assert abs(published - mean) < spread
    assert max(told) - min(told) > HPA_GAPS.get(cell, 0.02) * published
