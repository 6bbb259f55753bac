"""All routes of the API port, and the application made of them."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from aiohttp import web

import rebalancer
from rebalancer.api import doors, login, reads
from rebalancer.api.frame import add_headers, framed, guarded
from rebalancer.api.keys import VIEW
from rebalancer.api.made import close_pages
from rebalancer.api.openapi import document_text
from rebalancer.api.reception import RECEPTION, Reception
from rebalancer.api.replies import BODY_BYTES, JSON
from rebalancer.api.route import Route
from rebalancer.api.static import console_routes
from rebalancer.api.view import View

Parts = Mapping[web.AppKey[Any], Any]
"""What handlers find on their application besides the View, by key."""


async def openapi(_: web.Request) -> web.Response:
    """The OpenAPI document."""
    return web.Response(text=openapi_text(), content_type=JSON)


ROUTES: tuple[Route, ...] = (
    *reads.ROUTES,
    *doors.ROUTES,
    *login.ROUTES,
    Route("GET", "/v1/openapi.json", openapi, "This document.", dict[str, Any], permission=None, open=True),
)


@cache
def openapi_text() -> str:
    """The document of all routes."""
    return document_text(ROUTES, rebalancer.__version__)


def api_app(
    view: View, reception: Reception, parts: Parts | None = None, routes: Iterable[Route] = ROUTES
) -> web.Application:
    """The application of `routes`, and of the console's files."""
    app = web.Application(middlewares=[framed], client_max_size=BODY_BYTES)
    app[VIEW] = view
    app[RECEPTION] = reception
    for key, part in (parts or {}).items():
        app[key] = part
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(close_pages)
    app.add_routes([web.route(route.method, route.path, guarded(route)) for route in routes])
    app.add_routes(console_routes())
    return app
