"""Sums over replicas, of numbers that nobody would type on purpose."""

import pytest

from rebalancer.domain.arithmetic import bounding, converging, least_grant
from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.part import MOST_REPLICAS
from rebalancer.domain.snapshot import AutoscalerView, MetricView
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


def test_only_an_autoscaler_that_chooses_has_a_least_grant_of_1() -> None:
    chooses, paused = an_autoscaler(2, 4), an_autoscaler(2, 4, paused=True)
    assert (bounding(a_target(autoscaler=chooses)), least_grant(a_target(autoscaler=chooses))) == (chooses, 1)
    assert (bounding(a_target(autoscaler=paused)), least_grant(a_target(autoscaler=paused))) == (None, 0)
    assert (bounding(a_target()), least_grant(a_target())) == (None, 0)


def test_one_that_follows_our_answer_bounds_nothing_and_stops_at_its_minimum() -> None:
    follows = a_target(autoscaler=an_autoscaler(2, 4, kind="ScaledObject"), metric=MetricView())
    assert (bounding(follows), least_grant(follows)) == (None, 2)
