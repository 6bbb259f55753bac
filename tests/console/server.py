"""A service that answers the scene: the console's own files, the reads as JSON, a stream that a test plays."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from msgspec.structs import replace

from rebalancer.api.handlers.console_files import console_routes
from rebalancer.api.handlers.session import May, SessionPage
from rebalancer.api.http.json_codec import from_text, to_wire
from rebalancer.api.http.route import Handler
from rebalancer.api.pages.decisions import DecisionsQuery, decisions
from rebalancer.api.pages.history import HistoryPage
from rebalancer.api.pages.values.decisions import Decisions
from rebalancer.api.pages.values.model import ModelPage
from rebalancer.api.pages.values.overview import Beat, ModelRow, Overview
from rebalancer.api.pages.values.pool import LoanRow, PoolPage
from rebalancer.api.ports.operator import Accepted, Overrides, Writes
from rebalancer.api.ports.timeline import DecisionRow
from rebalancer.api.serving.middleware import add_headers
from rebalancer.domain.people import Override
from tests.console.scene import (
    CHECKS,
    DECISION,
    LLAMA,
    NEW,
    NOW,
    OVERVIEW,
    POLICY,
    PREVIEW,
    STATUS,
)
from tests.console.scene_hours import HISTORY, MODEL_HISTORY

TOKEN = "a-token"
NAMESPACES = ("rebalancer", "serving")


@dataclass(frozen=True, slots=True)
class Asked:
    """A change that was asked for."""

    method: str
    path: str
    key: str
    body: dict[str, Any]


class SceneServer:
    """`overview` is what it shows; `show` sends another to whoever listens; `silent` stops every word.

    So it gives no overview to who reads it either; `buffered` stops the stream's words alone, as a proxy may.
    `beyond` are models that have no row on the overview.
    `rows` are cycles of the timeline (empty: the overview's), `hours` what was asked of the history, `ended`
    overrides that have expired, `gone` those that are no more.
    `may`: the rights that the session tells, `sessions` how often it was asked for.
    `blind`: it has no picture to give. `asked` are the changes asked for; the next `lost` get no reply, the next
    `stale` hear that the plan has changed.
    """

    def __init__(self, overview: Overview = OVERVIEW, model: ModelPage = LLAMA) -> None:
        self.overview = overview
        self.model = model
        self.history = HISTORY
        self.hours: list[str] = []
        self.gone: tuple[Override, ...] = ()
        self.ended: tuple[Override, ...] = ()
        self.rows: list[DecisionRow] = []
        self.logged_in = True
        self.buffered = False
        self.beyond: tuple[ModelRow, ...] = ()
        self.blind = False
        self.asked: list[Asked] = []
        self.lost = 0
        self.stale = 0
        self.preview = PREVIEW
        self.may = May(read=True, override=NAMESPACES, stop=True, resume=True, end=NAMESPACES, asked=NAMESPACES)
        self.sessions = 0
        self.url = ""
        self._listeners: set[asyncio.Queue[bytes]] = set()
        self._heard = asyncio.Event()  # somebody listens
        self._speaks = asyncio.Event()
        self._speaks.set()

    @property
    def silent(self) -> bool:
        return not self._speaks.is_set()

    @silent.setter
    def silent(self, silent: bool) -> None:
        (self._speaks.clear if silent else self._speaks.set)()

    async def show(self, **changed: object) -> None:
        """Change the overview, and say so on the stream."""
        self.overview = replace(self.overview, **changed)
        for listener in self._listeners:
            await listener.put(self._event())

    async def beat(self, at: float) -> None:
        """Nothing new, at `at`. A page shows what it has before it listens, so who listens is waited for."""
        await self._heard.wait()
        said = to_wire(Beat(at, self.overview.cycle, self.overview.plan_at)).decode()
        for listener in self._listeners:
            await listener.put(f"event: beat\ndata: {said}\n\n".encode())

    def forget(self) -> None:
        """The way to whoever listens is lost, and nobody is told: no word comes there, and no end."""
        self._listeners.clear()
        self._heard.clear()

    def _event(self) -> bytes:
        it = self.overview
        return f"id: {it.epoch}-{it.cycle}\nevent: overview\ndata: {to_wire(it).decode()}\n\n".encode()

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator["SceneServer"]:
        """Listen on a port of loopback, 0: one that is free; whoever listens to the stream hears its end."""
        app = web.Application()
        app.on_response_prepare.append(add_headers)
        app.add_routes(console_routes())
        app.add_routes(
            [
                web.get("/v1/session", self._session),
                web.get("/v1/overview", self._overview),
                web.get("/v1/models/{id}", self._json(lambda _: self.model)),
                web.get("/v1/pools/{name}", self._json(self._pool)),
                web.get("/v1/stream", self._stream),
                web.get("/v1/history", self._json(self._history)),
                web.get("/v1/decisions", self._json(self._decisions)),
                web.get("/v1/decisions/{cycle}", self._json(lambda _: DECISION)),
                web.get("/v1/status", self._json(lambda _: STATUS)),
                web.get("/v1/policy", self._json(lambda _: POLICY)),
                web.get("/v1/checks", self._json(lambda _: CHECKS)),
                web.get("/v1/writes/preview", self._json(lambda _: self.preview)),
                web.post("/v1/session", self._login),
                web.delete("/v1/session", self._logout),
                web.post("/v1/overrides/preview", self._json(lambda _: self.preview)),
                web.get("/v1/overrides/{namespace}/{name}/preview", self._json(lambda _: self.preview)),
                web.get("/v1/overrides", self._json(lambda _: self._overrides())),
                web.post("/v1/overrides", self._write(Accepted("rb-0", "rb-0", created=True, override=NEW))),
                web.delete("/v1/overrides/{namespace}/{name}", self._end),
                web.post("/v1/writes/stop", self._write(Writes("rb-0", "rb-0", "act", stopped=True))),
                web.post("/v1/writes/resume", self._write(Writes("rb-0", "rb-0", "act", stopped=False))),
            ]
        )
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            for listener in self._listeners:
                listener.put_nowait(b"")  # the end
            await runner.cleanup()

    async def _overview(self, request: web.Request) -> web.StreamResponse:
        await self._speaks.wait()
        if self.blind:
            return web.json_response({"error": "nothing is decided yet", "fix": "see /readyz"}, status=503)
        wanted, state = request.query.get("q", ""), request.query.get("state", "")
        rows = tuple(
            each
            for each in (*self.overview.models, *self.beyond)
            if wanted in each.model and (not state or getattr(each, state))
        )
        found = replace(self.overview, models=rows, models_total=len(rows)) if wanted or state else self.overview
        return await self._json(lambda _: found)(request)

    async def _session(self, request: web.Request) -> web.StreamResponse:
        self.sessions += 1
        page = SessionPage("oncall", self.may, NOW + 25_000.0)
        return await self._json(lambda _: page)(request)

    def _pool(self, request: web.Request) -> PoolPage:
        pool = next(each for each in self.overview.pools if each.name == request.match_info["name"])
        return PoolPage(
            at=self.overview.at,
            cycle=self.overview.cycle,
            name=pool.name,
            kind=pool.kind,
            resource="nvidia.com/gpu",
            capacity_type="spot" if pool.kind == "elastic" else "on-demand",
            price_per_gpu_hour=1.4,
            gpu_limit=32,
            node_pools=(pool.name,),
            gpus=pool.gpus,
            counts=pool.counts,
            loans=tuple(LoanRow("sdxl", pool.name, 2, NOW - 60.0 * n) for n in (1, 2))
            if pool.kind == "elastic"
            else (),
        )

    def _history(self, request: web.Request) -> HistoryPage:
        self.hours.append(request.query["hours"])
        return MODEL_HISTORY if "model" in request.query else self.history

    def _decisions(self, request: web.Request) -> Decisions:
        """As the service pages them: the rows of this overview's timeline, a row for each entry."""
        rows = self.rows or [DecisionRow(each.cycle, each.at, (each,)) for each in self.overview.timeline]
        page = decisions(tuple(rows), from_text(dict(request.query), DecisionsQuery))
        return replace(page, instance=self.overview.instance, leader=self.overview.leader)

    def _overrides(self) -> Overrides:
        return Overrides("rb-0", "rb-0", (*self.overview.overrides, *self.ended), self.gone)

    async def _login(self, request: web.Request) -> web.Response:
        self.logged_in = (await request.json())["token"] == TOKEN
        if not self.logged_in:
            return web.json_response({"error": "this token is not good here", "fix": "get one"}, status=401)
        return web.json_response({"user": "oncall"})

    async def _break_off(self, request: web.Request) -> web.StreamResponse:
        """Half an answer: before its first byte the browser itself would ask again."""
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return response

    async def _logout(self, _: web.Request) -> web.Response:
        self.logged_in = False
        return web.Response(status=204)

    async def _end(self, request: web.Request) -> web.StreamResponse:
        before = self.overview.overrides
        left = tuple(each for each in before if each.name != request.match_info["name"])
        self.overview = replace(self.overview, overrides=left)
        answer = await self._write(None)(request)
        return answer if left != before else web.json_response({"error": "there is no such override"}, status=404)

    def _write(self, answer: object) -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            body = await request.json() if request.can_read_body else {}
            self.asked.append(Asked(request.method, request.path, request.headers.get("Idempotency-Key", ""), body))
            if self.lost:
                self.lost -= 1
                return await self._break_off(request)
            if self.stale:
                self.stale -= 1
                return web.json_response({"error": "the plan has changed since the preview"}, status=409)
            if answer is None:
                return web.Response(status=204)
            return web.Response(body=to_wire(answer), content_type="application/json")

        return handler

    def _json(self, value: Callable[[web.Request], object]) -> Handler:
        async def handler(request: web.Request) -> web.Response:
            if not self.logged_in:
                return web.json_response({"error": "who are you", "fix": "log in"}, status=401)
            return web.Response(body=to_wire(value(request)), content_type="application/json")

        return handler

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._listeners.add(queue)
        self._heard.set()
        try:
            if not self.silent and not self.buffered:
                await response.write(self._event())
            while said := await queue.get():
                if not self.silent and not self.buffered:
                    await response.write(said)
        except ConnectionError:
            pass
        finally:
            self._listeners.discard(queue)
            if not self._listeners:
                self._heard.clear()
        return response
