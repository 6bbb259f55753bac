"""Where pods of a workload may stand: node selector, required node affinity and taints, as the scheduler reads them."""

from dataclasses import dataclass

from rebalancer.domain.cluster import Taint, Toleration
from rebalancer.survey.first_policy.templates import Expression
from rebalancer.survey.first_policy.workloads import GpuWorkload

_PASSING = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
"""Taints that come and go with a node's state: they say nothing about whom it is for."""


@dataclass(frozen=True)
class Place:
    """A node, or a node that a NodePool without any would bring.

    name: of the node, "" for one that is yet to come.
    labels: its labels.
    taints: those that stay.
    gpus: accelerators by resource.
    node_pool: Karpenter's NodePool behind it, "" without one.
    """

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    gpus: dict[str, int]
    node_pool: str = ""


def lasting(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The taints that keep pods away as long as the node lives."""
    return tuple(one for one in taints if one.effect != "PreferNoSchedule" and not one.key.startswith(_PASSING))


def may_stand(workload: GpuWorkload, place: Place) -> bool:
    """Whether the scheduler may put its pods there, whatever is free."""
    if not place.gpus.get(workload.resource):
        return False
    if any(place.labels.get(key) != value for key, value in workload.selector.items()):
        return False
    if workload.terms and not any(_holds_all(term, place.labels) for term in workload.terms):
        return False
    # The admission plugin ExtendedResourceToleration adds a toleration of the resource's own name.
    tolerations = (*workload.tolerations, Toleration(key=workload.resource, operator="Exists"))
    return all(any(one.tolerates(taint) for one in tolerations) for taint in place.taints)


def _holds_all(term: tuple[Expression, ...], labels: dict[str, str]) -> bool:
    return bool(term) and all(_holds(one, labels.get(one.key)) for one in term)


def _holds(expression: Expression, label: str | None) -> bool:
    values = expression.values or ()
    match expression.operator:
        case "In":
            return label in values
        case "NotIn":
            return label not in values
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
        case "Gt" | "Lt":
            return _compared(expression.operator, label, values)
    return False


def _compared(operator: str, label: str | None, values: tuple[str, ...]) -> bool:
    try:
        here, bound = int(label or ""), int(values[0] if values else "")
    except ValueError:
        return False
    return here > bound if operator == "Gt" else here < bound
