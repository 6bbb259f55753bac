"""The first policy counts what nodes really offer: slices of several shapes, slices by the name of GPUs, shares."""

import pytest

from rebalancer.domain.gpu_shapes import offer
from rebalancer.domain.policy import Policy
from tests.survey.cluster import PRODUCT, Json, policy, text, the_model
from tests.survey.manifests import a_deployment, a_gpu_node

H100 = "NVIDIA-H100-80GB-HBM3"
MIG_SINGLE = {PRODUCT: f"{H100}-MIG-3g.40gb", "nvidia.com/mig.strategy": "single"}
GKE_SLICES = "cloud.google.com/gke-gpu-partition-size"
SHARED = {PRODUCT: "NVIDIA-A10G-SHARED", "nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "4"}


def a_node(name: str, labels: dict[str, str], **devices: int) -> Json:
    """A node of `devices` by resource, `mig_3g_40gb` being `nvidia.com/mig-3g.40gb`."""
    node = a_gpu_node({"agentpool": name[:1], **labels}, 0)
    by_name = {f"nvidia.com/{key.replace('_', '-', 1).replace('_', '.')}": str(each) for key, each in devices.items()}
    return node | {"metadata": node["metadata"] | {"name": name}, "status": {"allocatable": {"cpu": "8"} | by_name}}


def serving(name: str, resource: str = "nvidia.com/gpu") -> Json:
    limits = {"resources": {"limits": {resource: "1"}}}
    return a_deployment(name, container=limits, pod={"nodeSelector": {}})


def counted(found: Policy, nodes: list[Json]) -> dict[str, int]:
    """By pool the devices that the service will count."""
    by_pool = dict.fromkeys((pool.name for pool in found.pools), 0)
    for pool in found.pools:
        for node in nodes:
            labels, there = node["metadata"]["labels"], node["status"]["allocatable"]
            if pool.node_labels.items() <= labels.items():
                devices = {name: int(count) for name, count in there.items()}
                by_pool[pool.name] += offer(
                    pool.resource, pool.isolation, pool.node_labels, labels, devices, {}
                ).devices
    return by_pool


@pytest.mark.parametrize("labels", [MIG_SINGLE, SHARED, {**MIG_SINGLE, PRODUCT: f"{H100}-MIG-3g.40gb-SHARED"}, {}])
def test_what_nodes_offer_by_the_name_of_whole_gpus_counts(labels: dict[str, str]) -> None:
    nodes = [a_node("a1", labels, gpu=16)]
    found = policy([*nodes, serving("chat")])
    assert counted(found, nodes) == {"a": 16}
    (pool,) = found.pools
    assert (pool.isolation == "soft") is ("SHARED" in labels.get(PRODUCT, ""))
    assert (PRODUCT in pool.node_labels) is ("-MIG-" in labels.get(PRODUCT, ""))


def test_shares_and_whole_gpus_are_pools_of_their_own() -> None:
    unnamed = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    nodes = [a_node("a1", unnamed, gpu=16), a_node("b1", {}, gpu=8)]
    found = policy([*nodes, serving("chat")])
    assert counted(found, nodes) == {"a": 16, "b": 8}
    assert [(pool.name, pool.isolation) for pool in found.pools] == [("a", "soft"), ("b", "hard")]


def test_gke_s_slices_and_whole_gpus_of_one_product_are_pools_of_their_own() -> None:
    a100 = {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}
    sliced = a100 | {GKE_SLICES: "1g.5gb"}
    nodes = [a_node("a1", a100, gpu=8), a_node("b1", sliced, gpu=56)]
    found = policy([*nodes, serving("chat")])
    assert counted(found, nodes) == {"a": 8, "b": 56}
    assert [GKE_SLICES in pool.node_labels for pool in found.pools] == [False, True]


def test_each_shape_that_is_asked_for_is_a_pool_on_the_same_nodes() -> None:
    nodes = [a_node(name, {PRODUCT: H100}, gpu=0, mig_3g_40gb=4, mig_1g_10gb=8, mig_2g_20gb=1) for name in ("a1", "a2")]
    slices = {"chat": "nvidia.com/mig-3g.40gb", "embed": "nvidia.com/mig-1g.10gb"}
    objects = [*nodes, *(serving(name, resource) for name, resource in slices.items())]
    found = policy(objects)
    assert counted(found, nodes) == {"a": 16, "a-2": 8}
    assert all(pool.node_labels == {"agentpool": "a"} for pool in found.pools)
    homes = {pool.name: pool.resource for pool in found.pools}
    assert {name: homes[the_model(found, name).targets[0].pool] for name in slices} == slices
    written = text(objects)
    assert "It found:\n# 2 GPU nodes" in written
    assert "of pools above too" not in written


def test_a_node_pool_of_nodes_with_two_shapes_stands_where_more_devices_are_and_the_other_pool_says_so() -> None:
    karpenters = {PRODUCT: H100, "karpenter.sh/nodepool": "mig"}
    nodes = [a_node(name, karpenters, gpu=0, mig_3g_40gb=4, mig_1g_10gb=8) for name in ("a1", "a2")]
    slices = {"chat": "nvidia.com/mig-3g.40gb", "embed": "nvidia.com/mig-1g.10gb"}
    objects = [*nodes, *(serving(name, resource) for name, resource in slices.items())]
    assert {pool.resource: pool.node_pools for pool in policy(objects).pools} == {
        "nvidia.com/mig-1g.10gb": ("mig",),
        "nvidia.com/mig-3g.40gb": (),
    }
    written = text(objects)
    assert "NodePool mig makes these nodes, and stands in pool a: that pool's need alone raises it" in written
    assert "give each shape its own" not in written


def test_why_nothing_counts_is_said_where_no_word_of_the_policy_mends_it() -> None:
    node = a_node("a1", {}, gpu=16)
    node["metadata"]["annotations"] = {"hami.io/node-nvidia-register": "GPU-1,10,24576,100,A10G,0,true:"}
    assert "offers 16 shares of 1 GPU by HAMi" in text([node, serving("chat")])
