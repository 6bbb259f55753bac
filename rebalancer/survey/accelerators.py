"""Which resources are accelerators: what device plugins serve of NVIDIA, AMD, Intel, Google, Amazon and others."""

from collections.abc import Mapping

from rebalancer.domain.gpu_shapes import is_accelerator
from rebalancer.ingest.objects.meta import is_extended
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import whole


def devices(resources: Object) -> dict[str, int]:
    """Extended resources among `resources`, whatever device plugins call them, with their whole numbers."""
    counted = {name: whole(resources, name) for name in resources if is_extended(str(name))}
    return {name: count for name, count in counted.items() if count is not None}


def accelerators(resources: Object) -> dict[str, int]:
    """Accelerators among `resources`, with their whole numbers."""
    return {name: count for name, count in devices(resources).items() if is_accelerator(name)}


def gpus(devices: Mapping[str, int]) -> dict[str, int]:
    """The accelerators among some extended resources; of which there are 0, there is none."""
    return {name: count for name, count in devices.items() if count > 0 and is_accelerator(name)}
