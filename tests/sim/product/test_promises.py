"""What users were promised, requests or minutes, is what a policy keeps where there is too little for both."""

import numpy as np
import pytest

from rebalancer.domain.policy import Policy
from rebalancer.sim.contest.outcome import RunOutcome, outcome
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.scenario import Scenario, ScenarioModel

SECONDS, GPUS = 2400, 12
METHODS = ("occurrences", "timeslices")


def a_model(name: str, busy: float, seed: int) -> ScenarioModel:
    """Bursty work that keeps so many replicas busy, in requests of 0.4 replica-seconds."""
    work = np.random.default_rng(seed).gamma(4.0, busy / 4.0, SECONDS)
    return ScenarioModel(name, work, work / 0.4, first=GPUS // 4, start_seconds=30)


# 7 replicas of work and three times 1.4: with room for bursts more than 12 GPUs, so somebody is late.
SMALL = tuple(a_model(f"small-{number}", 1.4, number) for number in (1, 2, 3))
SCENARIO = Scenario("promises", "0", (a_model("large", 7.0, 0), *SMALL), (GPUS,), SECONDS)


def promising(method: str) -> Policy:
    policy = default_policy(SCENARIO)
    promises = [model.slo and model.slo.model_copy(update={"budgeting_method": method}) for model in policy.models]
    models = [model.model_copy(update={"slo": slo}) for model, slo in zip(policy.models, promises, strict=True)]
    return policy.model_copy(update={"models": tuple(models)})


@pytest.fixture(scope="module")
def kept() -> dict[str, RunOutcome]:
    """By promise."""
    return {method: outcome(play_product(SCENARIO, promising(method)), method, (1, 1, 1, 1)) for method in METHODS}


def test_promised_minutes_more_minutes_are_kept(kept: dict[str, RunOutcome]) -> None:
    requests, minutes = (kept[method].late_minutes for method in METHODS)
    assert requests is not None
    assert minutes is not None
    assert minutes < 0.8 * requests


def test_promised_requests_more_requests_are_kept(kept: dict[str, RunOutcome]) -> None:
    requests, minutes = (kept[method].violation for method in METHODS)
    assert requests is not None
    assert minutes is not None
    assert requests < 0.95 * minutes
