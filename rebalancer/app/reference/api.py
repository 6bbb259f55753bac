"""The HTTP API for people: every route, who may use it, and the shapes of the bodies."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rebalancer.api.http.query_params import parameters
from rebalancer.api.http.route import Route, RoutePermission
from rebalancer.api.serving.routes import ROUTES, openapi_text
from rebalancer.app.reference.table import code, table

Schema = Mapping[str, Any]

_HEAD = """\
# HTTP API

Bodies are JSON with camelCase keys. Instants are RFC 3339 in UTC, durations are seconds, unknown is `null`. Keys are
only ever added. The service itself serves the same as an OpenAPI document at `/v1/openapi.json`.

Every route but the open ones wants `Authorization: Bearer TOKEN`, a token of the cluster for the audience `rebalancer`
(`rebalancer login` asks for one), or the console's session cookie. Any route may answer 400, 401, 403, 429 and 503
(with `Retry-After`); an error says what was wrong, where, and what to do.
"""
_REF = "#/components/schemas/"


def api_page() -> str:
    """The page."""
    shapes: dict[str, Schema] = json.loads(openapi_text()).get("components", {}).get("schemas", {})
    bodies = "".join(_shape(name, shape) for name, shape in shapes.items() if shape.get("properties"))
    return _HEAD + _contents(ROUTES) + "".join(_route(route) for route in ROUTES) + f"\n## Bodies\n{bodies}"


def _contents(routes: Iterable[Route]) -> str:
    rows = ((code(f"{route.method} {route.path}"), _who(route), route.summary) for route in routes)
    return "\n" + table(("route", "who may", "what"), rows)


def _who(route: Route) -> str:
    if route.open:
        return "anybody"
    return "any caller with a token" if route.permission is None else _may(route.permission)


def _may(permission: RoutePermission) -> str:
    return f"{permission.verb} {permission.resource}"


def _route(route: Route) -> str:
    known = parameters(route.query)
    if not known:
        return ""
    rows = [(code(name), _kind(schema), schema["description"]) for name, schema in known.items()]
    return f"\n## `{route.method} {route.path}`\n\n{table(('query', 'type', 'meaning'), rows)}"


def _shape(name: str, shape: Schema) -> str:
    required = set(shape.get("required", ()))
    rows = [
        (code(key), _kind(part), _meaning(part, always=key in required)) for key, part in shape["properties"].items()
    ]
    about = str(shape.get("description", "")).split("\n\n")[0]
    return f"\n### {name}\n\n{about}\n\n{table(('key', 'type', 'meaning'), rows)}"


def _meaning(part: Schema, *, always: bool) -> str:
    """The description of a key, and whether it may be absent."""
    about = str(part.get("description", ""))
    return about if always else f"{about} May be absent.".strip()


def _kind(part: Schema) -> str:
    """A schema in few words: `integer or null`, `list of Pool`."""
    if "$ref" in part:
        name = part["$ref"].removeprefix(_REF)
        return f"[{name}](#{name.lower()})"
    choices = part.get("anyOf") or part.get("oneOf")
    if choices:
        return " or ".join(_kind(choice) for choice in choices)
    words = part.get("enum") or [part[key] for key in ("const",) if key in part]
    if words:
        return ", ".join(code(word) for word in words)
    return _plain(part)


def _plain(part: Schema) -> str:
    if part.get("type") == "array":
        return f"list of {_kind(part.get('items') or {})}"
    if part.get("format") == "date-time":
        return "instant"
    kinds = part.get("type", "anything")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
