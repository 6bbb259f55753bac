"""The bounds of KEDA's ScaledObject: KEDA passes them to the HPA it owns, which clamps the workload within 15 s."""

from typing import Final

from rebalancer.act.bounds import Bounds, Dialect
from rebalancer.act.driver import Refused
from rebalancer.kube.resources import SCALEDOBJECTS, Object

PAUSED: Final = "autoscaling.keda.sh/paused"
PAUSED_REPLICAS: Final = "autoscaling.keda.sh/paused-replicas"
NOT_PAUSED: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})  # Go's ParseBool; all else pauses


def objection(obj: Object) -> Refused | None:
    """A paused ScaledObject has no HPA: bounds would reach nobody."""
    annotations = obj["metadata"].get("annotations") or {}
    for key in (PAUSED_REPLICAS, PAUSED):
        if key in annotations and not (key == PAUSED and annotations[key] in NOT_PAUSED):
            return Refused("paused", f"{obj['metadata']['name']} is paused by its annotation {key}")
    return None


SCALED_OBJECT: Final = Dialect(
    resource=SCALEDOBJECTS,
    minimum_key="minReplicaCount",
    maximum_key="maxReplicaCount",
    absent=Bounds(0, 100),
    least_minimum=0,
    objection=objection,
)
