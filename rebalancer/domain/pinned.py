"""Autoscalers and NodePools that carry our annotation: who wrote it, and whether the policy names them."""

from msgspec import Struct

from rebalancer.domain.autoscalers import Hpa, ScaledObject
from rebalancer.domain.cluster import NodePool

HELD = "held"  # ours, and the policy names it
DEPARTED = "departed"  # ours, and the policy does not name it: to be given back
UNNAMED = "unnamed"  # no installation's by name, and the policy does not name it
OTHER = "other"  # another installation's, and the policy names it
STATES = (HELD, DEPARTED, UNNAMED, OTHER)

KINDS: dict[type, str] = {
    ScaledObject: "ScaledObject",
    Hpa: "HorizontalPodAutoscaler",
    NodePool: "NodePool",
}


class Pinned(Struct, frozen=True, order=True):
    """An autoscaler or a NodePool that carries the annotation: its own controller moves it only within our last values.

    kind: kind of the object: one of the values of `KINDS`.
    namespace: its namespace, "" of a NodePool.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    by: the installation that the annotation names, "" where it names none.
    state: one of `STATES`.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    by: str
    state: str

    def __str__(self) -> str:
        return "/".join(filter(None, (self.kind.lower(), self.namespace, self.name)))


def state_of(by: str, installation: str, *, named_by_policy: bool) -> str | None:
    """Which of `STATES`; None where it is none of our business. That the policy names it is the policy's word."""
    if by == installation or (not by and named_by_policy):
        return HELD if named_by_policy else DEPARTED
    if not by:
        return UNNAMED
    return OTHER if named_by_policy else None
