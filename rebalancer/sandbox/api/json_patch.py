"""JSON Patch (RFC 6902), as far as clients here use it: add, replace, remove, test."""

from copy import deepcopy
from typing import Any

from rebalancer.sandbox.api.resources import Obj
from rebalancer.sandbox.api.status import StatusError

END = "-"  # the place behind a list's last item


def json_patched(obj: Obj, steps: list[Obj]) -> Obj:
    """All steps applied to a copy, in order. Raises StatusError 422 when one cannot be, a failed test included."""
    root = {"": deepcopy(obj)}
    for number, step in enumerate(steps):
        try:
            _apply(root, step)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise StatusError(
                422, f"the server rejected our request: step {number} of the patch, {step}: {error}"
            ) from error
    return root[""]


def _apply(root: Any, step: Obj) -> None:  # noqa: ANN401 - any JSON
    """One step in place. A pointer's first part is empty, which is why the document hangs below a key of that name."""
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")]
    parent = root
    for part in way:
        parent = parent[_key(parent, part)]
    key = _key(parent, last)
    there = parent[key] if step["op"] != "add" else None
    match step["op"]:
        case "add" if isinstance(parent, list):
            parent.insert(len(parent) if key == END else key, step["value"])
        case "add" | "replace":
            parent[key] = step["value"]
        case "remove":
            del parent[key]
        case "test":
            if there != step["value"]:
                raise ValueError(f"the value is {there!r}")
        case other:
            raise ValueError(f"the operation {other!r} is not served here")


def _key(parent: object, part: str) -> Any:  # noqa: ANN401 - an index of a list, a key of a dict
    return int(part) if isinstance(parent, list) and part != END else part
