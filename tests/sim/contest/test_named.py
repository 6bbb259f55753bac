"""A case of the benchmarks under a policy of one's own: the case brings the GPUs, the policy the rules."""

from dataclasses import replace

import numpy as np
import pytest

from rebalancer.domain.policy import Policy
from rebalancer.sim.contest.named import no_trace, ruling, ruling_notes
from rebalancer.sim.contest.recorded import Unfit
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.scenario import Launches, Scenario, ScenarioModel
from tests.builders import a_model, a_policy, a_pool, a_target_spec

ONES = np.ones(60)
FIXED = Scenario("made", "0", (ScenarioModel("b", ONES, ONES, first=1, gpus=2),), (8,), 60, usd_per_gpu_hour=0.1)
SPOT = replace(FIXED, nodes=(8, 4), elastic=1)
LAUNCHED = replace(FIXED, launches=Launches(4, 2, (60,)))


def own(entitlement: int = 1, priority: int = 100) -> Policy:
    """Another shape of pool, of targets and of replicas than any scenario has."""
    targets = (a_target_spec("l40s", "other", kind="StatefulSet"),)
    return a_policy(
        a_model(targets=targets, gpus_per_replica=4, entitlement=entitlement, priority=priority),
        pools=(a_pool("l40s", gpu_limit=4, node_groups=("asg",), resource="amd.com/gpu"),),
    )


@pytest.mark.parametrize("scenario", [FIXED, SPOT, LAUNCHED])
def test_another_policy_rules_the_gpus_of_the_case(scenario: Scenario) -> None:
    ruled, usual = ruling(scenario, own(priority=7)), default_policy(scenario)
    assert ruled.pools == usual.pools
    (model,) = ruled.models
    assert (model.targets, model.gpus_per_replica, model.priority) == (usual.models[0].targets, 2, 7)
    assert play_product(scenario, ruled).ready[0, -1] == 1
    assert next(ruling_notes(scenario, own())).startswith(f"made brings its own GPUs, {scenario.gpus}, and")


@pytest.mark.parametrize("scenario", [FIXED, SPOT, LAUNCHED])
def test_the_benchmarks_own_policy_stays_as_it_is(scenario: Scenario) -> None:
    usual = default_policy(scenario)
    assert ruling(scenario, usual) == usual
    assert not list(ruling_notes(scenario, usual))


def test_more_that_is_entitled_than_the_case_has_is_said() -> None:
    with pytest.raises(Unfit, match="pool gpus has 8 GPUs and 10 are entitled to models"):
        ruling(FIXED, own(entitlement=5))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("S7/24/60/absent", "which plays it: python -m rebalancer.sim.suite --scenarios S7 --given absent; with exact"),
        ("S1b/32/35", "is no trace but of the benchmarks' suite, which plays it: python -m rebalancer.sim.suite --"),
        ("swaps", "swaps is no trace but of the benchmarks' suite, which plays it: python -m rebalancer.sim.suite"),
        ("S2/33/60/1", "S2/33/60/1 is no case of the benchmarks' S2; there are S2/28/60/1, S2/28/180/1, "),
    ],
)
def test_what_the_benchmarks_name_and_nothing_here_plays_is_told_with_what_does(name: str, said: str) -> None:
    assert said in (no_trace(name) or "")


def test_what_the_benchmarks_do_not_name_is_none_of_theirs() -> None:
    assert no_trace("mine.csv") is None
