"""What the devices of a node are by its labels: whole GPUs, MIG slices, shares, and what others sell in parts."""

import pytest

from rebalancer.domain.gpu_shapes import Isolation, memory_gib, offer, sold_by

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"
PRODUCT = "nvidia.com/gpu.product"
SLICES = "A100-SXM4-40GB-MIG-1g.5gb"
GKE_SLICES = "cloud.google.com/gke-gpu-partition-size"


def test_whole_gpus_count_with_the_memory_that_their_label_says_in_mebibytes() -> None:
    found = offer(GPU, "hard", {}, {"nvidia.com/gpu.memory": "81559", PRODUCT: "H100"}, {GPU: 8}, {})
    assert found == (8, "", 79.65)


@pytest.mark.parametrize(
    ("resource", "labels"),
    [
        (GPU, {"nvidia.com/gpu.replicas": "4", PRODUCT: "Tesla-T4-SHARED"}),
        (GPU, {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"}),
        (GPU, {"cloud.google.com/gke-max-shared-clients-per-gpu": "4"}),
        (SHARED, {"nvidia.com/gpu.replicas": "4"}),
    ],
)
def test_a_share_is_no_gpu_and_counts_only_where_the_pool_says_so(resource: str, labels: dict[str, str]) -> None:
    hard = offer(resource, "hard", {}, labels, {resource: 16}, {})
    assert (hard.devices, hard.refused[:31]) == (0, "offers 16 shares of 4 GPUs" + hard.refused[26:31])
    assert hard.refused.endswith("a share is no GPU; to count shares, say `isolation: soft` in the pool")
    assert offer(resource, "soft", {}, labels, {resource: 16}, {})[:2] == (16, "")


def test_who_is_shared_without_saying_how_often_is_no_whole_gpu_either() -> None:
    assert offer(SHARED, "hard", {}, {}, {SHARED: 16}, {}).refused.startswith("offers 16 shares of GPUs")


def test_a_share_has_its_part_of_the_memory() -> None:
    labels = {"nvidia.com/gpu.memory": "15360", "nvidia.com/gpu.replicas": "4"}
    assert memory_gib(GPU, labels) == 3.75
    assert memory_gib(SHARED, labels) == 3.75


def test_a_renamed_resource_is_told_by_its_name() -> None:
    assert offer(GPU, "hard", {}, {"nvidia.com/gpu.replicas": "4"}, {GPU: 0, SHARED: 16}, {}) == (
        0,
        "offers 16 nvidia.com/gpu.shared and no nvidia.com/gpu: name one of them as the pool's `resource`",
        None,
    )


@pytest.mark.parametrize(("wanted", "devices"), [({}, 0), ({PRODUCT: "A100-SXM4-40GB"}, 0), ({PRODUCT: SLICES}, 56)])
def test_slices_by_the_name_of_whole_gpus_count_only_where_the_pool_names_them(
    wanted: dict[str, str], devices: int
) -> None:
    labels = {PRODUCT: SLICES, "nvidia.com/gpu.memory": "5120", "nvidia.com/mig.strategy": "single"}
    found = offer(GPU, "hard", wanted, labels, {GPU: 56}, {})
    assert (found.devices, found.memory_gib) == (devices, 5.0)
    assert ("offers 56 MIG slices 1g.5gb by the name of whole GPUs" in found.refused) is (devices == 0)


@pytest.mark.parametrize(
    ("wanted", "devices"), [({}, 0), ({"cloud.google.com/gke-nodepool": "p"}, 0), ({GKE_SLICES: "1g.5gb"}, 56)]
)
def test_gke_s_partitions_by_the_name_of_whole_gpus_count_only_where_the_pool_names_them(
    wanted: dict[str, str], devices: int
) -> None:
    labels = {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100", GKE_SLICES: "1g.5gb"}
    found = offer(GPU, "hard", wanted, labels, {GPU: 56}, {})
    assert found.devices == devices
    assert (f"add `{GKE_SLICES}: 1g.5gb` to the pool's nodeLabels" in found.refused) is (devices == 0)


def test_of_mixed_slices_each_shape_is_a_stock_of_its_own() -> None:
    labels = {"nvidia.com/mig-1g.10gb.memory": "9984", "nvidia.com/mig-2g.20gb.memory": "20096", PRODUCT: "H100"}
    there = {GPU: 0, "nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-2g.20gb": 1}
    assert offer("nvidia.com/mig-1g.10gb", "hard", {}, labels, there, {}) == (2, "", 9.75)
    assert offer("nvidia.com/mig-2g.20gb", "hard", {}, labels, there, {}) == (1, "", 19.62)
    assert offer(GPU, "hard", {}, labels, there, {}).devices == 0


@pytest.mark.parametrize("isolation", ["hard", "soft"])
def test_what_hami_sells_in_parts_is_not_counted_at_all(isolation: Isolation) -> None:
    found = offer(GPU, isolation, {}, {}, {GPU: 20}, {"HAMi": 2})
    assert found.devices == 0
    assert found.refused.startswith("offers 20 shares of 2 GPUs by HAMi")


@pytest.mark.parametrize(
    ("resource", "who"),
    [
        ("nvidia.com/gpumem", "HAMi"),
        ("volcano.sh/vgpu-memory", "Volcano's vGPU plugin"),
        ("aliyun.com/gpu-mem", "Alibaba's GPU share"),
        ("nvidia.com/gpu-10gb", "nos"),
        ("nvidia.com/mig-1g.10gb", None),
        (GPU, None),
    ],
)
def test_parts_of_gpus_have_a_seller(resource: str, who: str | None) -> None:
    assert sold_by(resource) == who


@pytest.mark.parametrize("resource", ["amd.com/gpu", "habana.ai/gaudi"])
def test_devices_of_other_makers_count_as_they_are(resource: str) -> None:
    assert offer(resource, "hard", {}, {}, {resource: 8}, {}) == (8, "", None)
    assert memory_gib("amd.com/gpu", {"amd.com/gpu.vram": "192G"}) == 192.0
