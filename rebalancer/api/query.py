"""Query parameters, held against what their route says of them: a filter that is misspelled must not filter nothing."""

import re
from typing import Any, Final

import msgspec
from aiohttp import web

from rebalancer.api.replies import ApiError
from rebalancer.api.route import Route
from rebalancer.api.wire import instant_of

_INTEGER: Final = re.compile(r"-?[0-9]{1,15}", re.ASCII)


def check_query(request: web.Request, route: Route) -> None:
    """Raise ApiError 400 for a parameter the route does not know, one that stands twice, or a value out of bounds."""
    known = {query.name: query for query in route.query}
    for name in request.query:
        if name not in known:
            there = f"parameters here: {', '.join(known)}" if known else "this path takes no parameters"
            raise ApiError(400, f"no parameter {name[:64]!r}", there, f"query.{name[:64]}")
        said = request.query.getall(name)
        wrong = "stands twice" if len(said) > 1 else _wrong(said[0], known[name].schema)
        if wrong:
            raise ApiError(400, f"{name} {wrong}", f"{name}: {known[name].said}", f"query.{name}")


def _wrong(value: str, schema: dict[str, Any]) -> str:
    """What is wrong with a value, "" when nothing is. Reads the few words of JSON schema that routes use."""
    if "enum" in schema and value not in schema["enum"]:
        return f"is none of {', '.join(map(str, schema['enum']))}"
    if schema.get("type") == "integer":
        return _wrong_integer(value, schema)
    if schema.get("type") == "boolean" and value not in ("true", "false"):
        return "is neither true nor false"
    if schema.get("format") == "date-time":
        return _wrong_instant(value)
    return _wrong_text(value, schema)


def _wrong_text(value: str, schema: dict[str, Any]) -> str:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1024):
        return f"has {len(value)} characters; {schema.get('minLength', 0)} to {schema.get('maxLength', 1024)} may be"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"does not look like {schema['pattern']}"
    return ""


def _wrong_integer(value: str, schema: dict[str, Any]) -> str:
    if not _INTEGER.fullmatch(value):
        return "is no whole number"
    least, most = schema.get("minimum"), schema.get("maximum")
    if (least is not None and int(value) < least) or (most is not None and int(value) > most):
        return f"is {value}; {'-' if least is None else least} to {'-' if most is None else most} may be"
    return ""


def _wrong_instant(value: str) -> str:
    try:
        instant_of(value)
    except msgspec.ValidationError:
        return "is no instant such as 2027-01-16T03:12:07Z"
    return ""
