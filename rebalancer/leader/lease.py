"""The Lease in Kubernetes: read, made where there is none, and written at the version that was seen."""

from datetime import datetime
from typing import Final

import msgspec

from rebalancer.domain.digits import whole_number
from rebalancer.kube.errors import NotFound
from rebalancer.kube.moment import written_as
from rebalancer.kube.object_port import ObjectPort
from rebalancer.kube.resources import LEASES, Object, Ref
from rebalancer.leader.candidate import Lease, LeaseClaim
from rebalancer.obs.clock import Clock

EPOCH: Final = "rebalancer.io/epoch"
"""The annotation that carries the number of a term, on the Lease and on what a leader writes."""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: float | None = None


class _Made(msgspec.Struct, rename="camel"):
    creation_timestamp: datetime | None = None


class LeaseObject:
    """One Lease, by namespace and name."""

    def __init__(self, kube: ObjectPort, namespace: str, name: str, clock: Clock) -> None:
        self._kube = kube
        self._ref = Ref(LEASES, namespace, name)
        self._clock = clock

    async def read(self) -> Lease | None:
        """What it says; None where there is none. What cannot be understood in it says nothing."""
        try:
            return decoded(await self._kube.get(self._ref))
        except NotFound:
            return None

    async def write(self, claim: LeaseClaim) -> str:
        """Write `claim`; the version stored. Raises Conflict when it is not at that version any more, and KubeErrors.

        Instants in it are for people: nobody decides by them.
        """
        now = self._clock.now()
        spec: Object = {
            "holderIdentity": claim.holder,
            "leaseDurationSeconds": round(claim.lease_seconds),
            "renewTime": written_as(now),
        }
        body: Object = {"metadata": {"annotations": {EPOCH: str(claim.epoch)}}, "spec": spec}
        if claim.version is None:
            whole: Object = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, **body}
            whole["metadata"] |= {"name": self._ref.name, "namespace": self._ref.namespace}
            stored = await self._kube.create(LEASES, whole)
        else:
            stored = await self._kube.patch(self._ref, body, resource_version=claim.version)
        version: str = stored["metadata"]["resourceVersion"]
        return version


def decoded(obj: Object) -> Lease:
    """The Lease that an object is. A field that somebody spoiled by hand counts as not there."""
    metadata = obj["metadata"]
    try:
        spec = msgspec.convert(obj.get("spec") or {}, _Spec)
    except msgspec.ValidationError:
        spec = _Spec()
    made = msgspec.convert(metadata, _Made).creation_timestamp  # the API server's own, which nobody can set
    epoch = str((metadata.get("annotations") or {}).get(EPOCH, ""))
    return Lease(
        version=metadata["resourceVersion"],
        holder=spec.holder_identity or "",
        epoch=whole_number(epoch) or 0,
        lease_seconds=spec.lease_duration_seconds or 0.0,
        created_at=int(made.timestamp()) if made is not None else 0,
    )
