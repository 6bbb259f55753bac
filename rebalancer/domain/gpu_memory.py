"""GPU memory that a replica needs, against what a GPU has: by the policy's sum, or as it was measured once loaded."""

from typing import Annotated

from msgspec import Struct
from pydantic import Field, FiniteFloat

from rebalancer.domain.instant import Instant
from rebalancer.domain.part import Part, Ratio
from rebalancer.domain.words import counted, figure

Gib = Annotated[FiniteFloat, Field(ge=0, le=100_000)]


class GpuMemory(Part):
    """GPU memory of one replica, over all its GPUs together."""

    weights_gib: Annotated[FiniteFloat, Field(gt=0, le=100_000)] = Field(
        description="Weights: parameters times bytes of each, as 16 GiB for 8 billion at 2 bytes."
    )
    kv_cache_gib: Gib = Field(
        default=0.0, description="KV cache that its requests need at once; less of it means fewer requests at a time."
    )
    activations_gib: Gib = Field(default=0.0, description="Activations and the engine's own buffers at their peak.")
    margin: Ratio = Field(default=0.12, description="Of the sum, what is kept free on top: fragments, CUDA graphs.")

    @property
    def gib(self) -> float:
        """GiB of one replica with the margin."""
        return (self.weights_gib + self.kv_cache_gib + self.activations_gib) * (1.0 + self.margin)

    def lacks(self, gpus: int, gpu_gib: float) -> str:
        """The sum by which a replica on `gpus` GPUs of `gpu_gib` each does not fit; "" where it fits."""
        if self.gib <= gpus * gpu_gib:
            return ""
        there = f"{figure(gpu_gib)}" if gpus == 1 else f"{gpus} x {figure(gpu_gib)}"
        return (
            f"GPU memory: {figure(self.weights_gib)} weights + {figure(self.kv_cache_gib)} KV cache +"
            f" {figure(self.activations_gib)} activations + {self.margin:.0%} = {figure(self.gib)} GiB > {there} GiB"
        )


class MeasuredLoad(Struct, frozen=True):
    """GPU memory of one pod once its model was loaded, over all its GPUs.

    gib: GiB in use.
    share: the share of the GPUs' memory that this is, 0-1.
    at: when it had stood still.
    """

    gib: float
    share: float
    at: Instant


class LoadedMemory(Struct, frozen=True):
    """What replicas of a model took of GPU memory once loaded: the least that another one needs, unless it is reserved.

    gib: GiB of one replica over all its GPUs, the least of those that were measured: so much it needs in any case.
    replicas: how many were measured.
    reserved: the share of the GPUs' memory that its engine takes whatever it needs, as vLLM's gpu_memory_utilization
        says; None where what is in use is needed.
    """

    gib: float
    replicas: int
    reserved: float | None = None

    def lacks(self, gpus: int, gpu_gib: float) -> str:
        """As `GpuMemory.lacks`; of a reserving engine nothing is known, so everything fits."""
        if self.reserved is not None or self.gib <= gpus * gpu_gib:
            return ""
        there = f"{figure(gpu_gib)}" if gpus == 1 else f"{gpus} x {figure(gpu_gib)}"
        measured = counted(self.replicas, "replica")
        return f"GPU memory: {figure(self.gib)} GiB in use once loaded, measured on {measured} > {there} GiB"
