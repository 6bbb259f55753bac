"""All routes of the API port, and the application made of them."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from aiohttp import web

import rebalancer
from rebalancer.api.auth.authentication import AUTHENTICATION, Authentication
from rebalancer.api.handlers import desired, operator, reads, session
from rebalancer.api.handlers.app_keys import STATUS_PORT
from rebalancer.api.handlers.console_files import console_routes
from rebalancer.api.handlers.event_stream import close_streams
from rebalancer.api.http.responses import BODY_BYTES, JSON
from rebalancer.api.http.route import Route
from rebalancer.api.ports.status import StatusPort
from rebalancer.api.serving.middleware import add_headers, answer_errors, protected
from rebalancer.api.serving.openapi import document_text

Parts = Mapping[web.AppKey[Any], Any]
"""What handlers find on their application besides the status port, by key."""


async def openapi(_: web.Request) -> web.Response:
    """The OpenAPI document."""
    return web.Response(text=openapi_text(), content_type=JSON)


ROUTES: tuple[Route, ...] = (
    *reads.ROUTES,
    *desired.ROUTES,
    *operator.ROUTES,
    *session.ROUTES,
    Route("GET", "/v1/openapi.json", openapi, "This document.", dict[str, Any], permission=None, open=True),
)


@cache
def openapi_text() -> str:
    """The document of all routes."""
    return document_text(ROUTES, rebalancer.__version__)


def api_app(
    status_port: StatusPort,
    authentication: Authentication,
    parts: Parts | None = None,
    routes: Iterable[Route] = ROUTES,
) -> web.Application:
    """The application of `routes`, and of the console's files."""
    app = web.Application(middlewares=[answer_errors], client_max_size=BODY_BYTES)
    app[STATUS_PORT] = status_port
    app[AUTHENTICATION] = authentication
    for key, part in (parts or {}).items():
        app[key] = part
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(close_streams)
    app.add_routes([web.route(route.method, route.path, protected(route)) for route in routes])
    app.add_routes(console_routes())
    return app
