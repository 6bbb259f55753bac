"""Query parameters: a Struct per route says what there may be, and is what the handler gets.

A filter that is misspelled must not filter nothing, so what a route does not know is refused.
"""

import re
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from rebalancer.api.http.json_codec import from_text, instant_of, schemas
from rebalancer.api.http.responses import ApiError

T = TypeVar("T", bound=msgspec.Struct)
Schema = dict[str, Any]

QUERY: Final = web.RequestKey("query", msgspec.Struct)
"""Where a handler finds the query of its request, as its route declares it."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,15}", re.ASCII)


@cache
def parameters(kind: type[msgspec.Struct]) -> dict[str, Schema]:
    """JSON schemas of a query's parameters, by name and each with its `description`."""
    (reference,), components = schemas([kind])
    shape = components[reference["$ref"].rpartition("/")[2]]
    return {name: _of_text(schema) for name, schema in shape["properties"].items()}


def _of_text(schema: Schema) -> Schema:
    """A parameter that is absent needs no word for it: neither null nor an empty text as its default."""
    choices = [each for each in schema.pop("anyOf", ()) if each != {"type": "null"}]
    return {key: part for key, part in (schema | dict(*choices)).items() if key != "default" or part}


def read_query(request: web.Request, kind: type[T]) -> T:
    """The request's query. Raises ApiError 400 for an unknown parameter, one that stands twice, or a bad value."""
    known = parameters(kind)
    for name in request.query:
        if name not in known:
            there = f"parameters here: {', '.join(known)}" if known else "this path takes no parameters"
            raise ApiError(400, f"no parameter {name[:64]!r}", there, f"query.{name[:64]}")
        values = request.query.getall(name)
        wrong = "stands twice" if len(values) > 1 else _wrong(values[0], known[name])
        if wrong:
            raise ApiError(400, f"{name} {wrong}", f"{name}: {known[name]['description']}", f"query.{name}")
    return from_text(dict(request.query), kind)


def query_of(request: web.Request, kind: type[T]) -> T:
    """The query that was read before the handler was called; `kind` is the one its route declares."""
    query = request[QUERY]
    assert isinstance(query, kind)  # noqa: S101  the route says so
    return query


def _wrong(value: str, schema: Schema) -> str:
    """What is wrong with a value, "" when nothing is. Reads the few words of JSON schema that routes use."""
    if "enum" in schema and value not in schema["enum"]:
        return f"is none of {', '.join(map(str, schema['enum']))}"
    if schema.get("type") == "integer":
        return _wrong_integer(value, schema)
    if schema.get("format") == "date-time":
        return _wrong_instant(value)
    return _wrong_text(value, schema)


def _wrong_text(value: str, schema: Schema) -> str:
    most = schema.get("maxLength", 1024)
    return "" if len(value) <= most else f"has {len(value)} characters; 0 to {most} may be"


def _wrong_integer(value: str, schema: Schema) -> str:
    if not _INTEGER.fullmatch(value):
        return "is no whole number"
    least, most = schema["minimum"], schema["maximum"]
    return "" if least <= int(value) <= most else f"is {value}; {least} to {most} may be"


def _wrong_instant(value: str) -> str:
    try:
        instant_of(value)
    except msgspec.ValidationError:
        return "is no instant such as 2027-01-16T03:12:07Z"
    return ""
