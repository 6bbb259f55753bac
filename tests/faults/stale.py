"""A server that fell behind, played by the link: lists are as they once were, and watches tell nothing.

Single objects are read as they are: those reads go to etcd, which a server that is behind cannot reach.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.faults import door
from tests.faults.scene import Scene

_GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


@dataclass
class Behind:
    """`lists`: by path, as they were; `served`: the paths of those that were told again."""

    scene: Scene
    lists: dict[str, bytes] = field(default_factory=dict)
    served: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def remembering(self) -> AsyncIterator[None]:
        """What is listed until the context ends is what will be told later."""
        async with self.scene.door.meddling(self._remember):
            yield

    @asynccontextmanager
    async def fallen(self, *, expires: bool) -> AsyncIterator[None]:
        """The server is behind until the context ends. `expires`: watches end at first, so that all is listed anew."""
        over, told = asyncio.Event(), set[str]()

        async def meddle(request: web.Request) -> web.StreamResponse | None:
            if expires and door.watches(request) and request.path in self.lists and request.path not in told:
                told.add(request.path)
                return web.Response(body=json.dumps(_GONE).encode() + b"\n", content_type="application/json")
            if door.watches(request) or request.method != "GET" or request.path not in self.lists:
                return None
            self.served.append(request.path)
            return web.Response(body=self.lists[request.path], content_type="application/json")

        async def nothing(request: web.Request, chunk: bytes) -> bytes:
            if not door.watches(request):
                return chunk
            await over.wait()
            door.cut(request)
            raise door.Lost

        async with self.scene.door.meddling(meddle, pieces=nothing):
            self.scene.door.end_watches()
            yield
        over.set()
        self.scene.door.end_watches()

    async def _remember(self, request: web.Request) -> web.StreamResponse | None:
        if request.method != "GET" or door.watches(request):
            return None
        answer = await self._asked(request)
        if answer is None:
            return None
        self.lists[request.path] = answer
        return web.Response(body=answer, content_type="application/json")

    async def _asked(self, request: web.Request) -> bytes | None:
        """The list that it asks for; None where it asks for something else."""
        link = self.scene.door
        headers = {"Authorization": request.headers["Authorization"], "Accept-Encoding": "identity"}
        async with link.session.get(f"{link.access.server}{request.raw_path}", headers=headers) as answer:
            body = await answer.read()
        if answer.status != 200 or not str(json.loads(body).get("kind", "")).endswith("List"):
            return None
        return body
