"""The Lease in Kubernetes: read, made where there is none, and written at the version that was seen."""

from datetime import datetime
from typing import Annotated, Final

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


class _Metadata(msgspec.Struct, rename="camel"):
    """The API server's own but for the annotations, and those are text: it stores nothing else."""

    resource_version: str
    creation_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    annotations: dict[str, str] | None = None


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
    """The Lease that an object is. What somebody spoiled by hand in its spec or its epoch counts as not there.

    Raises msgspec.ValidationError for what no API server stores: whoever cannot tell its version cannot renew it.
    """
    metadata = msgspec.convert(obj.get("metadata"), _Metadata)
    try:
        spec = msgspec.convert(obj.get("spec") or {}, _Spec)
    except msgspec.ValidationError:
        spec = _Spec()
    made = metadata.creation_timestamp
    return Lease(
        version=metadata.resource_version,
        holder=spec.holder_identity or "",
        epoch=whole_number((metadata.annotations or {}).get(EPOCH)) or 0,
        lease_seconds=spec.lease_duration_seconds or 0.0,
        created_at=int(made.timestamp()) if made is not None else 0,
    )
