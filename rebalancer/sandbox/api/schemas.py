"""Objects held against the schema of their definition, in the API server's words.

Of the rules in CEL only the one that nothing may change is known here; the service answers the others in the status.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rebalancer.sandbox.api.definitions import schema
from rebalancer.sandbox.api.resources import Obj, ServedResource
from rebalancer.sandbox.api.status import Cause, StatusError, invalid

_HEAD: Final = ("apiVersion", "kind", "metadata")  # of every object, and checked elsewhere
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_UNCHANGED: Final = "self == oldSelf"
_UNCHECKED: Final = Cause(
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_TYPES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def conforming(resource: ServedResource, old: Obj | None, new: Obj, *, strict: bool) -> Obj:
    """`new` without the fields that its schema does not know; `old` is what it replaces.

    Raises StatusError 400 for such a field when the client is `strict`, 422 for what breaks the schema and did not
    before.
    """
    wanted = schema(resource)
    if wanted is None:
        return new
    strange: list[str] = []
    pruned = _pruned(wanted, _body(new), "", strange)
    if strange and strict:
        fields = ", ".join(f'unknown field "{field}"' for field in strange)
        which = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise StatusError(400, f"{which}: strict decoding error: {fields}")
    before = set() if old is None else set(_flaws(wanted, _body(old), ""))
    causes = [each for each in _flaws(wanted, pruned, "") if each not in before]
    if any(each.reason != "FieldValueInvalid" for each in causes):
        causes.append(_UNCHECKED)
    elif old is not None:
        causes += _changes(wanted, old, pruned)
    if causes:
        raise invalid(resource, new["metadata"]["name"], *causes)
    return {key: new[key] for key in _HEAD if key in new} | pruned


def _body(obj: Obj) -> Obj:
    return {key: value for key, value in obj.items() if key not in _HEAD}


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _pruned(wanted: Obj, value: Obj, path: str, strange: list[str]) -> Obj:
    """The fields that the schema knows; the paths of the others are added to `strange`."""
    known = wanted.get("properties", {})
    strange += [_below(path, name) for name in sorted(value) if name not in known]
    return {
        name: _pruned(known[name], part, _below(path, name), strange) if isinstance(part, dict) else part
        for name, part in value.items()
        if name in known
    }


def _flaws(wanted: Obj, value: object, path: str) -> Iterator[Cause]:
    """What of a value its schema refuses: of a wrong type nothing else is said."""
    is_a = _TYPES[type(value)]
    if is_a != wanted["type"]:
        why = f'Invalid value: "{is_a}": {path} in body must be of type {wanted["type"]}: "{is_a}"'
        yield Cause(path, why, "FieldValueTypeInvalid")
    elif isinstance(value, dict):
        for name in wanted.get("required", ()):
            if name not in value:
                yield Cause(_below(path, name), "Required value", "FieldValueRequired")
        for name, part in wanted.get("properties", {}).items():
            if name in value:
                yield from _flaws(part, value[name], _below(path, name))
    else:
        yield from _flaws_of_a_scalar(wanted, value, path)


def _flaws_of_a_scalar(wanted: Obj, value: Any, path: str) -> Iterator[Cause]:  # noqa: ANN401 - its type is the schema's, and checked
    shown = json.dumps(value)
    if value not in wanted.get("enum", (value,)):
        allowed = ", ".join(map(json.dumps, wanted["enum"]))
        why = f"Unsupported value: {shown}: supported values: {allowed}"
        yield Cause(path, why, "FieldValueNotSupported")
    says = f"Invalid value: {shown}: {path} in body"
    if "minimum" in wanted and value < wanted["minimum"]:
        yield Cause(path, f"{says} should be greater than or equal to {wanted['minimum']}")
    if "minLength" in wanted and len(value) < wanted["minLength"]:
        yield Cause(path, f"{says} should be at least {wanted['minLength']} chars long")
    if wanted.get("format") == "date-time" and not _DATE_TIME.fullmatch(value):
        yield Cause(path, f"{says} must be of type date-time: {shown}", "FieldValueTypeInvalid")
    if "maxLength" in wanted and len(value) > wanted["maxLength"]:
        yield Cause(path, f"Too long: may not be more than {wanted['maxLength']} bytes", "FieldValueTooLong")


def _changes(wanted: Obj, old: Obj, new: Obj) -> Iterator[Cause]:
    """What may not change, and does."""
    for name, part in wanted["properties"].items():
        for rule in part.get("x-kubernetes-validations", ()):
            if rule["rule"] == _UNCHANGED and old.get(name) != new.get(name):
                yield Cause(name, f'Invalid value: "object": {rule["message"]}')
