"""Probes and metrics: a port of their own, no token; a kubelet and Prometheus have none for us."""

from aiohttp import web
from msgspec import Struct

from rebalancer.api.keys import VIEW
from rebalancer.api.replies import answer
from rebalancer.api.view import Unready, View


class Readiness(Struct, frozen=True):
    """Whether the service is ready, and what is not. `policy_refused` leaves it ready, but a person should know."""

    ready: bool
    unready: tuple[Unready, ...]
    policy_refused: tuple[str, ...] = ()


async def livez(request: web.Request) -> web.Response:
    """Fails only when a restart helps."""
    dead = request.app[VIEW].dead()
    return web.Response(text="ok\n") if dead is None else web.Response(text=f"{dead}\n", status=503)


async def readyz(request: web.Request) -> web.Response:
    """What is not ready, and since when."""
    view = request.app[VIEW]
    unready = view.unready()
    return await answer(Readiness(not unready, unready, view.policy_refused()), 503 if unready else 200)


async def metrics(request: web.Request) -> web.Response:
    """Prometheus scrapes this."""
    return web.Response(
        body=request.app[VIEW].metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    )


def probe_app(view: View) -> web.Application:
    """Probes and metrics."""
    app = web.Application()
    app[VIEW] = view
    app.add_routes([web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return app
