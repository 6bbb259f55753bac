"""The team or cost center of a model, by the labels that people put on its workload and its pods."""

from collections.abc import Collection, Sequence
from typing import Final

from rebalancer.survey.first_policy.draft import Reasoned
from rebalancer.survey.first_policy.workloads import GpuWorkload

# Names of labels behind their prefix, in small letters without - and _: `example.com/Cost-Center` is one of them.
TEAM: Final = frozenset({"team"})
COST_CENTER: Final = frozenset({"costcenter", "costcentre"})


def charged(targets: Sequence[GpuWorkload], names: Collection[str]) -> Reasoned[str] | None:
    """The first value of such a label, of the first of `targets` that has one; None where none has."""
    for each in targets:
        for key, value in sorted(each.labels.items()):
            if _name(key) in names and value:
                return Reasoned(value, f"its label {key}")
    return None


def _name(key: str) -> str:
    return key.rpartition("/")[2].lower().replace("-", "").replace("_", "")
