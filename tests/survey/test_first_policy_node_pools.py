"""A Karpenter NodePool that has no node now: what a first policy makes of what it says and of who waits for it."""

import pytest

from rebalancer.domain.policy import Pool
from tests.survey.cluster import PRODUCT, Json, engine, policy, text
from tests.testbed.objects import gpu_node, node_pool

BY_NAME = {"karpenter.sh/nodepool": "big"}


def empty(**spec: object) -> Json:
    """NodePool `big`, which has no node."""
    return node_pool("big", instance_types=["p5.48xlarge"], **spec)  # type: ignore[arg-type]  # its own words


def the_big(*objects: Json) -> Pool:
    return next(pool for pool in policy(objects).pools if pool.node_pools == ("big",))


@pytest.mark.parametrize("gpu_limit", [32, None])
def test_where_no_node_tells_its_gpus_they_are_a_guess_that_takes_the_largest_pod(gpu_limit: int | None) -> None:
    objects = [empty(gpu_limit=gpu_limit), engine("chat", gpus=4, node_labels=BY_NAME)]
    assert the_big(*objects, engine("code", gpus=2, node_labels=BY_NAME)).gpus_per_node == 4
    written = " ".join(text(objects).replace("#", "").split())
    sentence = "guess: no node tells; its largest pod asks for so many; choose: what its nodes have"
    assert f"{sentence} gpusPerNode: 4" in written


def test_a_group_of_pods_needs_nodes_of_one_pod_s_gpus() -> None:
    group = {"size": 2, "workerTemplate": engine("x", gpus=8, node_labels=BY_NAME)["spec"]["template"]}
    api = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    spec = {"replicas": 1, "leaderWorkerTemplate": group}
    pool = the_big(empty(gpu_limit=32), {**api, "metadata": {"name": "x", "namespace": "ml"}, "spec": spec})
    assert pool.gpus_per_node == 8


def test_what_a_node_pool_says_of_its_nodes_counts() -> None:
    told = empty(gpu_limit=32)
    counts = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "In", "values": ["8"]}
    told["spec"]["template"]["spec"]["requirements"].append(counts)
    objects = [told, engine("chat", gpus=4, node_labels=BY_NAME)]
    assert the_big(*objects).gpus_per_node == 8
    assert "gpusPerNode: 8                    # as its NodePool says; limits rise in whole nodes" in text(objects)


def test_a_node_pool_that_says_nothing_of_gpus_is_one_where_a_model_selects_it_by_name() -> None:
    silent = node_pool("big")
    node = gpu_node("a", 8, labels={PRODUCT: "NVIDIA-A100"})
    assert the_big(silent, node, engine("chat", gpus=4, node_labels=BY_NAME)).gpus_per_node == 4
    assert [pool.node_pools for pool in policy([silent, node, engine("chat")]).pools] == [()]


def test_a_node_pool_without_a_limit_and_without_a_node_may_have_the_nodes_that_its_models_ask_for() -> None:
    told = empty()
    counts = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "In", "values": ["8"]}
    told["spec"]["template"]["spec"]["requirements"].append(counts)
    objects = [told, engine("chat", 3, gpus=4, node_labels=BY_NAME)]
    assert the_big(*objects).gpu_limit == 16
    written = " ".join(text(objects).replace("#", "").split())
    assert (
        "no node today; NodePool big has no limit: choose: one; its workloads ask for so many gpuLimit: 16" in written
    )
