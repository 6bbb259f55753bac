"""What the schema allows at a path, in words: the range a person may choose from."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from rebalancer.domain.policy import json_schema
from rebalancer.settings.document import Path

Schema = Mapping[str, Any]

# What a pattern means, by the pattern itself: a new one in the schema needs its words here (a test says so).
FORMS = {
    r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$": "lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "lower-case letters, digits and '-', a letter or digit at both ends",
    r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$": "DOMAIN/NAME, like nvidia.com/gpu",
    r"^[A-Za-z0-9._-]+$": "letters, digits, '.', '_' and '-'",
    r"^[a-z0-9.-]+/v[0-9][a-z0-9]*$": "GROUP/VERSION, like apps/v1",
    r"^[A-Z][A-Za-z0-9]*$": "the kind as manifests spell it, like Deployment",
    r"^([01][0-9]|2[0-3]):[0-5][0-9]$": "HH:MM, 00:00 to 23:59",
    r"^[a-zA-Z_:][a-zA-Z0-9_:]*$": "the name of a metric: letters, digits, '_' and ':'",
    r"^[a-zA-Z_][a-zA-Z0-9_]*$": "the name of a label: letters, digits and '_'",
    r'^[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"[A-Za-z0-9_.:/|+*? ()-]*"$': 'a matcher, like state="running"',
    r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]$": "YYYY-MM-DD",
}


@cache
def _root() -> Schema:
    return json_schema()


def part_at(path: Path) -> Schema:
    """Schema of the value at `path`; empty where the schema knows nothing."""
    part = _resolved(_root())
    for key in path:
        if isinstance(key, int):
            part = _resolved(part.get("items", {}))
        else:
            additional = part.get("additionalProperties")
            part = _resolved(
                part.get("properties", {}).get(key) or (additional if isinstance(additional, dict) else {})
            )
    return part


def keys_at(path: Path) -> tuple[str, ...]:
    """Keys that the mapping at `path` may have."""
    return tuple(part_at(path).get("properties", ()))


def default_at(path: Path) -> object:
    """Default of the value at `path`, None where there is none."""
    return part_at(path).get("default")


def in_range(part: Schema, value: float) -> bool:
    """Whether a finite number is within the bounds of `part`."""
    if value < part.get("minimum", value) or value <= part.get("exclusiveMinimum", -math.inf):
        return False
    return not (value > part.get("maximum", value) or value >= part.get("exclusiveMaximum", math.inf))


def words(part: Schema) -> str:
    """The values that `part` allows, in words: "0 to 100000", "realtime, interactive or batch"."""
    if "const" in part or "enum" in part:
        return any_of(part.get("enum", [part.get("const")]))
    match part.get("type"):
        case "integer" | "number":
            text = _range(part)
        case "string":
            text = _text(part)
        case "array":
            text = f"a list of at least {part.get('minItems', 0)}"
        case kind:
            least = " with at least one key" if part.get("minProperties") else ""
            text = {"boolean": "true or false", "object": f"a mapping{least}"}.get(str(kind), "")
    return text


def any_of(values: list[str]) -> str:
    """`a, b or c`."""
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} or {values[-1]}"


def _range(part: Schema) -> str:
    if "minimum" in part and "maximum" in part:
        return f"{part['minimum']} to {part['maximum']}"
    bounds = {"exclusiveMinimum": "above", "minimum": "at least", "exclusiveMaximum": "below", "maximum": "at most"}
    return ", ".join(f"{word} {part[key]}" for key, word in bounds.items() if key in part) or "a number"


def _text(part: Schema) -> str:
    pattern = str(part.get("pattern", "text"))
    form = FORMS.get(pattern, pattern)
    least, most = part.get("minLength", 0), part.get("maxLength")
    return f"{form} ({least} to {most} characters)" if most else form


def _resolved(part: Schema) -> Schema:
    """`part` with its reference followed and the null of an optional part dropped; its own default stays."""
    for choice in part.get("anyOf", ()):
        if choice.get("type") != "null":
            return {**_resolved(choice), **{key: part[key] for key in ("default", "description") if key in part}}
    if "$ref" not in part:
        return part
    return {**_root_definition(part["$ref"]), **{key: part[key] for key in ("default", "description") if key in part}}


def _root_definition(reference: str) -> Schema:
    definition: Schema = _root()["$defs"][reference.removeprefix("#/$defs/")]
    return definition
