"""The service's API on the drawn night: a real HTTP server that answers what it is told to say, and remembers asks."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from rebalancer.api.http.json_codec import from_wire, to_wire
from rebalancer.api.http.responses import ErrorBody
from rebalancer.api.pages.values.explanation import Explanation
from rebalancer.api.ports.operator import Overrides, Writes
from rebalancer.api.ports.requests import OverrideRequest, Preview
from rebalancer.api.ports.status import Status
from rebalancer.api.text.explain import render_explain
from rebalancer.domain.snapshot import Snapshot
from tests.cli.scene import PREVIEW, RESUME_PREVIEW, SNAPSHOT, STATUS


class Night:
    """What it says; a test may change it. `token` None: everybody may ask."""

    def __init__(self) -> None:
        self.now: Status = STATUS
        self.snapshot: Snapshot = SNAPSHOT
        self.preview: Preview = PREVIEW
        self.resume_preview: Preview = RESUME_PREVIEW
        self.overrides = Overrides("rb-0", "rb-0", STATUS.overrides)
        self.writes = Writes("rb-0", "rb-0", "act", stopped=True)
        self.token: str | None = None
        self.allowed = True
        self.leads = ""
        self.asks: list[tuple[OverrideRequest, str]] = []
        self.paths: list[str] = []

    def app(self) -> web.Application:
        """Its routes."""
        app = web.Application(middlewares=[self._let_in])
        get = app.router.add_get
        get("/v1/plan", self._plan)
        get("/v1/explain/{model}", self._explain)
        for path in SAYS:
            get(path, self._say)
        get("/v1/overrides/{namespace}/{name}/preview", self._without)
        app.router.add_post("/v1/overrides/preview", self._preview)
        return app

    @web.middleware
    async def _let_in(self, request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ANN401  aiohttp's
        self.paths.append(request.path_qs)
        if self.token is not None and request.headers.get("Authorization") != f"Bearer {self.token}":
            return _answer(ErrorBody("no token", "send Authorization: Bearer"), 401)
        if not self.allowed:
            return _answer(ErrorBody("viewer may not create overrides in serving"), 403)
        answer: web.StreamResponse = await handler(request)
        if self.leads:
            answer.headers["Rebalancer-Leader"] = self.leads
        return answer

    async def _say(self, request: web.Request) -> web.Response:
        return _answer(SAYS[request.path](self))

    async def _without(self, _: web.Request) -> web.Response:
        return _answer(self.resume_preview)

    async def _plan(self, _: web.Request) -> web.Response:
        if self.now.plan is None:
            return _answer(ErrorBody("nothing is decided yet", "see /readyz on the probe port"), 503)
        return _answer(self.now.plan)

    async def _explain(self, request: web.Request) -> web.Response:
        plan, name = self.now.plan or STATUS.plan, request.match_info["model"]
        assert plan is not None
        model = next((each for each in plan.models if each.model == name), None)
        if model is None:
            known = ", ".join(each.model for each in plan.models)
            return _answer(ErrorBody(f"no model {name!r} in the policy", f"models: {known}"), 404)
        lines = tuple(render_explain(plan, self.snapshot, name).splitlines())
        unmet = tuple(each for each in plan.unmet if each.model == name)
        return _answer(Explanation(plan.at, plan.cycle, model, unmet=unmet, explanation=lines))

    async def _preview(self, request: web.Request) -> web.Response:
        ask = from_wire(await request.read(), OverrideRequest)
        self.asks.append((ask, request.headers["Idempotency-Key"]))
        return _answer(self.preview)


SAYS: dict[str, Callable[[Night], object]] = {
    "/v1/status": lambda night: night.now,
    "/v1/snapshot": lambda night: night.snapshot,
    "/v1/overrides": lambda night: night.overrides,
    "/v1/writes": lambda night: night.writes,
    "/v1/writes/preview": lambda night: night.resume_preview,
}


def _answer(value: object, status: int = 200) -> web.Response:
    return web.Response(body=to_wire(value), status=status, content_type="application/json")


@asynccontextmanager
async def served(night: Night) -> AsyncIterator[str]:
    """Its address while it runs."""
    async with TestServer(night.app()) as running:
        yield f"http://127.0.0.1:{running.port}"
