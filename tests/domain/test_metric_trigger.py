"""Whether an HPA behind KEDA's metrics-api trigger follows our answer, held against the HPA's own arithmetic."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.domain.metric_trigger import (
    Fallback,
    HpaPace,
    HpaPolicy,
    MetricTrigger,
    desired_path,
    is_ours,
    limits,
    metric_trigger,
    misfits,
)

PATH = desired_path("chat", "a100")
OURS = {"url": f"http://rb.rb.svc:8080{PATH}", "valueLocation": "replicas", "targetValue": "1"}
EVERYBODY = {"aggregateFromKubeServiceEndpoints": "true", "aggregationType": "max"}
FLOORED = Fallback(2, "currentReplicasIfHigher")
AT_ONCE = HpaPace(tolerance=0.0)


def asking(
    told: dict[str, str], *others: str, formula: str = "", fallback: Fallback | None = FLOORED, up: HpaPace = AT_ONCE
) -> MetricTrigger:
    triggers = (("metrics-api", "", {**OURS, **EVERYBODY, **told}), *((kind, "", {}) for kind in others))
    found = metric_trigger(triggers, formula, fallback, up, AT_ONCE)
    assert found is not None
    return found


def test_a_trigger_as_documented_is_followed_without_a_word() -> None:
    trigger = asking({})
    assert misfits(trigger, PATH, 2, (2, 8)) == ()
    assert limits(trigger, (2, 8), (2, 8)) == ()


@pytest.mark.parametrize(
    ("trigger", "word"),
    [
        (asking({"targetValue": "10"}), "targetValue is 10"),
        (asking({"valueLocation": "value"}), "valueLocation is value"),
        (asking({"activationTargetValue": "3"}), "activationTargetValue is 3"),
        (asking({"aggregationType": "average"}), "aggregationType is average"),
        (asking({}, "prometheus"), "1 trigger beside"),
        (asking({}, formula="a * 2"), "scalingModifiers"),
        (asking({}, up=HpaPace(disabled=True)), "never scales up"),
        (asking({"url": f"http://rb{desired_path('code', 'a100')}"}), "asks for /v1/models/code/desired/a100"),
        (asking({}, fallback=Fallback(1)), "fallback goes to 1"),
    ],
)
def test_what_comes_to_another_number_is_named(trigger: MetricTrigger, word: str) -> None:
    (said,) = misfits(trigger, PATH, 2, (2, 8))
    assert word in said


def test_a_fallback_that_only_raises_may_be_below_the_floor() -> None:
    assert misfits(asking({}, fallback=Fallback(1, "currentReplicasIfHigher")), PATH, 2, (2, 8)) == ()


def test_a_maximum_below_the_floor_is_refused_and_one_below_the_policy_s_is_told() -> None:
    assert "below the floor 2" in misfits(asking({}), PATH, 2, (1, 1))[0]
    assert limits(asking({}), (2, 8), (1, 6)) == ("its bounds admit 1 to 6 of the policy's 2 to 8 replicas",)


@pytest.mark.parametrize(
    ("policies", "least", "said"),
    [
        ((HpaPolicy(1, 300),), False, "a step up from 2 replicas goes by 1 in 300 s at most"),
        ((HpaPolicy(10, 60, percent=True),), False, "a step up from 2 replicas goes by 1 in 60 s at most"),
        ((HpaPolicy(1, 60), HpaPolicy(100, 15, percent=True)), False, "goes by 2 in 15 s at most"),
        ((HpaPolicy(1, 60), HpaPolicy(100, 15, percent=True)), True, "goes by 1 in 60 s at most"),
        ((HpaPolicy(6, 300),), False, ""),
        ((HpaPolicy(4, 15), HpaPolicy(100, 15, percent=True)), False, ""),  # what no behavior comes to
    ],
)
def test_policies_that_make_steps_of_a_step_are_told(policies: tuple[HpaPolicy, ...], least: bool, said: str) -> None:  # noqa: FBT001  one of the cases
    trigger = asking({}, up=HpaPace(0.0, policies=policies, least=least))
    found = limits(trigger, (2, 8), (2, 8))
    assert misfits(trigger, PATH, 2, (2, 8)) == ()
    assert [said in each and each.endswith(": leave behavior.scaleUp.policies out") for each in found] == (
        [True] if said else []
    )


@pytest.mark.parametrize("url", ["", "http://other/v1/models", "http://[", f"http://rb{PATH}/more"])
def test_triggers_of_others_are_none_of_ours(url: str) -> None:
    assert not is_ours(url)
    assert metric_trigger((("metrics-api", "", {"url": url}),), "", None, AT_ONCE, AT_ONCE) is None


def hpa(answer: int, replicas: int, up: float, down: float) -> int:
    """The number an HPA comes to by an external metric with AverageValue 1, as Kubernetes computes it."""
    ratio = answer / replicas
    return replicas if 1.0 - down <= ratio <= 1.0 + up else math.ceil(answer)


@settings(max_examples=200)
@given(
    low=st.integers(1, 30),
    more=st.integers(0, 30),
    up=st.sampled_from([0.0, 0.05, 0.1, 0.2]),
    down=st.sampled_from([0.0, 0.05, 0.1, 0.2]),
)
def test_where_no_tolerance_is_told_the_hpa_follows_every_step(low: int, more: int, up: float, down: float) -> None:
    trigger = MetricTrigger(PATH, everybody=True, fallback=FLOORED, up=HpaPace(up), down=HpaPace(down))
    bounds = low, low + more
    said = limits(trigger, bounds, bounds)
    steps = [(now, now + 1) for now in range(low, low + more)]
    if not any("step up" in each for each in said):
        assert all(hpa(after, now, up, down) == after for now, after in steps)
    if not any("step down" in each for each in said):
        assert all(hpa(now, after, up, down) == now for now, after in steps)
