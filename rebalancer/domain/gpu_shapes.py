"""What the devices of a node are: whole GPUs, MIG slices, or shares; and how much memory one of them has.

NVIDIA's feature discovery says it by labels of the node, GKE by its own; HAMi and its relatives by annotations. A share
by time-slicing or MPS is no GPU: nothing keeps its neighbours from its memory or its time, so only a pool whose policy
says `isolation: soft` counts it. Under MIG's strategy `single`, and on GKE, slices bear the name of whole GPUs.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from rebalancer.domain.digits import whole_number
from rebalancer.domain.words import counted, listed

Isolation = Literal["hard", "soft"]

MIB_PER_GIB: Final = 1024
_ACCELERATOR: Final = re.compile(
    r"[a-z0-9.-]+/(gpu|gpu\.shared|mig-[-a-z0-9.]+|gaudi\d?|tpu|neuron|neuroncore|neurondevice)|gpu\.intel\.com/(i915|xe)"
)
# Schedulers that sell parts of a GPU: how their devices are spelt, and who they are.
_PORTIONS: Final = (
    (re.compile(r"nvidia\.com/(gpumem(-percentage)?|gpucores)"), "HAMi"),
    (re.compile(r"volcano\.sh/(vgpu-.*|gpu-memory)"), "Volcano's vGPU plugin"),
    (re.compile(r"aliyun\.com/gpu-(mem|core.*)"), "Alibaba's GPU share"),
    (re.compile(r"tencent\.com/vcuda-.*"), "Tencent's GPU manager"),
    (re.compile(r"nvidia\.com/gpu-\d+gb"), "nos"),
)
# Annotations in which such a scheduler's device plugin registers the cards that it splits.
REGISTERED_BY: Final = {
    "hami.io/node-nvidia-register": "HAMi",
    "4pd.io/node-nvidia-register": "HAMi",
    "volcano.sh/node-vgpu-register": "Volcano's vGPU plugin",
}
_MIG: Final = re.compile(r"nvidia\.com/mig-(?P<profile>\d+g\.\d+gb[-a-z0-9.+]*)")
_MIG_PRODUCT: Final = re.compile(r".*-MIG-(?P<profile>\d+g\.\d+gb.*?)(-SHARED)?")
_PRODUCT: Final = "nvidia.com/gpu.product"
_GKE_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"  # a MIG profile
SLICED_BY: Final = (_PRODUCT, _GKE_PARTITION)  # labels that name the profile of slices by the name of whole GPUs
_GKE_SHARES: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"
_AMD_MEMORY: Final = re.compile(r"(?P<gib>\d+)G")  # the label amd.com/gpu.vram, as `64G`


class Offer(NamedTuple):
    """What one node offers a pool.

    devices: how many of the pool's resource count.
    refused: why others that it offers do not; "" where all do.
    memory_gib: GiB of GPU memory that one of them has; None where nobody says.
    """

    devices: int
    refused: str = ""
    memory_gib: float | None = None


def is_accelerator(resource: str) -> bool:
    """Whether one of it is an accelerator, or a slice of one. HAMi's `nvidia.com/gpumem` is memory, and none."""
    return _ACCELERATOR.fullmatch(resource) is not None


def sold_by(resource: str) -> str | None:
    """The scheduler that sells parts of GPUs by this resource, of which one is no device; None where none does."""
    return next((who for spelt, who in _PORTIONS if spelt.fullmatch(resource)), None)


def offer(  # noqa: PLR0913  # what a node says of itself, and what its pool's policy says
    resource: str,
    isolation: Isolation,
    wanted: Mapping[str, str],
    labels: Mapping[str, str],
    allocatable: Mapping[str, int],
    registered: Mapping[str, int],
) -> Offer:
    """What a node offers a pool of `resource`.

    wanted: labels by which the pool finds its nodes; one that names a MIG profile makes its slices the pool's GPUs.
    registered: cards by who splits them (`REGISTERED_BY`).
    """
    there = allocatable.get(resource, 0)
    refused = (
        _by_others(there, registered)
        or _elsewhere(there, resource, allocatable)
        or _slices(there, resource, wanted, labels)
        or _shares(there, resource, isolation, labels)
    )
    return Offer(0 if refused else there, refused, memory_gib(resource, labels))


def shares_of(resource: str, labels: Mapping[str, str]) -> int:
    """How many times each device of `resource` is offered; 1: it is whole. 0: it is shared, nobody says how often."""
    label = labels.get(f"{_labelled(resource)}.replicas") or labels.get(_GKE_SHARES, "")
    copies = whole_number(label) or 0
    named = resource.endswith(".shared") or labels.get(_PRODUCT, "").endswith("-SHARED")
    strategy = labels.get(f"{_labelled(resource)}.sharing-strategy", "none")
    if copies > 1 or not (named or strategy not in {"none", ""}):
        return max(1, copies)
    return 0


def memory_gib(resource: str, labels: Mapping[str, str]) -> float | None:
    """GiB of memory of one device, by the labels of its node; of a share its part. None where nobody says.

    `nvidia.com/gpu.memory` is in MiB, of the slice under MIG, of the whole card under time-slicing and MPS. Under
    time-slicing a share may take more than its part; then its neighbours have less.
    """
    whole = (whole_number(labels.get(f"{_labelled(resource)}.memory")) or 0) / MIB_PER_GIB
    amd = _AMD_MEMORY.fullmatch(labels.get("amd.com/gpu.vram", "")) if resource == "amd.com/gpu" else None
    if amd is not None:
        whole = float(amd["gib"])
    copies = shares_of(resource, labels)
    return None if not whole or not copies else round(whole / copies, 2)


def slices(resource: str) -> int:
    """Compute slices of one MIG device, as 3 of `nvidia.com/mig-3g.20gb`; 0 of any other resource."""
    shape = _MIG.fullmatch(resource)
    return 0 if shape is None else int(shape["profile"].partition("g")[0])


def _labelled(resource: str) -> str:
    """How NVIDIA's labels spell the resource: those of shared GPUs are the GPU's."""
    return resource.removesuffix(".shared")


def _by_others(there: int, registered: Mapping[str, int]) -> str:
    if not there or not registered:
        return ""
    who, cards = min(registered.items())
    return (
        f"offers {there} shares of {counted(cards, 'GPU')} by {who}: how much of a GPU one of them holds only {who}"
        " knows, so none is counted; leave such nodes out of the pool by a label"
    )


def _elsewhere(there: int, resource: str, allocatable: Mapping[str, int]) -> str:
    others = [f"{count} {name}" for name, count in sorted(allocatable.items()) if count and is_accelerator(name)]
    if there or not others:
        return ""
    return f"offers {listed(others)} and no {resource}: name one of them as the pool's `resource`"


def _slices(there: int, resource: str, wanted: Mapping[str, str], labels: Mapping[str, str]) -> str:
    profiles = _profiles(labels)
    if not there or not profiles or resource not in {"nvidia.com/gpu", "nvidia.com/gpu.shared"} or _profiles(wanted):
        return ""
    label, profile = next(iter(profiles.items()))
    return (
        f"offers {there} MIG slices {profile} by the name of whole GPUs (strategy single): to count slices,"
        f" add `{label}: {labels[label]}` to the pool's nodeLabels"
    )


def _profiles(labels: Mapping[str, str]) -> dict[str, str]:
    """The MIG profile that slices by the name of whole GPUs have, by the label that says so (`SLICED_BY`)."""
    product = _MIG_PRODUCT.fullmatch(labels.get(_PRODUCT, ""))
    profiles = {_PRODUCT: product["profile"] if product else "", _GKE_PARTITION: labels.get(_GKE_PARTITION, "")}
    return {label: profile for label, profile in profiles.items() if profile}


def _shares(there: int, resource: str, isolation: Isolation, labels: Mapping[str, str]) -> str:
    copies = shares_of(resource, labels)
    if not there or copies == 1 or isolation == "soft":
        return ""
    strategy = labels.get(f"{_labelled(resource)}.sharing-strategy", "none")
    how = f" by {strategy}" if strategy not in {"none", ""} else ""
    of = f"{there} shares of {counted(there // copies, 'GPU')}" if copies else f"{there} shares of GPUs"
    return f"offers {of}{how}: a share is no GPU; to count shares, say `isolation: soft` in the pool"
