"""Which resources are accelerators: what device plugins serve of NVIDIA, AMD, Intel, Google, Amazon and others."""

import re
from collections.abc import Mapping
from typing import Final

from rebalancer.survey.objects import Object
from rebalancer.survey.parts import whole

_ACCELERATOR: Final = re.compile(
    r"[a-z0-9.-]+/(gpu|gpu\.shared|mig-[-a-z0-9.]+|gaudi\d?|tpu|neuron|neuroncore|neurondevice)|gpu\.intel\.com/(i915|xe)"
)


def is_accelerator(resource: str) -> bool:
    """Whether one of it is an accelerator, or a slice of one. HAMi's `nvidia.com/gpumem` is memory, and none."""
    return _ACCELERATOR.fullmatch(resource) is not None


def accelerators(resources: Object) -> dict[str, int]:
    """Those of `resources` that are accelerators, with their whole numbers."""
    counted = {name: whole(resources, name) for name in resources if is_accelerator(str(name))}
    return {name: count for name, count in counted.items() if count is not None}


def gpus(devices: Mapping[str, int]) -> dict[str, int]:
    """The accelerators among some extended resources; of which there are 0, there is none."""
    return {name: count for name, count in devices.items() if count > 0 and is_accelerator(name)}
