"""What all Kubernetes objects share: metadata, conditions, and which of their quantities are devices."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from rebalancer.domain.gpu_shapes import is_accelerator
from rebalancer.domain.parents import AUTOSCALER_CLASS, Applied, ControllerRef, applier_of
from rebalancer.domain.quantities import Quantity, beyond_devices, devices
from rebalancer.ingest.instants import epoch
from rebalancer.kube.calls import FIELD_MANAGER

T = TypeVar("T")

ORIGINALS = "rebalancer.io/originals"  # annotation: what an object said before we first wrote to it

MAX_MANAGER_CHARACTERS = 128  # Kubernetes' own bound


class Owner(Struct, frozen=True, gc=False):
    """One of `metadata.ownerReferences`."""

    kind: str
    name: str
    controller: bool = False


class Metadata(Struct, frozen=True, gc=False, rename="camel"):
    """`metadata`, without what only some objects are asked for.

    name: name of the object.
    namespace: its namespace, "" of an object that is in none.
    uid: its Kubernetes UID, "" where it is missing.
    resource_version: its version in the API server, "" where it is missing.
    creation_timestamp: when it was created, as RFC 3339 spells it; None where it is missing.
    deletion_timestamp: when it is to be gone, as RFC 3339 spells it; None where nobody has asked for its deletion.
    """

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Annotated(Metadata, frozen=True, gc=False, rename="camel"):
    """Metadata of an object whose annotations, labels or owners matter."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None


class _Numbers(Struct, frozen=True, gc=False):
    """The fields of a `spec` that we write; there, a manager owns it."""

    replicas: dict[str, object] | None = field(default=None, name="f:replicas")
    hpa_minimum: dict[str, object] | None = field(default=None, name="f:minReplicas")
    hpa_maximum: dict[str, object] | None = field(default=None, name="f:maxReplicas")
    keda_minimum: dict[str, object] | None = field(default=None, name="f:minReplicaCount")
    keda_maximum: dict[str, object] | None = field(default=None, name="f:maxReplicaCount")


_SPELLED = {one.name: one.encode_name.removeprefix("f:") for one in msgspec.structs.fields(_Numbers)}


class _Owned(Struct, frozen=True, gc=False):
    spec: _Numbers = field(default=_Numbers(), name="f:spec")


class _Manager(Struct, frozen=True, gc=False):
    """One of `metadata.managedFields`."""

    manager: str = ""
    time: str = ""
    owned: _Owned = field(default=_Owned(), name="fieldsV1")


class _Parent(Owner, frozen=True, gc=False, rename="camel"):
    """An owner of which the API group matters, too."""

    api_version: str = ""


class Managed(Annotated, frozen=True, gc=False, rename="camel"):
    """Metadata of an object of which we write numbers, and so want to know who else does."""

    managed_fields: tuple[_Manager, ...] | None = None
    owner_references: tuple[_Parent, ...] | None = None


def writer(meta: Managed, number: str) -> str:
    """Name of the manager that set `number` (a field of `_Numbers`), of several the latest.

    "" where we are one of them, or nobody is named.
    """
    owners = [one for one in meta.managed_fields or () if getattr(one.owned.spec, number) is not None]
    if any(one.manager == FIELD_MANAGER for one in owners):
        return ""
    return max(owners, key=lambda one: one.time).manager[:MAX_MANAGER_CHARACTERS] if owners else ""


def controller(meta: Managed) -> ControllerRef | None:
    """The controller above the object, None where it has none."""
    owner = next((one for one in meta.owner_references or () if one.controller), None)
    if owner is None:
        return None
    group = owner.api_version.rpartition("/")[0]
    return ControllerRef(group, owner.kind, owner.name, (meta.annotations or {}).get(AUTOSCALER_CLASS, ""))


def applied(meta: Managed, *numbers: str) -> tuple[Applied, ...]:
    """Tools that apply `numbers` (fields of `_Numbers`) from manifests, by field manager."""
    by_manager: dict[str, set[str]] = {}
    for one in meta.managed_fields or ():
        owned = {_SPELLED[number] for number in numbers if getattr(one.owned.spec, number) is not None}
        if owned and applier_of(one.manager) is not None:
            by_manager.setdefault(one.manager[:MAX_MANAGER_CHARACTERS], set()).update(owned)
    return tuple(
        Applied(name, tuple(sorted(fields)), _belongs_to(meta, name)) for name, fields in sorted(by_manager.items())
    )


def _belongs_to(meta: Managed, manager: str) -> str:
    """The Application, Kustomization or release; Argo CD's tracking id (`APP:GROUP/KIND:NAMESPACE/NAME`) begins so."""
    row, marks = applier_of(manager), {**(meta.labels or {}), **(meta.annotations or {})}
    named = next((marks[key] for key in row.name_in if key in marks), "") if row is not None else ""
    return named.partition(":")[0]


class Condition(Struct, frozen=True, gc=False, rename="camel"):
    """One of `status.conditions`.

    type: name of the condition, as `Ready`.
    status: whether it holds: `True`, `False` or `Unknown`.
    last_transition_time: since when the status is so, as RFC 3339 spells it; None where it is missing.
    reason: one word for machines that says why, None where it is missing.
    message: sentence for people that says why, None where it is missing.
    """

    type: str
    status: str
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


def instant(text: str | None) -> float | None:
    """Epoch seconds, None when absent. Raises ValueError."""
    return None if text is None else epoch(text)


def created_at(meta: Metadata) -> float:
    """Creation time; 0 when it is not there."""
    return instant(meta.creation_timestamp) or 0.0


def condition(conditions: Iterable[Condition] | None, name: str) -> Condition | None:
    """The condition of type `name`."""
    return next((one for one in conditions or () if one.type == name), None)


def extended(quantities: Mapping[str, Quantity] | None) -> dict[str, int]:
    """The extended resources (GPUs, MIG profiles, other devices) among `quantities`, as whole devices.

    Those counted in bytes (`koordinator.sh/gpu-memory`) are left out: none of them is a device. Raises ValueError.
    """
    every = (quantities or {}).items()
    return {name: devices(number) for name, number in every if is_extended(name) and not _in_bytes(name, number)}


@lru_cache(maxsize=1024)
def is_extended(name: str) -> bool:
    """Whether a resource is one that a device plugin brings: its name has a domain, and not Kubernetes' own."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


@lru_cache(maxsize=1024)
def _in_bytes(name: str, number: Quantity) -> bool:
    """Whether there is more of it than anybody has devices; of an accelerator so many are a mistake to be told."""
    return not is_accelerator(name) and beyond_devices(number)


def saved(meta: Annotated, shape: type[T]) -> T | None:
    """The originals kept on an object, None when we have not written to it yet (or nobody can read them any more)."""
    text = (meta.annotations or {}).get(ORIGINALS)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=shape)
    except (ValueError, RecursionError):
        return None
