"""Probes and metrics: a port of their own, no token; a kubelet and Prometheus have none for us."""

from aiohttp import web
from msgspec import Struct

from rebalancer.api.handlers.app_keys import PROBE_PORT
from rebalancer.api.http.responses import answer
from rebalancer.api.ports.status import ProbePort, Unready


class Readiness(Struct, frozen=True):
    """Whether the service is ready, and what is not.

    ready: whether nothing is `unready`; a replica that stands by is as ready as the one that acts.
    unready: what is not as it should be, and since when; empty where the service is ready.
    policy_refused: entries of the policy file that are not in force as the file has them, each with what is instead;
        they leave the service ready, but a person should know.
    leader: name of the replica of the service that acts; "" where none does, or it is not known yet.
    """

    ready: bool
    unready: tuple[Unready, ...]
    policy_refused: tuple[str, ...] = ()
    leader: str = ""


async def livez(request: web.Request) -> web.Response:
    """Fails only when a restart helps."""
    dead = request.app[PROBE_PORT].dead()
    return web.Response(text="ok\n") if dead is None else web.Response(text=f"{dead}\n", status=503)


async def readyz(request: web.Request) -> web.Response:
    """What is not ready, and since when."""
    port = request.app[PROBE_PORT]
    unready = port.unready()
    readiness = Readiness(not unready, unready, port.policy_refused(), port.leader())
    return await answer(readiness, 503 if unready else 200)


async def metrics(request: web.Request) -> web.Response:
    """Prometheus scrapes this."""
    return web.Response(
        body=request.app[PROBE_PORT].metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    )


def probe_app(port: ProbePort) -> web.Application:
    """Probes and metrics."""
    app = web.Application()
    app[PROBE_PORT] = port
    app.add_routes([web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return app
