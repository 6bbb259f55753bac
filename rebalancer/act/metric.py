"""The driver of targets whose ScaledObject asks us for its replicas: nothing is written, and the answer changes.

From the acknowledged intent on the new number is what `GET /v1/models/MODEL/desired/POOL` answers. The HPA asks every
15 s, so a release is seen to be done by the target's replicas and its pods, as everywhere.
"""

from rebalancer.act.driver import Ask, Refused, same_object
from rebalancer.act.port import Port
from rebalancer.act.scaled_object import SCALED_OBJECT
from rebalancer.domain.plan import Change
from rebalancer.domain.snapshot import AutoscalerView
from rebalancer.kube.resources import Object, Ref


class MetricDriver:
    """Lets a new number pass, if the ScaledObject is still the one that the plan saw, and admits it."""

    def __init__(self, kube: Port) -> None:
        self._kube = kube

    async def look(self, change: Change) -> Object:
        """The ScaledObject. Raises Refused: recreated, metric (it does not follow us), paused, bounds."""
        autoscaler = _followed(change)
        obj = await self._kube.get(Ref(SCALED_OBJECT.resource, change.target.namespace, autoscaler.name))
        what = f"scaledobject/{change.target.namespace}/{autoscaler.name}"
        same_object(obj, autoscaler.uid, what)
        objection = SCALED_OBJECT.objection(obj)
        if objection is not None:
            raise objection
        low, high = SCALED_OBJECT.bounds(obj)
        if not low <= change.replicas_to <= high:
            raise Refused("bounds", f"{what} admits {low} to {high} replicas, and {change.replicas_to} are wanted")
        return obj

    async def write(self, change: Change, seen: Object) -> Ask:  # noqa: ARG002  a driver's write has both
        """Nothing goes out: the caller notes the number, and the API answers it from then on."""
        return Ask(change.replicas_to, change.replicas_to)

    async def shows(self, change: Change) -> bool:  # noqa: ARG002  a driver's question has it
        """Whether the number is in force: always, for no reply can be lost."""
        return True


def _followed(change: Change) -> AutoscalerView:
    autoscaler = change.target.autoscaler
    if autoscaler is None or not change.target.by_metric:
        raise Refused("metric", f"no ScaledObject of {change.target.name} follows what we answer")
    return autoscaler
