"""However a policy's GPUs are found and whatever its targets are: the simulated cluster has one pool of Deployments."""

import numpy as np
import pytest

from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.report.lateness import by_its_autoscaler
from rebalancer.sim.contest.named import ruling
from rebalancer.sim.contest.one_pool import one_pool, one_pool_notes, price_of, signal_notes
from rebalancer.sim.contest.recorded import ContestTerms, Unfit, paid, scenario_of
from rebalancer.sim.demand import DemandStreams, Stream
from rebalancer.sim.scenario import Scenario, ScenarioModel
from tests.builders import a_model, a_policy, a_pool, a_target_spec
from tests.report.test_courses import a_day, a_ruling, played

ONES = np.ones(10)
DEMAND = ContestTerms(DemandStreams("made", (Stream("b", ONES, 800 * ONES, 100 * ONES),)))


def a_group(replica: int, pods: int, limit: int) -> Policy:
    target = a_target_spec(kind="LeaderWorkerSet")
    model = a_model(targets=(target,), gpus_per_replica=replica, pods_per_replica=pods, entitlement=1)
    return a_policy(model, pools=(a_pool(gpu_limit=limit),))


@pytest.mark.parametrize(
    "pool",
    [
        a_pool(resource="amd.com/gpu"),
        a_pool(device_class="gpu.nvidia.com"),
        a_pool(node_groups=("asg",), gpus_per_node=8, warm_gpus=4),
        a_pool(capacity_type="spot"),
        a_pool(memory_gib=16.0),
    ],
)
def test_what_says_how_gpus_are_found_and_brought_changes_nothing(pool: Pool) -> None:
    assert one_pool(a_policy(pools=(pool,))) == one_pool(a_policy(pools=(a_pool(),)))


@pytest.mark.parametrize(
    "model",
    [
        a_model(targets=(a_target_spec(kind="StatefulSet"),)),
        a_model(targets=(a_target_spec(name="other", kind="Isvc", api_version="serving.kserve.io/v1beta1"),)),
        a_model(targets=(a_target_spec(),), spot_replicas=0, place_replicas=1),
    ],
)
def test_targets_are_deployments_without_limits_of_spot_and_places(model: Model) -> None:
    assert one_pool(a_policy(model)) == one_pool(a_policy(a_model(targets=(a_target_spec(),))))


def test_the_service_moves_replicas_of_a_recorded_day_whatever_kind_they_were() -> None:
    plain = a_ruling(most=4, gpus=4)
    targets = (a_target_spec(name="a", kind="StatefulSet"),)
    strange = plain.model_copy(
        update={
            "models": tuple(each.model_copy(update={"targets": targets}) for each in plain.models),
            "pools": tuple(each.model_copy(update={"resource": "amd.com/gpu"}) for each in plain.pools),
        }
    )
    courses = played(a_day(plain, work=3.5, ready=2, nodes=(4,)), strange)
    assert courses.after.late == courses.before.late
    assert courses.after.gpu_hours == courses.before.gpu_hours


def test_a_replica_of_several_pods_has_nodes_that_together_hold_it() -> None:
    policy = a_group(16, pods=2, limit=40)
    assert one_pool(policy).models[0].gpus_per_pod == 16
    assert scenario_of(policy, DEMAND).nodes == (16, 16, 8)
    assert scenario_of(a_group(8, pods=2, limit=40), DEMAND).nodes == (8,) * 5
    day = a_day(policy, work=0.5, ready=1, nodes=(8, 8, 8))
    assert by_its_autoscaler(day, {})["b"].ready[-1] == 1


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (a_group(32, pods=2, limit=64), "a pod of b holds 16 GPUs of one node, the largest node has 8; see --gpus-per"),
        (a_group(16, pods=4, limit=8), "a replica of b holds 16 GPUs, and there are 8"),
    ],
)
def test_a_replica_that_no_nodes_hold_is_said(policy: Policy, said: str) -> None:
    with pytest.raises(Unfit, match=said):
        scenario_of(policy, DEMAND)


def test_what_is_played_otherwise_than_written_is_said() -> None:
    policy = a_group(16, pods=2, limit=32)
    model = policy.models[0].model_copy(update={"spot_replicas": 0})
    pool = policy.pools[0].model_copy(update={"node_groups": ("asg",)})
    assert list(one_pool_notes(policy.model_copy(update={"models": (model,), "pools": (pool,)}))) == [
        "the GPUs of pool a100 are played as always there: asg brings no node",
        "targets of kind LeaderWorkerSet are played as Deployments",
        "a replica of b is played as one pod, on nodes put together until they hold it",
        (
            "elasticReplicas, spotReplicas and placeReplicas of b do not count: the one pool has neither such GPUs nor"
            " places"
        ),
    ]
    assert not list(one_pool_notes(a_policy()))


CACHE = {"kv_cache": {"high": 0.8, "low": 0.3}}
CONCURRENCY = {"concurrency": {"per_replica": 4.0}}


def test_a_signal_of_a_cache_that_is_not_simulated_holds_nothing_up() -> None:
    plain, both = (a_policy(a_model(signals=signals)) for signals in (CONCURRENCY, CONCURRENCY | CACHE))
    only = a_policy(a_model(signals=CACHE))
    assert one_pool(both) == one_pool(plain)
    assert one_pool(both).models[0].signals.configured == ("concurrency",)
    assert one_pool(only).models[0].signals.kv_cache is not None  # a model has a signal
    scenario = Scenario("made", "0", (ScenarioModel("b", ONES, ONES, first=1),), (8,), 10)
    assert ruling(scenario, both) == ruling(scenario, plain)
    assert list(signal_notes(both)) == ["signals.kvCache of b does not count: no cache is simulated"]
    assert "b has no signal but kvCache, and no cache is simulated" in next(signal_notes(only))
    assert not list(signal_notes(plain))


@pytest.mark.parametrize(
    ("gpus", "note"), [(8, ["money is unknown, since there is no pricePerGpuHour for a100"]), (0, [])]
)
def test_a_pool_with_gpus_and_without_a_price_leaves_money_unknown_and_is_named(gpus: int, note: list[str]) -> None:
    policy = a_policy(pools=(a_pool(gpu_limit=gpus), a_pool("spot", price_per_gpu_hour=2.0)))
    assert (paid(policy) is None, price_of(policy.pools) == 0.0) == (bool(gpus), bool(gpus))
    assert [each for each in one_pool_notes(policy) if each.startswith("money")] == note
