"""7.2 API server."""

import asyncio
import json
import time
from collections.abc import Callable

from aiohttp import web

from tests.faults import door
from tests.faults.row import Group, Row
from tests.faults.scene import Scene
from tests.faults.stale import Behind
from tests.testbed.kube import is_ready

_HTML = "<html><body>bad gateway</body></html>"
_WATCH_SECONDS = 5.0


def _first(left: int, which: Callable[[web.Request], bool]) -> Callable[[web.Request], bool]:
    """The first `left` such requests."""
    seen = 0

    def chosen(request: web.Request) -> bool:
        nonlocal seen
        seen += which(request)
        return which(request) and seen <= left

    return chosen


async def _conflicts(scene: Scene) -> None:
    """Before each of our writes somebody else touches the object: its revision is never the one that was read."""
    touched = 0

    async def bump(request: web.Request) -> None:
        nonlocal touched
        if door.writes(request) and touched < 6:
            touched += 1
            name = request.path.split("/")[-2]
            marks = {"metadata": {"annotations": {"test/touched": str(touched)}}}
            await scene.kube.patch("Deployment", name, marks, scene.namespace)

    async with scene.door.meddling(bump):
        await scene.rests()
    assert touched > 0, "nothing was touched"


async def _throttled(scene: Scene) -> None:
    """Writes are answered 429 for six seconds, each with a wait of 2 s."""
    asked: list[float] = []
    full = door.answering(429, json.dumps({"kind": "Status", "code": 429}), Retry_After="2")

    async def meddle(request: web.Request) -> web.StreamResponse | None:
        if not door.writes(request):
            return None
        asked.append(time.time())
        return await full(request)

    async with scene.door.meddling(meddle):
        await scene.silent(6.0)
    assert len(asked) <= 24, f"{len(asked)} writes in 6 s, of three objects that are to be left alone for 2 s"


async def _errors(scene: Scene) -> None:
    """Every answer is 500, 503 or 504, by turns, for five seconds."""
    codes = [500, 503, 504]

    async def meddle(request: web.Request) -> web.StreamResponse | None:
        code = codes[len(scene.door.calls) % 3]
        return await door.answering(code, json.dumps({"kind": "Status", "code": code, "message": "the test"}))(request)

    async with scene.door.meddling(meddle):
        await scene.silent(5.0)


async def _reply_lost(scene: Scene) -> None:
    """The first two writes are stored, and nobody tells the service."""
    async with scene.door.meddling(lose_reply=_first(2, door.writes)):
        await scene.rests()
    assert scene.door.met["reply lost"] > 0, "no reply was lost"


async def _reset(scene: Scene) -> None:
    async with scene.door.meddling(door.reset):
        await scene.silent(5.0)


async def _hangs(scene: Scene) -> None:
    """Nothing is answered for so long that two renewals hang: in five seconds it may be three, which cost the lead."""
    async with scene.door.meddling(door.silence):
        await scene.silent(4.5)


async def _slow(scene: Scene) -> None:
    """Each call takes 1 s more: no lease flaps, nothing is given up."""
    epoch = await scene.epoch()
    async with scene.door.meddling(door.after(1.0)):
        await scene.silent(10.0)
    assert await scene.epoch() == epoch, "the lease flapped"


async def _garbage(scene: Scene) -> None:
    """A gateway's page, an empty answer, and one that is cut, by turns; what leads is left alone."""
    garbage = [
        door.answering(502, _HTML, "text/html"),
        door.answering(200, b""),
        door.answering(200, b'{"kind": "PodLis'),
    ]

    async def meddle(request: web.Request) -> web.StreamResponse | None:
        if "/leases" in request.path:
            return None
        return await garbage[len(scene.door.calls) % 3](request)

    async with scene.door.meddling(meddle):
        await scene.silent(6.0)


async def _short_watches(scene: Scene) -> None:
    """Whatever is watched ends by the server after five seconds, for half a minute."""
    began: dict[int, float] = {}

    async def end(request: web.Request, chunk: bytes) -> bytes:
        if door.watches(request) and time.time() - began.setdefault(id(request), time.time()) > _WATCH_SECONDS:
            door.cut(request)
            raise door.Lost
        return chunk

    async with scene.door.meddling(pieces=end):
        await scene.silent(20.0)


async def _gone(scene: Scene) -> None:
    """Each watch is told once that its revision is too old, as after a compaction."""
    told: set[str] = set()
    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}

    async def meddle(request: web.Request) -> web.StreamResponse | None:
        if not door.watches(request) or request.path in told:
            return None
        told.add(request.path)
        return web.Response(body=json.dumps(expired).encode() + b"\n", content_type="application/json")

    async with scene.door.meddling(meddle):
        scene.door.end_watches()
        await scene.silent(8.0)
    assert told, "nobody watched anew"


async def _stale_after_failover(scene: Scene) -> None:
    """Who comes next lists everything as it was before the GPUs changed hands, and hears of nothing for 15 s.

    The Lease of who died takes 8 s of them.
    """
    behind = Behind(scene)
    async with behind.remembering():
        await scene.killed()
    await scene.turns()
    await scene.killed(start=False)
    async with behind.fallen(expires=False):
        await scene.service.start(ready=False)
        await scene.silent(15.0)
    _was_stale(behind)


async def _back_in_time(scene: Scene) -> None:
    """Watches end, and what is listed then is older than what was seen: as it was before the GPUs changed hands."""
    behind = Behind(scene)
    async with behind.remembering():
        await scene.killed()
    await scene.turns()
    async with behind.fallen(expires=True):
        await scene.silent(8.0)
    _was_stale(behind)


def _was_stale(behind: Behind) -> None:
    wanted = {"/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/deployments"}
    assert wanted <= set(behind.served), f"what was told again: {behind.served}"


async def _half_open(scene: Scene) -> None:
    """Watches go on and tell nothing more; everything else is answered. In the end they are reset, for the next row."""
    over = asyncio.Event()

    async def nothing(request: web.Request, chunk: bytes) -> bytes:
        if door.watches(request):
            await over.wait()
            door.cut(request)
        return chunk

    try:
        async with scene.door.meddling(pieces=nothing):
            await scene.rests(110.0)
    finally:
        over.set()


async def _forbidden(scene: Scene) -> None:
    """The token is refused for four seconds, then the right for four more."""
    for code, reason in ((401, "Unauthorized"), (403, "Forbidden")):
        body = json.dumps({"kind": "Status", "code": code, "reason": reason, "message": reason})
        refused = door.answering(code, body)

        async def meddle(request: web.Request, answer: door.Meddle = refused) -> web.StreamResponse | None:
            return None if "/leases" in request.path else await answer(request)

        async with scene.door.meddling(meddle):
            await scene.silent(4.0)


async def _changed_by_a_webhook(scene: Scene) -> None:
    """What we ask for first is stored as another number: it is read back, and asked for anew."""
    lessened = _first(1, door.writes)

    async def meddle(request: web.Request) -> web.StreamResponse | None:
        if not lessened(request):
            return None
        body = json.loads(await request.read())
        asked = body["spec"]["replicas"]
        body["spec"]["replicas"] += 1 if asked < 3 else -1
        scene.now.altered[body["metadata"]["name"], body["spec"]["replicas"]] = asked
        return await scene.door.forward(request, json.dumps(body).encode())

    async with scene.door.meddling(meddle):
        await scene.silent(2.0)


async def _big_objects(scene: Scene) -> None:
    """Ten pods of 900 KiB each beside ours, which every list and watch brings."""
    names = [f"big-{number}" for number in range(10)]
    container = {"name": "c", "image": "x:1", "env": [{"name": "A", "value": "y" * 650_000}]}
    for name in names:
        marks = {"labels": {"app": "big"}, "annotations": {"test/big": "x" * 250_000}}
        metadata = {"name": name, "namespace": scene.namespace, **marks}
        spec = {"containers": [container], "nodeSelector": {"no": "where"}}
        await scene.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await scene.silent(3.0)
    for name in names:
        await scene.kube.delete("Pod", name, scene.namespace, gracePeriodSeconds=0)


async def _server_away(scene: Scene) -> None:
    """The API server is killed; every look complains until it is back."""
    async with scene.down(scene.stack.apiserver, scene.stack.apiserver.start):
        await scene.complains("nodes", "pods", "deployments")
    await asyncio.to_thread(scene.stack.restart_controllers)

    async def nodes_are_ready() -> bool:
        nodes = await scene.kube.items("Node", labels=f"rebalancer.test/namespace={scene.namespace}")
        return len(nodes) == 2 and all(map(is_ready, nodes))

    await scene.until(nodes_are_ready, "the nodes are Ready again", 60.0)


_RESYNC = ("kube/test_reflector_cargo.py::test_an_event_lost_without_a_trace_is_found_by_the_resync",)
_CRDS = (
    "kube/test_reflector.py::test_a_crd_removed_and_installed_again_is_followed_again",
    "kube/test_reflector.py::test_a_resource_that_is_not_installed_is_absent_and_looked_for_each_30_s",
)

API_SERVER = Group(
    "api",
    "7.2 API server",
    (
        Row("A01", "409 on each write", "read, decided and guarded again", _conflicts),
        Row("A02", "429 with Retry-After", "honoured, I11", _throttled),
        Row("A03", "500, 503, 504", "I11", _errors),
        Row("A04", "reply lost after commit", "I5 I8: looked up, never written twice", _reply_lost, fast=True),
        Row("A05", "connections reset", "I3 I7", _reset, "for 5 s; the server stopped is A19"),
        Row("A06", "black hole", "calls end within 5 s, I3", _hangs, "for 4.5 s; for ever it is C04"),
        Row("A07", "slow", "no lease flaps", _slow, "1 s more per call for 10 s; 9 s is a black hole to the elector"),
        Row("A08", "HTML 502, empty 200, cut body", "I11 I14", _garbage),
        Row("A09", "watches closed every 5 s", "no event lost", _short_watches, "for 20 s"),
        Row("A10", "410 on a watch", "listed again, I7", _gone, "told by the link, not by a compaction of etcd"),
        Row("A11", "half-open watch", "found within 75 s", _half_open),
        Row("A12", "one event dropped", "found by the resync", elsewhere=_RESYNC),
        Row("A13", "stale list after a failover", "I1, no write by an older revision", _stale_after_failover,
            "lists and watches of 15 s ago by the link, not by a second API server", turns=False),
        Row("A14", "revisions go backwards", "as A13", _back_in_time, "as A13, to one process", turns=False),
        Row("A15", "token refused, right removed", "I9 I12, no restart", _forbidden, "401 and 403 by the link"),
        Row("A16", "a CRD missing", "the others work", elsewhere=_CRDS),
        Row("A17", "a webhook changes our number", "read back, no fight", _changed_by_a_webhook, "once, by the link"),
        Row("A18", "large objects", "I13", _big_objects, "10 pods of 900 KiB; no list of 5,000"),
        Row("A19", "API server away, and back", "I6 I9 I7", _server_away, "until /readyz complains, not 30 min"),
    ),
)  # fmt: skip
