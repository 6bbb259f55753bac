"""The product behind heads that answer every request: it is told what such heads measure, not what a fluid does."""

import numpy as np
import pytest

from rebalancer.sim.product import default_policy
from rebalancer.sim.product.run import Actuation
from rebalancer.sim.requests.scenarios import SLO_SECONDS, s1
from rebalancer.sim.suite.worlds import Heads
from rebalancer.sim.traces.faro import FaroDay


@pytest.mark.parametrize("actuation", ["scale", "bounds"])
def test_a_head_measures_whole_answers_and_holds_one_request_at_a_time(actuation: Actuation) -> None:
    requests = s1(FaroDay(1, ("a", "b"), np.full((2, 5), 60)), 8, "clean", 42)
    policy = Heads(requests).policy(actuation)
    of_waits = default_policy(requests.scenario, actuation)
    for model, fluid in zip(policy.models, of_waits.models, strict=True):
        assert model.slo is not None
        assert fluid.slo is not None
        assert model.slo.latency_seconds == SLO_SECONDS > fluid.slo.latency_seconds  # of the wait alone
        assert model.signals.concurrency is not None
        assert model.signals.concurrency.per_replica == 1.0
        assert model.actuation == actuation
        assert model.signals.latency
