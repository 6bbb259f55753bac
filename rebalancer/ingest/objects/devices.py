"""Dynamic resource allocation, `resource.k8s.io/v1`: DeviceClasses, ResourceSlices, claims and their templates."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from rebalancer.domain.devices import (
    MIB,
    ClaimTemplate,
    Device,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
    Value,
)
from rebalancer.domain.quantities import Quantity, amount
from rebalancer.ingest.objects.meta import Metadata

MAX_SELECTOR_CHARACTERS = 200
_SUBJECT = r"device\.driver|device\.attributes\[(?P<q>['\"])(?P<domain>[^'\"]+)(?P=q)\]\.(?P<name>\w+)"
_COMPARES = re.compile(rf"\(?\s*({_SUBJECT})\s*==\s*(?P<value>'[^']*'|\"[^\"]*\"|-?\d+|true|false)\s*\)?")


class _Cel(Struct, frozen=True, gc=False):
    expression: str = ""


class _Selector(Struct, frozen=True, gc=False):
    cel: _Cel = _Cel()


class _ClassSpec(Struct, frozen=True, gc=False, rename="camel"):
    selectors: tuple[_Selector, ...] | None = None
    extended_resource_name: str | None = None


class DeviceClassWire(Struct, frozen=True, gc=False):
    """`resource.k8s.io/v1` DeviceClass, the part that matters."""

    metadata: Metadata
    spec: _ClassSpec = _ClassSpec()


class _Attribute(Struct, frozen=True, gc=False):
    string: str | None = None
    int_: int | None = field(name="int", default=None)
    bool_: bool | None = field(name="bool", default=None)
    version: str | None = None

    def value(self) -> Value:
        """Whichever of the four it is."""
        return next((one for one in (self.string, self.int_, self.bool_, self.version) if one is not None), "")


class _Amount(Struct, frozen=True, gc=False):
    value: Quantity = 0


class _Uses(Struct, frozen=True, gc=False, rename="camel"):
    counter_set: str
    counters: dict[str, _Amount] = {}


class _Shared(Struct, frozen=True, gc=False):
    name: str
    counters: dict[str, _Amount] = {}


class _Taint(Struct, frozen=True, gc=False):
    effect: str = ""


class _Device(Struct, frozen=True, gc=False, rename="camel"):
    name: str
    attributes: dict[str, _Attribute] | None = None
    capacity: dict[str, _Amount] | None = None
    consumes_counters: tuple[_Uses, ...] | None = None
    taints: tuple[_Taint, ...] | None = None


class _Pool(Struct, frozen=True, gc=False, rename="camel"):
    name: str
    generation: int = 1
    resource_slice_count: int = 1


class _SliceSpec(Struct, frozen=True, gc=False, rename="camel"):
    driver: str
    pool: _Pool
    node_name: str | None = None
    devices: tuple[_Device, ...] | None = None
    shared_counters: tuple[_Shared, ...] | None = None


class ResourceSliceWire(Struct, frozen=True, gc=False):
    """`resource.k8s.io/v1` ResourceSlice, the part that matters."""

    metadata: Metadata
    spec: _SliceSpec


class _Result(Struct, frozen=True, gc=False, rename="camel"):
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None


class _Results(Struct, frozen=True, gc=False):
    results: tuple[_Result, ...] | None = None


class _Allocation(Struct, frozen=True, gc=False):
    devices: _Results = _Results()


class _Reserved(Struct, frozen=True, gc=False):
    resource: str = ""
    uid: str = ""


class _ClaimStatus(Struct, frozen=True, gc=False, rename="camel"):
    allocation: _Allocation | None = None
    reserved_for: tuple[_Reserved, ...] | None = None


class ResourceClaimWire(Struct, frozen=True, gc=False):
    """`resource.k8s.io/v1` ResourceClaim, the part that matters."""

    metadata: Metadata
    status: _ClaimStatus = _ClaimStatus()


class _Exactly(Struct, frozen=True, gc=False, rename="camel"):
    device_class_name: str = ""
    allocation_mode: str = "ExactCount"
    count: int | None = None
    admin_access: bool | None = None


class _Request(Struct, frozen=True, gc=False):
    exactly: _Exactly | None = None


class _Requests(Struct, frozen=True, gc=False):
    requests: tuple[_Request, ...] | None = None


class _ClaimSpec(Struct, frozen=True, gc=False):
    devices: _Requests = _Requests()


class _TemplateSpec(Struct, frozen=True, gc=False):
    spec: _ClaimSpec = _ClaimSpec()


class ClaimTemplateWire(Struct, frozen=True, gc=False):
    """`resource.k8s.io/v1` ResourceClaimTemplate, the part that matters."""

    metadata: Metadata
    spec: _TemplateSpec = _TemplateSpec()


def device_class(wire: DeviceClassWire) -> DeviceClass:
    """The class; of a selector that is no conjunction of comparisons its text is kept instead."""
    meta, wants, unread = wire.metadata, list[tuple[str, Value]](), ""
    for selector in wire.spec.selectors or ():
        for term in selector.cel.expression.split("&&"):
            comparison = _COMPARES.fullmatch(term.strip())
            if comparison is None:
                unread = unread or " ".join(selector.cel.expression.split())[:MAX_SELECTOR_CHARACTERS]
            else:
                subject = "driver" if comparison["name"] is None else f"{comparison['domain']}/{comparison['name']}"
                wants.append((subject, _literal(comparison["value"])))
    return DeviceClass(
        meta.name, meta.uid, meta.resource_version, tuple(wants), wire.spec.extended_resource_name or "", unread
    )


def _literal(text: str) -> Value:
    if text in {"true", "false"}:
        return text == "true"
    return text[1:-1] if text[0] in "'\"" else int(text)


def resource_slice(wire: ResourceSliceWire) -> ResourceSlice:
    """Raises ValueError."""
    meta, spec = wire.metadata, wire.spec
    return ResourceSlice(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        node=spec.node_name or None,
        devices=tuple(_device(one, spec.driver) for one in spec.devices or ()),
        counters={one.name: _counters(one.counters) for one in spec.shared_counters or ()},
    )


def _device(wire: _Device, driver: str) -> Device:
    """A name without a domain is of the driver's."""
    attributes = {_qualified(name, driver): one.value() for name, one in (wire.attributes or {}).items()}
    capacity = {_qualified(name, driver): one.value for name, one in (wire.capacity or {}).items()}
    memory = capacity.get(f"{driver}/memory")
    return Device(
        name=wire.name,
        attributes=attributes,
        memory_mib=None if memory is None else amount(memory) // MIB,
        uses={one.counter_set: _counters(one.counters) for one in wire.consumes_counters or ()},
        shut=any(one.effect in {"NoSchedule", "NoExecute"} for one in wire.taints or ()),
    )


def _qualified(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _counters(wire: dict[str, _Amount]) -> dict[str, int]:
    return {name: amount(one.value) for name, one in wire.items()}


def resource_claim(wire: ResourceClaimWire) -> ResourceClaim:
    """The claim; a device that it may only watch (`adminAccess`) it does not hold."""
    meta, status = wire.metadata, wire.status
    results = status.allocation.devices.results if status.allocation is not None else None
    return ResourceClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        devices=tuple((one.driver, one.pool, one.device) for one in results or () if not one.admin_access),
        pods=tuple(one.uid for one in status.reserved_for or () if one.resource == "pods"),
    )


def claim_template(wire: ClaimTemplateWire) -> ClaimTemplate:
    """The template's certain numbers."""
    meta, asks = wire.metadata, Counter[str]()
    for name, count in _exact_counts(wire.spec.spec.devices.requests or ()):
        asks[name] += count
    return ClaimTemplate(meta.namespace, meta.name, meta.uid, meta.resource_version, dict(asks))


def _exact_counts(requests: tuple[_Request, ...]) -> Iterator[tuple[str, Any]]:
    for request in requests:
        exactly = request.exactly
        if exactly is not None and exactly.allocation_mode == "ExactCount" and not exactly.admin_access:
            yield exactly.device_class_name, 1 if exactly.count is None else exactly.count
