"""Late is what is finished after its deadline, by whoever's replicas; in the fast path and in the full world alike."""

from dataclasses import replace

import numpy as np
import pytest

from rebalancer.sim.controller import Seen
from rebalancer.sim.fluid.deferred import FirstCome, finished
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.product import FluidService
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.world import WorldPod
from tests.sim.product.test_fluid import OWNER

NEVER_LEAVES = 1e6


def batch(work: list[float], deadline: float) -> ScenarioModel:
    """One request a second with work; nobody serves at first."""
    amounts = np.array(work)
    return ScenarioModel(
        "b", amounts, np.sign(amounts), first=0, floor=0, start_seconds=2, slo_wait_seconds=deadline,
        patience_seconds=NEVER_LEAVES, deferred=True,
    )  # fmt: skip


def row(*amounts: float) -> np.ndarray:
    return np.array(amounts, float)


class Later:
    """One replica from a second on."""

    every_seconds = 1

    def __init__(self, begin: int) -> None:
        self._begin = begin

    def decide(self, seen: Seen) -> list[int]:
        return [int(seen.now >= self._begin)]


@pytest.mark.parametrize(("deadline", "late"), [(4.0, 0), (3.0, 2), (2.0, 3)])
def test_late_is_what_is_finished_later_than_its_deadline(deadline: float, late: int) -> None:
    # Those of seconds 0, 1 and 2 are finished in seconds 4, 5 and 5: after 4, 4 and 3 s.
    model = batch([1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0], deadline)
    found = finished(model, row(0, 0, 0, 0, 1, 1.5, 0), row(*[0] * 7))
    assert found.wait.tolist()[:3] == [4.0, 4.0, 3.0]
    assert found.late.sum() == late


def test_what_is_not_finished_is_late_when_it_was_due_and_unknown_when_not() -> None:
    found = finished(batch([1.0, 0.0, 0.0, 1.0, 0.0], 3.0), row(0, 0, 0, 0, 0), row(*[0] * 5))
    assert found.late.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert np.isinf(found.wait[3])


def test_who_left_is_late_and_nobody_s_work() -> None:
    found = finished(batch([1.0, 1.0, 0.0], 9.0), row(0, 0, 1), row(1, 0, 0))
    assert found.late.tolist() == [1.0, 0.0, 0.0]
    assert found.wait[1] == 1.0


@pytest.mark.parametrize(("deadline", "late"), [(60.0, 0.0), (20.0, 10.0)])
def test_to_wait_without_any_replica_is_not_late_by_itself(deadline: float, late: float) -> None:
    # A replica serves from second 32 on: what came in seconds 0 to 9 is finished after 32 s each.
    scenario = Scenario("one", "0", (batch([1.0] * 10 + [0.0] * 50, deadline),), (1,), 60)
    assert play(scenario, Later(30), "later").late.sum() == late


def test_both_worlds_call_the_same_late() -> None:
    model = batch([1.0] * 10 + [0.0] * 50, 31.0)
    fast = play(Scenario("one", "0", (replace(model, start_seconds=0),), (1,), 60), Later(32), "later")
    service, pod = FluidService(model, 0.0, 60), WorldPod("b-1", "uid", OWNER, created_at=0.0, ready_at=32.0)
    for second in range(60):
        service.flow(float(second), second + 1.0, [pod] if second >= 32 else [])
    assert service.late.tolist() == fast.late[0].tolist()
    assert service.late.sum() > 0


def test_those_who_wait_are_counted_one_by_one() -> None:
    # Of 3 with 1, 1 and 4 replica-seconds the first two are finished after 2: one waits, not a third of the line.
    line = FirstCome(batch([1.0, 1.0, 4.0, 0.0, 0.0], 9.0), 5)
    assert line.finish(row(0, 0, 0)).tolist() == [0.0, 0.0, 0.0]
    assert line.waiting(3) == 3.0
    assert line.finish(row(1, 1)).tolist() == [1.0, 1.0]
    assert line.waiting(5) == 1.0
