"""The OpenAPI 3.1 document, made of the very values from which the server is made."""

import json
import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

from rebalancer.api.auth.sessions import COOKIE
from rebalancer.api.http.json_codec import schemas
from rebalancer.api.http.query_params import parameters
from rebalancer.api.http.responses import JSON, ErrorBody
from rebalancer.api.http.route import Route

Document = dict[str, Any]

EVENTS: Final = "text/event-stream"
ALWAYS: Final = (400, 401, 403, 429, 503)
_COOKIE: Final = "The console's session; HASH is of the host it was given at, port included."
_PARAMETER: Final = re.compile(r"{(\w+)}")
_ABOUT: Final = """\
What the rebalancer knows, decided and was told, and the doors by which people tell it.

Every path wants a bearer token made for audience `rebalancer` (or the console's cookie) and the right named beside it,
which Kubernetes RBAC grants. Instants are RFC 3339 UTC, durations are in seconds, what is unknown is null. Every error
says what was wrong, where, and what to do. At most 20 requests a second by one token; the red button always.
"""


def document(routes: Iterable[Route], version: str) -> Document:
    """The document of `routes`; `version` is the product's."""
    listed = [route for route in routes if route.answers is not None or route.accepts is not None or _is_api(route)]
    kinds = [ErrorBody, *(kind for route in listed for kind in (route.answers, route.accepts) if kind is not None)]
    references, components = schemas(kinds)
    by_kind = dict(zip(map(repr, kinds), references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in listed:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rebalancer",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "the service itself"}],
        "security": [{"token": []}, {"session": []}],
        "paths": {path: paths[path] for path in sorted(paths)},
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token for audience `rebalancer`."},
                "session": {"type": "apiKey", "in": "cookie", "name": f"{COOKIE}-HASH", "description": _COOKIE},
            },
        },
    }


def document_text(routes: Iterable[Route], version: str) -> str:
    """The document as it is sent and kept."""
    return json.dumps(document(routes, version), indent=1, ensure_ascii=False) + "\n"


def _is_api(route: Route) -> bool:
    return route.path.startswith("/v1/")


def _operation(route: Route, by_kind: dict[str, Any]) -> Document:
    operation: Document = {
        "operationId": _id(route),
        "summary": route.summary,
        "description": _right(route),
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {
            **{str(status): _good(route, status, by_kind) for status in (route.status, *route.also)},
            **_errors(route, by_kind),
        },
    }
    if route.accepts is not None:
        content = {JSON: {"schema": by_kind[repr(route.accepts)]}}
        operation["requestBody"] = {"required": True, "content": content}
    if route.open:
        operation["security"] = []
    return operation


def _id(route: Route) -> str:
    words = re.findall(r"\w+", route.path.removeprefix("/v1/"))
    return route.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _right(route: Route) -> str:
    if route.open:
        return "Answers everybody."
    if route.permission is None:
        return "Wants a token; a right in a namespace where the request names one."
    return f"Wants the right to {route.permission.verb} `{route.permission.resource}.rebalancer.io`."


def _path_parameters(route: Route) -> Iterator[Document]:
    for name in _PARAMETER.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query_parameters(route: Route) -> Iterator[Document]:
    for name, schema in parameters(route.query).items():
        described = {key: value for key, value in schema.items() if key != "description"}
        about = schema["description"]
        yield {"name": name, "in": "query", "required": False, "schema": described, "description": about}


def _good(route: Route, status: int, by_kind: dict[str, Any]) -> Document:
    phrase = HTTPStatus(status).phrase
    if route.answers is None:
        return {"description": phrase}
    if route.streams:
        about = f"{phrase}: events whose `data` is a {getattr(route.answers, '__name__', 'value')} as JSON."
        return {"description": about, "content": {EVENTS: {"schema": {"type": "string"}}}}
    return {"description": phrase, "content": {JSON: {"schema": by_kind[repr(route.answers)]}}}


def _errors(route: Route, by_kind: dict[str, Any]) -> Document:
    content = {JSON: {"schema": by_kind[repr(ErrorBody)]}}
    retry = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    codes = {*ALWAYS, *route.errors, *((408, 413, 415) if route.accepts is not None else ())}
    made: Document = {}
    for code in sorted(codes):
        made[str(code)] = {"description": HTTPStatus(code).phrase, "content": content}
        if code in (429, 503):
            made[str(code)]["headers"] = retry
    return {**made, "default": {"description": "Any other error.", "content": content}}
