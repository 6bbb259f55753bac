"""What Karpenter's NodePools say about the nodes that they bring."""

import re
from typing import Final

from rebalancer.domain.gpu_shapes import is_accelerator
from rebalancer.domain.placement import INSTANCE_TYPE, Requirement
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import items, part, requirements, text, value

_FAMILY: Final = re.compile(r"(?:gr|[gp])\d\w*(?:-\w+)?")
_FAMILY_KEYS: Final = ("karpenter.k8s.aws/instance-family", INSTANCE_TYPE)
_GPU_KEY: Final = re.compile(r"gpu|accelerator", re.IGNORECASE)


def brings_gpus(pool: Object) -> bool:
    """Whether its limits, taints or requirements speak of accelerators."""
    taints = items(pool, "spec", "template", "spec", "taints")
    keys = [*part(pool, "spec", "limits"), *(text(each, "key") for each in taints)]
    required = [one.key for one in _requirements(pool)]
    by_words = any(is_accelerator(str(key)) for key in keys) or any(map(_GPU_KEY.search, required))
    return by_words or bool(families(pool))


def allowed(pool: Object, key: str) -> set[str]:
    """Values of a node label that its requirements and labels leave, as far as they are listed."""
    label = text(value(pool, "spec", "template", "metadata", "labels"), key)
    conditions = [one for one in _requirements(pool) if one.key == key and one.operator == "In"]
    return {label} if label else {word for one in conditions for word in one.values}


def families(pool: Object) -> set[str]:
    """EC2 families with GPUs."""
    listed = {word.partition(".")[0] for key in _FAMILY_KEYS for word in allowed(pool, key)}
    return {each for each in listed if _FAMILY.fullmatch(each)}


def _requirements(pool: Object) -> list[Requirement]:
    return requirements(pool, "spec", "template", "spec", "requirements")
