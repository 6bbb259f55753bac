"""All routes of the API port, and the application made of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from rebalancer.api import reads
from rebalancer.api.frame import framed
from rebalancer.api.keys import VIEW
from rebalancer.api.route import Route
from rebalancer.api.view import View

ROUTES: tuple[Route, ...] = (*reads.ROUTES,)

Parts = Mapping[web.AppKey[Any], Any]
"""What handlers find on their application besides the View, by key."""


def api_app(view: View, parts: Parts | None = None, routes: Iterable[Route] = ROUTES) -> web.Application:
    """The application of `routes`."""
    app = web.Application(middlewares=[framed])
    app[VIEW] = view
    for key, part in (parts or {}).items():
        app[key] = part
    app.add_routes([web.route(route.method, route.path, route.handler) for route in routes])
    return app
