"""What a route is: one value from which the server, its authorisation and its OpenAPI document are made."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from msgspec import Struct

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class RoutePermission:
    """What the caller must be allowed, as a SubjectAccessReview asks it (API group rebalancer.io).

    `resource` is `decisions` for reads (no such object exists: only RBAC knows the word), `overrides` (namespaced) or
    `writestops`.
    """

    verb: str
    resource: str


READ = RoutePermission("get", "decisions")


class NoQuery(Struct, frozen=True):
    """The query of a route that takes no parameters."""


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path.

    method: the HTTP method.
    path: the path, with `{name}` for each part that varies.
    handler: what answers the request.
    summary: one sentence for the OpenAPI document and the reference page.
    answers: type of the answer's body, None where it has no JSON body; with `streams` type of what one event carries.
    accepts: type of the request's body, None where it has no JSON body.
    permission: what the caller must be allowed, asked before the handler runs; None where nothing is needed but a
        token, or where it depends on a namespace, so that the handler asks it.
    query: type of the query; its fields are the parameters there may be.
    status: HTTP status of a good answer.
    errors: statuses besides 400, 401, 403, 429 and 503, which every route may answer.
    also: other good statuses, with the same body.
    open: whether it answers everybody, token or not.
    streams: whether it answers with server-sent events, which may last.
    urgent: whether it is answered however often its caller has asked before.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answers: Any = None
    accepts: Any = None
    permission: RoutePermission | None = READ
    query: type[Struct] = NoQuery
    status: int = 200
    errors: tuple[int, ...] = ()
    also: tuple[int, ...] = ()
    open: bool = False
    streams: bool = False
    urgent: bool = False
