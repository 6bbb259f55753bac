"""KEDA against kedacore/keda `pkg/scaling/executor/scale_scaledobjects_test.go`.

Every case that ends in a number of replicas. Left out: pausing and its annotations, the HPA's health, conditions and
events (none of them is simulated), and fallback after scaler errors (no scaler fails here).
"""

import numpy as np
import pytest

from rebalancer.sim.fluid.fast import play
from rebalancer.sim.peers.hpa import HpaMetric
from rebalancer.sim.peers.keda import Activation, Keda
from rebalancer.sim.peers.signals import WorkRate
from rebalancer.sim.scenario import Scenario, ScenarioModel


@pytest.mark.parametrize(
    ("executor", "current", "active", "expected"),
    [
        pytest.param(Activation(least=0), 10, False, 0, id="ScaleToMinReplicasWhenNotActive"),
        pytest.param(Activation(least=5), 1, False, 5, id="ScaleToMinReplicasFromLowerInitialReplicaCount"),
        pytest.param(Activation(least=0), 0, True, 1, id="ScaleFromMinReplicasWhenActive"),
        pytest.param(Activation(least=5, idle=0), 10, False, 0, id="ScaleToIdleReplicasWhenNotActive"),
        pytest.param(Activation(least=5, idle=0), 0, True, 5, id="ScaleFromIdleToMinReplicasWhenActive"),
        pytest.param(Activation(least=5, idle=0), 2, True, 5, id="EventWitTriggerInfo"),
        pytest.param(Activation(least=0), 0, True, 1, id="ScaleFromMinReplicasWhenActivationForced"),
        pytest.param(Activation(least=1), 1, True, 1, id="RequestScale_AllHealthy"),
    ],
)
def test_the_executor_asks_as_the_project(executor: Activation, current: int, active: bool, expected: int) -> None:  # noqa: FBT001  # a column of the table
    assert executor.replicas(1000.0, current, active, None) == expected


def test_the_last_replica_waits_for_the_cooldown() -> None:
    executor = Activation(least=0, cooldown_seconds=300)
    assert executor.replicas(1300, 3, False, 1000) == 3  # noqa: FBT003  # as the executor's own argument
    assert executor.replicas(1301, 3, False, 1000) == 0  # noqa: FBT003  # as the executor's own argument


def test_more_than_the_idle_replicas_wait_for_the_cooldown_too() -> None:
    executor = Activation(least=5, idle=0, cooldown_seconds=300)
    assert executor.replicas(1300, 10, False, 1000) == 10  # noqa: FBT003  # as the executor's own argument
    assert executor.replicas(1301, 10, False, 1000) == 0  # noqa: FBT003  # as the executor's own argument


def test_a_silent_model_goes_to_nothing_and_comes_back_at_a_poll() -> None:
    work = np.zeros(2400)
    work[:60] = work[1500:] = 0.5
    model = ScenarioModel("m", work, work * 2, first=1, floor=0, start_seconds=10)
    record = play(
        Scenario("s", "0", (model,), (4,), 2400), Keda((HpaMetric(WorkRate(60), 0.7),), cooldown_seconds=300), "keda"
    )
    ready = record.ready[0]
    # Active until the 60-s rate is 0 at 120 s (last seen active at 90 s), then 300 s of cooldown, on a poll.
    assert ready[:420].all()
    assert not ready[420:1500].any()
    # Work from 1500 on is seen at the poll of 1530.
    assert not ready[:1540][420:].any()
    assert ready[1540:].all()
