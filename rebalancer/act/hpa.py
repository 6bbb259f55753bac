"""A HorizontalPodAutoscaler of its own: one that KEDA owns is KEDA's to write."""

from typing import Final

from rebalancer.act.bounds import Bounds, Dialect
from rebalancer.act.driver import Refused
from rebalancer.kube.resources import HPAS, Object


def objection(obj: Object) -> Refused | None:
    """KEDA takes back every edit of an HPA it owns."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("kind") == "ScaledObject":
            return Refused("foreign", f"HPA {obj['metadata']['name']} belongs to ScaledObject {owner.get('name')}")
    return None


HPA: Final = Dialect(
    resource=HPAS,
    minimum_key="minReplicas",
    maximum_key="maxReplicas",
    absent=Bounds(1, 1),
    least_minimum=1,  # 0 needs the feature gate HPAScaleToZero, and an external metric
    objection=objection,
)
