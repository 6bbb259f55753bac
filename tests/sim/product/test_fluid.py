"""The fluid service plays seconds together where nothing changes, and nobody can tell."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.sim.product import FluidService, default_policy
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.world import Deployment, Look, WorldPod
from tests.sim.product.scenarios import a_model

SECONDS = 600
MODEL = a_model("a", 2.0, 7.0, SECONDS, seed=1)
OWNER = Deployment(WorkloadRef("serving", "Deployment", "a"), "uid", "a", 4, 1, created_at=0.0)
PODS = [WorldPod(f"a-{n}", f"uid-{n}", OWNER, created_at=0.0, ready_at=-1.0) for n in range(6)]
# Who is Ready from a second on.
READY = {0: PODS[:4], 203: PODS[:5], 207: PODS[1:5], 411: [], 430: PODS[:3], SECONDS: []}


def a_scenario(model: ScenarioModel) -> Scenario:
    return Scenario("one", "0", (model,), (8,), SECONDS)


def played(service: FluidService, scrape_seconds: int) -> list[Look]:
    """What scrapes show of all seconds."""
    looks: list[Look] = []
    for begin, end in pairwise(READY):
        for second in range(begin, end):
            service.flow(float(second), second + 1.0, READY[begin])
            if (second + 1) % scrape_seconds == 0:
                looks += service.looks(READY[begin])
    return looks


def watched(service: FluidService) -> FluidService:
    """One whose rows are somebody else's, so that it plays each second at once."""
    wait, left, busy, served_by = (np.zeros(SECONDS) for _ in range(4))
    service.keep_in(wait, left, busy, served_by)
    return service


@pytest.mark.parametrize("per_pod", [False, True])
def test_seconds_that_are_played_together_are_those_played_one_by_one(per_pod: bool) -> None:  # noqa: FBT001  # a case
    together = FluidService(MODEL, 0.0, SECONDS, per_pod=per_pod)
    one_by_one = watched(FluidService(MODEL, 0.0, SECONDS, per_pod=per_pod))
    assert played(together, 7) == played(one_by_one, 7)
    assert together.late.sum() > 0
    for row in ("wait", "late", "lost", "left", "busy", "served_by"):
        assert getattr(together, row).tobytes() == getattr(one_by_one, row).tobytes(), row


def test_the_rows_are_whole_when_the_last_second_has_passed() -> None:
    service = FluidService(MODEL, 0.0, SECONDS)
    played(service, SECONDS + 1)  # nobody looks
    assert service.served_by[:203].tolist() == [4.0] * 203
    assert service.served_by[411:430].tolist() == [0.0] * 19
    assert service.served_by[-1] == 3
    assert service.busy.sum() + service.left[-1] <= MODEL.work.sum()
    assert service.busy[-60:].sum() > 0


def test_who_is_turned_away_is_counted_too() -> None:
    model = replace(MODEL, patience_seconds=20.0)
    service = FluidService(model, 0.0, SECONDS)
    looks = [look for second in range(SECONDS) for look in overloaded(service, second)]
    counters = looks[-1].counters
    assert counters is not None
    assert counters.requests_left == pytest.approx(service.lost.sum())
    assert service.lost.sum() > 100


def overloaded(service: FluidService, second: int) -> list[Look]:
    """One second with two replicas, of which the model needs seven."""
    service.flow(float(second), second + 1.0, PODS[:2])
    return service.looks(PODS[:2])


def test_a_replica_that_becomes_ready_within_a_second_serves_from_the_next_one_on() -> None:
    service = FluidService(MODEL, 0.0, 4)
    late = WorldPod("late", "uid-late", OWNER, created_at=0.0, ready_at=1.5)
    pods = [PODS[0], late]
    for second in range(4):
        service.flow(float(second), second + 1.0, [PODS[0]] if second == 0 else pods)
    assert service.served_by.tolist() == [1.0, 1.0, 2.0, 2.0]


def test_metrics_count_the_requests_that_the_score_counts() -> None:
    """An engine that serves 7.5 requests for each recorded one looks no more urgent than one that serves it whole."""
    split = replace(MODEL, scale=7.5, slots=MODEL.slots * 7.5)
    recorded, engines = (played(FluidService(model, 0.0, SECONDS), 5) for model in (MODEL, split))
    assert engines == recorded
    assert default_policy(a_scenario(split)).models[0].signals == default_policy(a_scenario(MODEL)).models[0].signals
