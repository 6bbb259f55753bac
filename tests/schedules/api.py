"""The API server in memory: the simulated cluster's objects and a Lease, and each replica's way there."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from rebalancer.act.led import STAMPED
from rebalancer.act.originals import ANNOTATION as ORIGINALS
from rebalancer.domain.people import Override, WriteStop
from rebalancer.kube.calls import DEADLINE_SECONDS
from rebalancer.kube.effects import name_of
from rebalancer.kube.errors import Conflict, Invalid, KubeError, NotFound, lost, refusal
from rebalancer.kube.moment import written_as
from rebalancer.kube.reader import Listing
from rebalancer.kube.resources import LEASES, OVERRIDES, WRITESTOPS, Call, Object, Ref, Resource, Verb
from rebalancer.kube.wire import RAW, T
from rebalancer.leader.lease import EPOCH
from rebalancer.obs.effects import effect
from rebalancer.world.port import WorldPort
from tests.machine.worlds import NAMESPACE
from tests.schedules.links import LATE_SECONDS, Answer, ApiLink
from tests.schedules.told import Told
from tests.schedules.virtual import Host, VirtualLoop

A = TypeVar("A")
Answering = Callable[[], Coroutine[Any, Any, A]]
JSON = {"Content-Type": "application/json"}
TERM = re.compile("[0-9]{1,15}")


class ApiServer:
    """`leases`: by path; `stops`: WriteStops, `overrides`: Overrides, each by name; `now`: its own clock.

    `admit` refuses what the chart's admission policies do: a term below the object's own.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.leases: dict[str, Object] = {}
        self.stops: dict[str, WriteStop] = {}
        self.overrides: dict[str, Override] = {}
        self._told: list[Told] = []
        self._now = now
        self._versions = 0

    def lease(self, path: str) -> Object:
        """Raises NotFound."""
        if path not in self.leases:
            raise NotFound(path)
        return self.leases[path]

    def make_lease(self, path: str, obj: Object) -> Object:
        """Raises Conflict."""
        if path in self.leases:
            raise Conflict(f"{path} exists", already_exists=True)
        return self._store(path, obj["metadata"] | {"creationTimestamp": written_as(self._now())}, obj["spec"])

    def patch_lease(self, path: str, body: Object, version: str | None) -> Object:
        """Raises NotFound and Conflict."""
        there = self.lease(path)
        if version is not None and there["metadata"]["resourceVersion"] != version:
            raise Conflict(f"{path} is at {there['metadata']['resourceVersion']}, not {version}")
        notes = there["metadata"].get("annotations", {}) | body["metadata"]["annotations"]
        return self._store(path, there["metadata"] | {"annotations": notes}, there["spec"] | body["spec"])

    def stop_writes(self) -> str:
        """Somebody presses the red button; its name."""
        name, self._versions = f"stop-{self._versions}", self._versions + 1
        self.stops[name] = WriteStop(name, name, str(self._versions), created_at=self._now())
        self._told.append(Told("writestops", self.stops[name]))
        return name

    def lift_stops(self, *names: str) -> None:
        """Writes go on; without a name whatever stopped them is gone."""
        for name in names or tuple(self.stops):
            if (stop := self.stops.pop(name, None)) is not None:
                self._told.append(Told("writestops", stop, gone=True))

    def pin(self, model: str, replicas: int, seconds: float) -> None:
        """Somebody pins a model for so long."""
        self._versions += 1
        name, now = f"pin-{self._versions}", self._now()
        pin = Override(
            name, NAMESPACE, name, str(self._versions), "pin", model, "model", "", "ann", now, now + seconds, replicas
        )
        self._override(pin)

    def tell_override(self, ref: Ref, body: Object, version: str | None) -> Object:
        """Its status. Raises NotFound and Conflict."""
        if ref.name not in self.overrides:
            raise NotFound(ref.path)
        there, status = self.overrides[ref.name], body["status"]
        if version not in {None, there.resource_version}:
            raise Conflict(f"{ref.path} is at {there.resource_version}, not {version}")
        self._versions += 1
        changed = replace(there, resource_version=str(self._versions), phase=status["phase"], message=status["message"])
        self._override(changed)
        return {"metadata": {"name": ref.name, "resourceVersion": changed.resource_version}, "status": status}

    def _override(self, override: Override) -> None:
        self.overrides[override.name] = override
        self._told.append(Told("overrides", override))

    def take_told(self) -> list[Told]:
        """What watches are to hear of it, since the last call."""
        told, self._told = self._told, []
        return told

    def _store(self, path: str, metadata: Object, spec: Object) -> Object:
        self._versions += 1
        self.leases[path] = {"metadata": metadata | {"resourceVersion": str(self._versions)}, "spec": spec}
        return self.leases[path]


def admit(resource: Resource, before: Object, patch: Object) -> None:
    """`rebalancer.epochRule` of the chart, in Python. Raises Invalid."""
    if resource not in STAMPED:
        return
    held = before["metadata"].get("annotations", {})
    asked = patch.get("metadata", {}).get("annotations", {})
    after = {key: text for key, text in {**held, **asked}.items() if text is not None}
    if EPOCH in after and TERM.fullmatch(after[EPOCH]) is None:
        raise Invalid("the term of a leader of the rebalancer is a number")
    if TERM.fullmatch(held.get(EPOCH, "")) is None:
        return
    passes = int(after[EPOCH]) >= int(held[EPOCH]) if EPOCH in after else ORIGINALS not in after
    if not passes:
        raise Invalid("another replica of the rebalancer leads since; this one may write no more")


class ApiWay:
    """One process's way there. Implements `act.port.Port` and `leader.lease.LeasePort`.

    `port` answers in no time and is judged; `sent` is told of each write as it leaves, and gives back the context in
    which the server answers it.
    """

    def __init__(  # all that a call meets on its way
        self,
        server: ApiServer,
        port: WorldPort,
        link: ApiLink,
        host: Host,
        loop: VirtualLoop,
        sent: Callable[[Call], AbstractContextManager[None]],
    ) -> None:
        self.link = link
        self._server, self._port, self._host, self._loop, self._sent = server, port, host, loop, sent

    # --- the verbs

    async def get(self, ref: Ref) -> Object:
        call = _call("get", ref)
        if ref.resource == LEASES:
            return await self._ask(call, _answering(lambda: self._server.lease(call.path)))
        return await self._ask(call, lambda: self._port.get(ref))

    async def get_scale(self, ref: Ref) -> Object:
        return await self._ask(_call("get", ref, "scale"), lambda: self._port.get_scale(ref))

    async def list(self, resource: Resource, namespace: str | None = None, *, into: type[T] = RAW) -> Listing[T]:
        call = Call("list", resource, resource.path(namespace))
        if resource == WRITESTOPS:
            return await self._ask(call, _answering(lambda: _listing(self._server.stops.values(), into)))
        return await self._ask(call, lambda: self._port.list(resource, namespace, into=into))

    async def create(self, resource: Resource, obj: Object) -> Object:
        call = Call("create", resource, resource.path(obj["metadata"].get("namespace")))
        if resource == LEASES:
            path = Ref(resource, obj["metadata"]["namespace"], obj["metadata"]["name"]).path
            return await self._ask(call, _answering(lambda: self._server.make_lease(path, obj)))
        return await self._ask(call, lambda: self._port.create(resource, obj))

    async def patch(self, ref: Ref, body: Any, *, resource_version: str | None = None) -> Object:  # noqa: ANN401  # JSON
        call = _call("patch", ref)
        if ref.resource == LEASES:
            lease = _answering(lambda: self._server.patch_lease(call.path, body, resource_version))
            return await self._ask(call, lease)

        async def patched() -> Object:
            if ref.resource in STAMPED:
                admit(ref.resource, await self._port.get(ref), body)
            return await self._port.patch(ref, body, resource_version=resource_version)

        return await self._ask(call, patched)

    async def patch_status(self, ref: Ref, body: Object, *, resource_version: str | None = None) -> Object:
        call = _call("patch", ref, "status")
        if ref.resource == OVERRIDES:
            told = _answering(lambda: self._server.tell_override(ref, body, resource_version))
            return await self._ask(call, told)
        return await self._ask(call, lambda: self._port.patch_status(ref, body, resource_version=resource_version))

    async def put_scale(self, ref: Ref, replicas: int, resource_version: str) -> Object:
        call = _call("update", ref, "scale")
        return await self._ask(call, lambda: self._port.put_scale(ref, replicas, resource_version))

    async def evict(self, pod: Ref, uid: str) -> None:
        await self._ask(_call("create", pod, "eviction"), lambda: self._port.evict(pod, uid))

    async def delete(self, ref: Ref, *, uid: str | None = None, grace_seconds: int | None = None) -> None:
        await self._ask(_call("delete", ref), lambda: self._port.delete(ref, uid=uid, grace_seconds=grace_seconds))

    # --- how they go

    async def _ask(self, call: Call, answer: Answering[A]) -> A:
        """Within the deadline, as `kube.calls.Caller` sees to it."""
        self._host.must_live()
        with _named(call):
            if self.link.away:
                raise refusal(call, 503, JSON, b'{"code":503,"reason":"connection refused"}')
            arriving = self._sent(call) if call.writes and call.resource != LEASES else nullcontext()
            try:
                if call.resource == LEASES:  # the elector's own deadline is shorter, and it looks four times a second
                    return await self._travel(call, answer, arriving)
                async with asyncio.timeout(DEADLINE_SECONDS):
                    return await self._travel(call, answer, arriving)
            except TimeoutError as error:
                raise lost(call, f"no answer within {DEADLINE_SECONDS:g} s") from error

    async def _travel(self, call: Call, answer: Answering[A], arriving: AbstractContextManager[None]) -> A:
        link, lease = self.link, call.resource == LEASES
        reply: asyncio.Future[A] = self._loop.create_future()
        seconds = link.seconds + (link.lease_seconds if lease else 0.0)
        badly = link.answers.popleft() if call.writes and not lease and link.answers else None

        def arrive() -> None:
            resolve = _served(call, answer, arriving, badly)
            if not (lease and link.lease_lost):
                self._loop.elsewhere(seconds / 2, lambda: None if reply.done() else resolve(reply))

        if not link.silent:
            self._loop.elsewhere(LATE_SECONDS if badly == "late" else seconds / 2, arrive)
        return await reply


def _served(
    call: Call, answer: Answering[A], arriving: AbstractContextManager[None], badly: Answer | None
) -> Callable[[asyncio.Future[A]], None]:
    """The server's part; who resolves the reply."""
    if badly == "503" or badly == "504 unread":  # noqa: PLR1714  # by which its type is known
        return _raising(_answered(call, badly))
    try:
        with arriving:
            value = at_once(answer())
    except KubeError as error:
        return _raising(error)
    return _raising(_answered(call, badly)) if badly is not None else lambda reply: reply.set_result(value)


def _raising(error: KubeError) -> Callable[[asyncio.Future[A]], None]:
    return lambda reply: reply.set_exception(error)


def _listing(stops: Iterable[WriteStop], into: type[T]) -> Listing[T]:
    objects = [
        {"metadata": {"name": stop.name}, "spec": {"actor": stop.actor, "reason": stop.reason}} for stop in stops
    ]
    return Listing([msgspec.convert(each, into) for each in objects], "0", [])


@cache
def _call(verb: Verb, ref: Ref, subresource: str = "") -> Call:
    return Call(verb, ref.resource, ref.path, subresource)


def _named(call: Call) -> AbstractContextManager[None]:
    return effect(name_of(call), call.path) if call.writes else nullcontext()


def _answering(deed: Callable[[], A]) -> Answering[A]:
    async def answer() -> A:
        return deed()

    return answer


def at_once(answer: Coroutine[Any, Any, A]) -> A:
    """What it gives; it waits for nothing."""
    try:
        answer.send(None)
    except StopIteration as ended:
        given: A = ended.value
        return given
    raise RuntimeError("a server in memory waits for nobody")


def _answered(call: Call, how: Answer) -> KubeError:
    match how:
        case "503":
            return refusal(call, 503, JSON, b'{"code":503,"reason":"ServiceUnavailable"}')
        case "page":
            return refusal(call, 502, {"Content-Type": "text/html"}, b"<html>")
        case "409":
            return refusal(call, 409, JSON, b'{"code":409,"reason":"Conflict"}')
        case _:
            return refusal(call, 504, JSON, b'{"code":504,"reason":"Timeout"}')
