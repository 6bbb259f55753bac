"""Lists as kubectl prints them: the server chooses the columns, and reckons an age by its own clock.

kubectl would reckon it by the clock of its machine, which a demo's is ahead of: it prints `<invalid>` then.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from rebalancer.sandbox.api.resources import Obj, ServedResource

Column = tuple[str, str, int]  # its head, the path of its value, 1 where only `-o wide` shows it

_OWN: Final[dict[str, tuple[Column, ...]]] = {
    "overrides": (
        ("Kind", "spec.kind", 0),
        ("Model", "spec.target.model", 0),
        ("Node", "spec.target.node", 0),
        ("Pool", "spec.target.pool", 0),
        ("Value", "spec.value", 0),
        ("Phase", "status.phase", 0),
        ("Expires", "spec.expiresAt", 0),
        ("Actor", "spec.actor", 0),
        ("Reason", "spec.reason", 1),
        ("Message", "status.message", 1),
    ),
    "writestops": (("Reason", "spec.reason", 0), ("Actor", "spec.actor", 0)),
    "pods": (("Status", "status.phase", 0), ("Node", "spec.nodeName", 0)),
    "deployments": (("Replicas", "spec.replicas", 0), ("Ready", "status.readyReplicas", 0)),
}
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_LEAST: Final = 2  # of a unit, before it is told in it: kubectl says 90s and 119m, too


def wanted(accept: str) -> bool:
    """Whether the client asks for a table, as `kubectl get` does without `-o`."""
    return "as=Table" in accept


def table(resource: ServedResource, objects: Iterable[Obj], metadata: Obj, now: float) -> Obj:
    """The objects as a `meta.k8s.io/v1` Table. Overrides have the columns of the chart's CRD, and no age there."""
    columns = _OWN.get(resource.plural, ())
    aged = resource.plural != "overrides"
    heads: list[Column] = [("Name", "metadata.name", 0), *columns, *([("Age", "", 0)] if aged else [])]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {
                "name": head,
                "type": "string",
                "format": "name" if head == "Name" else "",
                "description": "",
                "priority": wide,
            }
            for head, _, wide in heads
        ],
        "rows": [
            {
                "cells": [_cell(each, path) if path else _age(each, now) for _, path, _ in heads],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": each["metadata"],
                },
            }
            for each in objects
        ],
    }


def _cell(obj: Obj, path: str) -> str:
    value: object = obj
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def _age(obj: Obj, now: float) -> str:
    created = datetime.fromisoformat(obj["metadata"]["creationTimestamp"]).timestamp()
    seconds = max(0, int(now - created))
    size, unit = next((each for each in _UNITS if seconds >= _LEAST * each[0]), _UNITS[-1])
    return f"{seconds // size}{unit}"
