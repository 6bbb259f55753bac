"""Pages made in threads, and an overview once for all who ask for the same one at the same time."""

import asyncio
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from aiohttp import web
from msgspec.structs import replace

from rebalancer.api.look import Look, Looks
from rebalancer.api.models_table import Asked
from rebalancer.api.overview import overview
from rebalancer.api.pages import Beat, Overview
from rebalancer.api.replies import JSON
from rebalancer.api.tiles import Seats, seat
from rebalancer.api.wire import to_wire
from rebalancer.domain.snapshot import Snapshot

T = TypeVar("T")

FRAME_SECONDS: Final = 0.5  # an overview serves everybody for this long: at most two frames a second
MOST_QUERIES: Final = 64  # overviews of different questions that are kept for that long
WORTH_PACKING_BYTES: Final = 4096
LEVEL: Final = 1  # of deflate: 100 KB become 12 KB in a millisecond


@dataclass(frozen=True, slots=True)
class Frame:
    """One overview as it is sent. `event`: as the stream sends it; `packed`: that, deflated and flushed by itself."""

    page: Overview
    body: bytes
    event: bytes
    packed: bytes

    @classmethod
    def of(cls, page: Overview) -> "Frame":
        """Spell and pack `page`."""
        body = to_wire(page)
        event = b"id: %b-%d\nevent: overview\ndata: %b\n\n" % (page.epoch.encode(), page.cycle, body)
        return cls(page, body, event, packed_part(event))

    def shows(self, other: "Frame") -> bool:
        """Whether this shows the same as `other`, but for the time."""
        timeless = {"at": 0.0, "cycle": 0, "plan_at": None}
        return replace(self.page, **timeless) == replace(other.page, **timeless)


def packed_part(part: bytes) -> bytes:
    """`part` as raw deflate that stands alone: such parts follow each other in any stream, whoever reads it."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)


@dataclass(frozen=True, slots=True)
class _Making:
    """A frame that is made, or will be: when that began, and at which move."""

    at: float
    move: int
    frame: asyncio.Future[Frame]

    def good(self, now: float, move: int) -> bool:
        """Whether it may be handed out still."""
        failed = self.frame.done() and self.frame.exception() is not None
        return not failed and now - self.at < FRAME_SECONDS and self.move >= move


class Pages:
    """Makes pages of `looks`, off the event loop. `closed` is set when the service goes down."""

    def __init__(self, looks: Looks) -> None:
        self.looks = looks
        self.closed = asyncio.Event()
        self._seating = threading.Lock()
        self._seats: Seats = {}
        self._seated: Snapshot | None = None
        self._frames: dict[Asked, _Making] = {}
        self._beat: tuple[float, bytes] = (-FRAME_SECONDS, b"")

    async def make(self, page: Callable[[Look, Seats], T]) -> T:
        """What `page` makes of what is known now."""
        look = self.looks.look()
        return await asyncio.to_thread(lambda: page(look, self._seats_of(look.snapshot)))

    def _seats_of(self, snapshot: Snapshot) -> Seats:
        with self._seating:
            if snapshot is not self._seated:
                self._seats, self._seated = seat(self._seats, snapshot), snapshot
            return self._seats

    async def frame(self, asked: Asked, move: int = -1) -> Frame:
        """The overview that `asked` wants, at most half a second old and showing `move`; made once for all who ask."""
        now = asyncio.get_running_loop().time()
        self._frames = {each: kept for each, kept in self._frames.items() if kept.good(now, -1)}
        kept = self._frames.get(asked)
        if kept is None or not kept.good(now, move):
            making = self.make(lambda look, seats: Frame.of(overview(look, asked, seats)))
            kept = _Making(now, self.looks.move, asyncio.ensure_future(making))
            if asked in self._frames or len(self._frames) < MOST_QUERIES:
                self._frames[asked] = kept
        return await asyncio.shield(kept.frame)

    def beat(self) -> bytes:
        """The event that says the time."""
        now = asyncio.get_running_loop().time()
        if now - self._beat[0] >= FRAME_SECONDS:
            status = self.looks.look().status
            said = Beat(status.at, status.plan.cycle if status.plan else 0, status.plan.at if status.plan else None)
            self._beat = now, b"event: beat\ndata: %b\n\n" % to_wire(said)
        return self._beat[1]


PAGES: Final[web.AppKey[Pages]] = web.AppKey("pages", Pages)


async def close_pages(app: web.Application) -> None:
    """The service goes down: streams end."""
    if PAGES in app:
        app[PAGES].closed.set()


def takes_gzip(request: web.Request) -> bool:
    """Whether the caller unpacks."""
    return "gzip" in request.headers.get("Accept-Encoding", "").lower()


async def packed(request: web.Request, value: object) -> web.Response:
    """`value` as JSON, spelled in a thread and packed where that is worth it."""
    return await packed_body(request, await asyncio.to_thread(to_wire, value))


async def packed_body(request: web.Request, body: bytes) -> web.Response:
    """JSON that is spelled already."""
    headers = {"Vary": "Accept-Encoding"}
    if takes_gzip(request) and len(body) > WORTH_PACKING_BYTES:
        body = await asyncio.to_thread(zlib.compress, body, LEVEL, wbits=zlib.MAX_WBITS | 16)
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, content_type=JSON, charset="utf-8", headers=headers)
