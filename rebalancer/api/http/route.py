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
    """One method on one path. `answers` and `accepts` are the types of the bodies (None: no JSON body).

    `query` is the type of the query: its fields are the parameters there may be.
    `permission` is asked before the handler runs; one that depends on a namespace is asked by the handler (then None
    here). `also`: other good statuses, with the same body. `open`: answers whoever asks, token or not. `streams`:
    server-sent events, which may last; `answers` is then what one event carries. `errors`: statuses besides 400, 401,
    403, 429 and 503, which every route may answer.
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
