"""The HTTP face: decodes requests, lets the verbs answer, streams watches, keeps the audit trail, commits faults."""

import asyncio
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any, Self

import msgspec
from aiohttp import web

from rebalancer.domain.people import LOCAL
from rebalancer.obs.clock import Clock
from rebalancer.sandbox.api.audit import VERBS, AuditEntry
from rebalancer.sandbox.api.faults import ApiFaults, Fault
from rebalancer.sandbox.api.openapi import described
from rebalancer.sandbox.api.resources import Obj, ServedResource, Target
from rebalancer.sandbox.api.reviews import SELF_PATH, Allow, reviewed
from rebalancer.sandbox.api.status import StatusError
from rebalancer.sandbox.api.store import Revision, Store
from rebalancer.sandbox.api.tables import table, wanted
from rebalancer.sandbox.api.verbs import JSON_PATCH, ApiRequest, Verbs
from rebalancer.sandbox.api.watch import Watch

HOST = "127.0.0.1"
TOKEN_PREFIX = "sandbox-"  # noqa: S105 - not a secret: the rest of the token is the user's name
BODY_BYTES = 3 * 1024 * 1024  # the API server's own limit
SHUTDOWN_SECONDS = 0.1  # watches end at once; what hangs by a fault is cut
TICK_SECONDS = 1.0
BOOKMARK_SECONDS = 60.0
VERSION = {  # every field, since generated clients require them all
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.4+sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
PROTOBUF = "application/vnd.kubernetes.protobuf"
HEALTH = frozenset({"/healthz", "/livez", "/readyz"})

_encode = msgspec.json.Encoder().encode


class EmbeddedKubernetes:
    """Serves a `Store` on a free loopback port, in the caller's event loop.

    `audit` grows by one entry per mutating request; `allow` answers reviews of access; `faults`, `verbs.admit` and
    `verbs.refuse_eviction` say no.
    """

    def __init__(self, clock: Clock, store: Store | None = None, bookmark_seconds: float = BOOKMARK_SECONDS) -> None:
        self.store = store or Store(clock)
        self.verbs = Verbs(self.store)
        self.faults = ApiFaults()
        self.allow: Allow = lambda _user, _wanted: True
        self.audit: list[AuditEntry] = []
        self.url = ""
        self._clock = clock
        self._bookmark_seconds = bookmark_seconds
        self._watches: set[Watch] = set()
        self._runner: web.AppRunner | None = None
        self._ticking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen; `url` then says where."""
        app = web.Application(client_max_size=BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._serve)
        app.on_response_prepare.append(self._date)
        # Cancelled handlers are how a watch whose client went away ends at once.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, 0)
        await site.start()
        self.url = f"http://{HOST}:{self._runner.addresses[0][1]}"
        self._ticking = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """Close everything, watches and hanging requests included. Safe to call twice."""
        if self._ticking:
            self._ticking.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticking
        self.close_watches()
        if self._runner:
            await self._runner.cleanup()
        self._ticking = self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def open_watches(self) -> int:
        """How many watches are being served."""
        return len(self._watches)

    def close_watches(self) -> None:
        """End every open watch in good order, as an API server does when their time is over."""
        for watch in self._watches:
            watch.close()

    def kubeconfig(self, user: str = "admin") -> Obj:
        """A kubeconfig for that user, as a dict.

        The audit trail will name the user, except for kubectl: it sends no token without TLS, and is `local`.
        """
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "sandbox",
            "clusters": [{"name": "sandbox", "cluster": {"server": self.url}}],
            "users": [{"name": user, "user": {"token": f"{TOKEN_PREFIX}{user}"}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user, "namespace": "default"}}],
        }

    def write_kubeconfig(self, path: Path, user: str = "admin") -> None:
        """Write it to a file (JSON, which is YAML): for kubectl and whoever reads files."""
        path.write_bytes(_encode(self.kubeconfig(user)))

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(min(TICK_SECONDS, self._bookmark_seconds))
            for watch in tuple(self._watches):
                watch.tick(self._clock.monotonic(), self._bookmark_seconds)

    async def _date(self, _: web.Request, response: web.StreamResponse) -> None:
        response.headers["Date"] = formatdate(self._clock.now(), usegmt=True)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        fault = self.faults.take(request.method, request.path_qs)
        if fault and fault.deed == "hang":
            await self.faults.released()
        body = await request.read()
        try:
            response = await self._answer(request, body, fault)
        except StatusError as error:
            response = _failure(error)
        self._record(request, body, response.status)
        if fault and fault.deed == "lose reply" and request.transport:
            request.transport.abort()
        return response

    async def _answer(self, request: web.Request, body: bytes, fault: Fault | None) -> web.StreamResponse:
        if fault and fault.deed == "fail":
            details = {"retryAfterSeconds": fault.retry_after_seconds} if fault.retry_after_seconds is not None else {}
            raise StatusError(fault.code, "a fault was asked for", details=details)
        user = _user(request)
        target = self.store.table.target(request.path)
        if target is None:
            review = self._review(request, body, user)
            return self._about(request) if review is None else review
        agent = request.headers.get("User-Agent", "unknown")
        call = ApiRequest(request.method, target, request.query, _decoded(request, body), request.content_type, agent)
        if request.method == "GET" and not target.name:
            watching = request.query.get("watch", "").lower() in {"true", "1"}
            return await self._watch(request, call) if watching else self._list(call, request.headers.get("Accept", ""))
        code, obj = self.verbs.answer(call)
        if request.method == "GET" and not target.subresource and wanted(request.headers.get("Accept", "")):
            obj = table(target.resource, (obj,), {}, self._clock.now())
        return _json(code, _encode(obj))

    def _review(self, request: web.Request, body: bytes, user: str) -> web.StreamResponse | None:
        if request.method != "POST":
            return None
        # kubectl asks in protobuf and reads JSON. What `auth whoami` asks is in the path alone; else it asks again.
        if request.content_type == PROTOBUF and request.path != SELF_PATH:
            raise StatusError(415, f"{PROTOBUF} is not read here: ask in application/json")
        review = {} if request.content_type == PROTOBUF else _decoded(request, body)
        answer = reviewed(request.path, review, user, self._clock.now(), TOKEN_PREFIX, self.allow)
        return None if answer is None else _json(201, _encode(answer))

    def _about(self, request: web.Request) -> web.StreamResponse:
        """Paths that name no resource: version, health, discovery. Some clients write them with a slash behind."""
        path = request.path.rstrip("/")
        table = self.store.table
        document = VERSION if path == "/version" else table.discovery(path) or described(path, table.resources)
        if request.method == "GET" and document:
            return _json(200, _encode(document))
        if request.method == "GET" and path in HEALTH:
            return web.Response(text="ok")
        raise StatusError(404, "the server could not find the requested resource")

    def _list(self, call: ApiRequest, accept: str) -> web.StreamResponse:
        resource = call.target.resource
        items, metadata = self.verbs.page(call)
        if wanted(accept):
            objects = (item.obj for item in items)
            return _json(200, _encode(table(resource, objects, metadata, self._clock.now())))
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        raws = b",".join(_item(resource, item) for item in items)
        return _json(200, b'%b,"items":[%b]}' % (_encode(head)[:-1], raws))

    async def _watch(self, request: web.Request, call: ApiRequest) -> web.StreamResponse:
        watch = Watch(self.store, call.target, call.query, self._clock.monotonic())
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._watches.add(watch)
        try:
            with suppress(ConnectionResetError):  # who watched has gone
                await watch.stream(response.write)
        finally:
            self._watches.discard(watch)
        return response

    def _record(self, request: web.Request, body: bytes, code: int) -> None:
        verb = VERBS.get(request.method)
        if verb is None:
            return
        with suppress(StatusError):
            user, agent = _user(request), request.headers.get("User-Agent", "")
            target: Target | None = self.store.table.target(request.path)
            content = _decoded(request, body)
            entry = AuditEntry(self._clock.now(), user, agent, verb, request.path, target, content, code)
            self.audit.append(entry)


def _user(request: web.Request) -> str:
    """The user a bearer token stands for. Raises StatusError 401 for a foreign token; no token is `local`."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if not scheme:
        return LOCAL
    if scheme != "Bearer" or not token.startswith(TOKEN_PREFIX):
        raise StatusError(401, "Unauthorized")
    return token.removeprefix(TOKEN_PREFIX)


def _decoded(request: web.Request, body: bytes) -> Any:  # noqa: ANN401 - a JSON patch is a list, all else an object
    """The JSON of a request. Raises StatusError 400 when it is none, or not of the shape expected."""
    shape: Any = list[Obj] if request.content_type == JSON_PATCH else Obj
    try:
        return msgspec.json.decode(body, type=shape) if body else {}
    except msgspec.DecodeError as error:
        raise StatusError(400, f"the object provided is unrecognized: {error}") from error


def _item(resource: ServedResource, change: Revision) -> bytes:
    """An object as a list shows it: those of built-in resources come without `apiVersion` and `kind`."""
    if resource.custom:
        return change.raw
    head = len(_encode({"apiVersion": resource.api_version, "kind": resource.kind}))
    return b"{" + change.raw[head:]


def _json(code: int, body: bytes) -> web.Response:
    return web.Response(status=code, body=body, content_type="application/json")


def _failure(error: StatusError) -> web.Response:
    response = _json(error.code, _encode(error.status()))
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response
