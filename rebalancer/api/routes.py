"""The routes. Answers are the domain's own values as JSON; errors say what, where and what to do."""

import msgspec
from aiohttp import web

from rebalancer.api.view import View
from rebalancer.domain.codec import to_bytes

VIEW: web.AppKey[View] = web.AppKey("view", View)
JSON = "application/json"


class ErrorBody(msgspec.Struct, frozen=True):
    """What every error answers."""

    error: str
    fix: str = ""


def _answer(value: object, status: int = 200) -> web.Response:
    return web.Response(body=to_bytes(value), status=status, content_type=JSON)


async def livez(request: web.Request) -> web.Response:
    """Fails only when a restart helps."""
    dead = request.app[VIEW].dead()
    return web.Response(text="ok\n") if dead is None else web.Response(text=f"{dead}\n", status=503)


async def readyz(request: web.Request) -> web.Response:
    """What is not ready, and since when."""
    unready = request.app[VIEW].unready()
    return _answer({"ready": not unready, "unready": unready}, 503 if unready else 200)


async def metrics(request: web.Request) -> web.Response:
    """Prometheus scrapes this."""
    return web.Response(
        body=request.app[VIEW].metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    )


async def status(request: web.Request) -> web.Response:
    """The service, its plan, notices and overrides."""
    return _answer(request.app[VIEW].status())


async def snapshot(request: web.Request) -> web.Response:
    """The world as it is known now."""
    return _answer(request.app[VIEW].snapshot())


async def plan(request: web.Request) -> web.Response:
    """The last plan."""
    decided = request.app[VIEW].status().plan
    if decided is None:
        return _answer(ErrorBody("nothing is decided yet", "see /readyz on the probe port for what is missing"), 503)
    return _answer(decided)


async def explain(request: web.Request) -> web.Response:
    """One model's decision with its refusals and what it lacks."""
    decided = request.app[VIEW].status().plan
    name = request.match_info["model"]
    if decided is None:
        return _answer(ErrorBody("nothing is decided yet", "see /readyz on the probe port for what is missing"), 503)
    model = next((each for each in decided.models if each.model == name), None)
    if model is None:
        known = ", ".join(each.model for each in decided.models[:20])
        return _answer(ErrorBody(f"no model {name!r} in the policy", f"models: {known}"), 404)
    return _answer(
        {
            "model": model,
            "refusals": [each for each in decided.refusals if each.subject == name],
            "unmet": [each for each in decided.unmet if each.model == name],
            "changes": [each for each in decided.changes if each.model == name],
            "at": decided.at,
            "cycle": decided.cycle,
        }
    )


def probe_app(view: View) -> web.Application:
    """Probes and metrics."""
    app = web.Application()
    app[VIEW] = view
    app.add_routes([web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return app


def read_app(view: View) -> web.Application:
    """Reads."""
    app = web.Application()
    app[VIEW] = view
    app.add_routes(
        [
            web.get("/v1/status", status),
            web.get("/v1/plan", plan),
            web.get("/v1/snapshot", snapshot),
            web.get("/v1/explain/{model}", explain),
        ]
    )
    return app
