"""Every key of a policy file, from the types that read it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rebalancer.app.reference.table import code, table
from rebalancer.settings.allowed import keys_at, part_at, words

_HEAD = """\
# Policy

A policy file is YAML with `apiVersion: rebalancer.io/v1alpha1` and `kind: Policy`. Keys are camelCase. Unknown keys are
errors. Seconds, replicas and GPUs are plain numbers; ratios are 0 to 1. `rebalancer config check FILE` reports every
problem of a file at once; `rebalancer config schema` prints the JSON schema for editors. The
[policy guide](../policy.md) says how to choose the values.
"""

Where = tuple[str | int, ...]


def policy_page() -> str:
    """The page."""
    return _HEAD + "".join(_section(where) for where in _parts(()))


def _parts(where: Where) -> Iterator[Where]:
    """`where`, then every mapping below it, in the order of the file."""
    yield where
    for key in keys_at(where):
        inner = (*where, key, 0) if part_at((*where, key)).get("type") == "array" else (*where, key)
        if keys_at(inner):
            yield from _parts(inner)


def _section(where: Where) -> str:
    part = part_at(where)
    name = "".join("[]" if step == 0 else f".{step}" for step in where).lstrip(".") or "The file"
    required = set(part.get("required", ()))
    rows = [_row(key, part_at((*where, key)), key in required, bool(keys_at((*where, key)))) for key in keys_at(where)]
    title = code(name) if where else name
    about = f"{part['description']}\n\n" if where and part.get("description") else ""
    return f"\n## {title}\n\n{about}{table(('key', 'allowed', 'default', 'meaning'), rows)}"


def _row(key: str, part: Mapping[str, Any], required: bool, below: bool) -> tuple[str, ...]:  # noqa: FBT001  # columns
    """`below`: a mapping whose keys and their defaults have a section of their own."""
    default = "required" if required else "" if below else code(json.dumps(part.get("default")))
    return code(key), "keys below" if below else words(part), default, str(part.get("description") or "")
