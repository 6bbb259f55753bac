"""The smallest set of labels that nodes have in common and that tells them from other nodes."""

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Final

from rebalancer.domain.placement import INSTANCE_TYPE

MOST_LABELS: Final = 3
MOST_CANDIDATES: Final = 20  # 1,350 sets of at most three

NODE_POOLS: Final = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "agentpool",
)
PRODUCTS: Final = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "amd.com/gpu.product-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
)
CAPACITIES: Final = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-preemptible",
    "cloud.google.com/gke-provisioning",
    "kubernetes.azure.com/scalesetpriority",
    "node.kubernetes.io/lifecycle",
)
TYPES: Final = (INSTANCE_TYPE,)

# A machine's own, or the same on many: what tells no pool apart, or only until the next driver comes.
_NOISE: Final = (
    "beta.kubernetes.io/", "failure-domain.", "feature.node.kubernetes.io/", "kubernetes.io/",
    "node-role.kubernetes.io/", "nvidia.com/cuda.", "nvidia.com/gfd.", "nvidia.com/gpu.deploy.", "topology.",
    "volumes.kubernetes.io/",
)  # fmt: skip


def telling(
    ours: Sequence[dict[str, str]], others: Iterable[dict[str, str]], selected: Collection[str]
) -> dict[str, str] | None:
    """The fewest labels that all of `ours` have and none of `others` has all of; None where there are none.

    Of as many, those that workloads select by (`selected`) come first, then a node pool's name, the product, and so on:
    what people chose themselves lasts longer than what a machine says of itself. What any node may have, such as
    its zone or how it is paid for, names no pool alone.
    """
    common = {key: value for key, value in ours[0].items() if all(each.get(key) == value for each in ours)}
    keys = sorted(
        (key for key in common if _rank(key, selected) is not None), key=lambda key: (_rank(key, selected), key)
    )
    alike = {frozenset(key for key in keys if each.get(key) == common[key]) for each in others}
    sets = [chosen for size in range(1, MOST_LABELS + 1) for chosen in combinations(keys[:MOST_CANDIDATES], size)]
    for chosen in sorted(sets, key=lambda each: all(map(_of_any_node, each))):
        if not any(shared.issuperset(chosen) for shared in alike):
            return {key: common[key] for key in chosen}
    return None


def _rank(key: str, selected: Collection[str]) -> int | None:
    """How well a label names a pool, 0 best; None for one that names none."""
    if key.startswith(_NOISE):
        return 6 if key in selected else None
    if key in selected:
        return 0
    for rank, keys in enumerate((NODE_POOLS, PRODUCTS, CAPACITIES, TYPES), 1):
        if key in keys:
            return rank
    return 5


def _of_any_node(key: str) -> bool:
    return key in CAPACITIES or key.startswith(_NOISE)
