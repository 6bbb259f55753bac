"""Sums over replicas, of numbers that nobody would type on purpose."""

import pytest

from rebalancer.domain.arithmetic import converging
from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.part import MOST_REPLICAS
from rebalancer.domain.snapshot import AutoscalerView
from tests.builders import a_target, an_autoscaler

MOST_OF_KUBERNETES = 2**31 - 1


@pytest.mark.parametrize(
    "autoscaler",
    [
        an_autoscaler(MOST_OF_KUBERNETES, MOST_OF_KUBERNETES),
        an_autoscaler(1, MOST_OF_KUBERNETES, originals=Originals(1, 4)),
    ],
    ids=["minimum", "our maximum"],
)
def test_bounds_that_no_policy_allows_promise_no_more_than_one_could(autoscaler: AutoscalerView) -> None:
    assert converging(a_target(replicas=8, autoscaler=autoscaler)) == MOST_REPLICAS


def test_a_maximum_without_end_promises_nothing() -> None:
    assert converging(a_target(replicas=8, autoscaler=an_autoscaler(1, MOST_OF_KUBERNETES))) == 8
