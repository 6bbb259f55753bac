"""How a ScaledObject asks us for its replicas, as far as its spec says how it is followed."""

import msgspec
import pytest

from rebalancer.domain.metric_trigger import HpaPolicy, MetricTrigger, limits
from rebalancer.ingest.objects.autoscalers import TriggersWire, asking
from tests.survey.fixtures import FOLLOWS, OUR_TRIGGER

BOUNDS = (2, 8)


def trigger_of(behavior: dict[str, object] | None = None, polling: int | None = None, **more: object) -> MetricTrigger:
    spec = {**FOLLOWS, "triggers": [{**OUR_TRIGGER, **more}], "pollingInterval": polling}
    if behavior is not None:
        spec["advanced"] = {"horizontalPodAutoscalerConfig": {"behavior": behavior}}
    found = asking(msgspec.json.decode(msgspec.json.encode(spec), type=TriggersWire))
    assert found is not None
    return found


def test_policies_of_an_hpa_s_behavior_are_read_both_ways() -> None:
    slow = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}], "tolerance": "0", "selectPolicy": "Min"}
    down = {
        "policies": [{"type": "Percent", "value": 10, "periodSeconds": 600}],
        "tolerance": "0",
        "stabilizationWindowSeconds": 0,
    }
    found = trigger_of({"scaleUp": slow, "scaleDown": down})
    assert (found.up.policies, found.up.least) == ((HpaPolicy(1, 300),), True)
    assert (found.down.policies, found.down.least) == ((HpaPolicy(10, 600, percent=True),), False)
    assert limits(found, BOUNDS, BOUNDS) == (
        "a step up from 2 replicas goes by 1 in 300 s at most: leave behavior.scaleUp.policies out",
        "a step down from 8 replicas goes by 1 in 600 s at most: leave behavior.scaleDown.policies out",
    )


@pytest.mark.parametrize(("polling", "seconds"), [(None, 30), (10, 10)])
def test_a_trigger_that_is_cached_is_told_with_the_age_of_what_it_goes_by(polling: int | None, seconds: int) -> None:
    assert limits(trigger_of(polling=polling), BOUNDS, BOUNDS) == ()
    assert limits(trigger_of(polling=polling, useCachedMetrics=True), BOUNDS, BOUNDS) == (
        f"KEDA keeps an answer for {seconds} s: set useCachedMetrics of its trigger to false",
    )
