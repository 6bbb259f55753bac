"""The people's port of a service that only observes: it shows and previews, and makes nothing."""

from rebalancer.api.ports.operator import Accepted, Declined, Overrides, RequestOrigin, Writes
from rebalancer.api.ports.requests import OverrideRequest, ResumeRequest, StopRequest
from rebalancer.app.operator_port import ServiceOperatorPort
from rebalancer.domain.snapshot import Snapshot

NOTHING_TO_STOP = "this service only observes: it has no way to write, so there is nothing to stop or to resume"
NO_OBJECTS = "this service only observes: it makes no overrides for people"
BY_KUBECTL = "make it with `rebalancer override` through your kubeconfig, or run the service with Kafka"


class ObserverOperatorPort(ServiceOperatorPort):
    """Implements `api.ports.operator.OperatorPort` from the watches alone."""

    async def overrides(self) -> Overrides:
        """The overrides that the watch has shown."""
        known = self._snapshot()
        overrides = known.overrides if known is not None else ()
        return Overrides(self._instance, self._leader(), overrides, self.gone(), self._clock.now())

    async def create(self, request: OverrideRequest, requester: RequestOrigin) -> Accepted:  # noqa: ARG002  the port's
        """Raises Declined."""
        raise Declined(409, NO_OBJECTS, BY_KUBECTL)

    async def delete(self, namespace: str, name: str, actor: str) -> None:  # noqa: ARG002  the port's
        """Raises Declined."""
        raise Declined(409, NO_OBJECTS, BY_KUBECTL)

    async def writes(self) -> Writes:
        """The write stop that the watch has shown, if any."""
        known = self._snapshot()
        stop = known.write_stop if known is not None else None
        stops = () if stop is None else (stop,)
        return Writes(self._instance, self._leader(), self._settings.write_mode, bool(stops), stops)

    async def stop(self, request: StopRequest, requester: RequestOrigin) -> Writes:  # noqa: ARG002  the port's
        """Raises Declined."""
        raise Declined(409, NOTHING_TO_STOP)

    async def resume(self, request: ResumeRequest, actor: str) -> Writes:  # noqa: ARG002  the port's
        """Raises Declined."""
        raise Declined(409, NOTHING_TO_STOP)

    def _snapshot(self) -> Snapshot | None:
        return None if self.known is None else self.known().snapshot
