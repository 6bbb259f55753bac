"""Lists as kubectl prints them: the server chooses the columns, and reckons an age by its own clock.

kubectl would reckon it by the clock of its machine, which a demo's is ahead of: it prints `<invalid>` then.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from rebalancer.sandbox.api.definitions import columns
from rebalancer.sandbox.api.resources import Obj, ServedResource

Column = tuple[str, str, int]  # its head, the path of its value, 1 where only `-o wide` shows it

_BIRTH: Final = "metadata.creationTimestamp"  # is printed as an age
_AGE: Final = ("Age", _BIRTH, 0)
_OWN: Final[dict[str, tuple[Column, ...]]] = {
    "pods": (("Status", "status.phase", 0), ("Node", "spec.nodeName", 0)),
    "deployments": (("Replicas", "spec.replicas", 0), ("Ready", "status.readyReplicas", 0)),
}
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_LEAST: Final = 2  # of a unit, before it is told in it: kubectl says 90s and 119m, too


def wanted(accept: str) -> bool:
    """Whether the client asks for a table, as `kubectl get` does without `-o`."""
    return "as=Table" in accept


def table(resource: ServedResource, objects: Iterable[Obj], metadata: Obj, now: float) -> Obj:
    """The objects as a `meta.k8s.io/v1` Table, with the columns that the kind's definition chooses where it has one."""
    defined = [(each["name"], each["jsonPath"].lstrip("."), each.get("priority", 0)) for each in columns(resource)]
    heads: list[Column] = [("Name", "metadata.name", 0), *(defined or [*_OWN.get(resource.plural, ()), _AGE])]
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
                "cells": [_age(each, now) if path == _BIRTH else _cell(each, path) for _, path, _ in heads],
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
