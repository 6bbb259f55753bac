"""GPU memory that a replica needs, against what a GPU has: weights, KV cache, activations, and a margin on top."""

from typing import Annotated

from pydantic import Field, FiniteFloat

from rebalancer.domain.part import Part, Ratio
from rebalancer.domain.words import figure

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
