"""Pages made in threads, and an overview once for all who ask for the same one at the same time."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec.structs import replace

from rebalancer.api.http.json_codec import to_wire
from rebalancer.api.http.packing import packed_part
from rebalancer.api.pages.gpu_tiles import Seats, seat
from rebalancer.api.pages.models_table import ModelsQuery
from rebalancer.api.pages.overview import overview
from rebalancer.api.pages.values.overview import Beat, Overview
from rebalancer.api.ports.page_data import PageData, PageDataSource
from rebalancer.domain.snapshot import Snapshot

T = TypeVar("T")

FRAME_SECONDS: Final = 0.5  # an overview serves everybody for this long: at most two frames a second
MOST_QUERIES: Final = 64  # overviews of different questions that are kept for that long


@dataclass(frozen=True, slots=True)
class Frame:
    """One overview as it is sent.

    page: the overview.
    body: it as JSON.
    event: it as the stream sends it, as a server-sent event.
    packed: that event, deflated and flushed by itself.
    """

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


@dataclass(frozen=True, slots=True)
class _Making:
    """A frame that is made, or will be: when that began, and at which version of the source."""

    at: float
    version: int
    frame: asyncio.Future[Frame]

    def good(self, now: float, version: int) -> bool:
        """Whether it may be handed out still."""
        failed = self.frame.done() and self.frame.exception() is not None
        return not failed and now - self.at < FRAME_SECONDS and self.version >= version


class PageRenderer:
    """Makes pages of `source`, off the event loop. `closed` is set when the service goes down."""

    def __init__(self, source: PageDataSource) -> None:
        self.source = source
        self.closed = asyncio.Event()
        self._seating = threading.Lock()
        self._seats: Seats = {}
        self._seated: Snapshot | None = None
        self._frames: dict[ModelsQuery, _Making] = {}
        self._beat: tuple[float, bytes] = (-FRAME_SECONDS, b"")

    async def make(self, page: Callable[[PageData, Seats], T]) -> T:
        """What `page` makes of what is known now."""
        data = self.source.read()
        return await asyncio.to_thread(lambda: page(data, self._seats_of(data.snapshot)))

    def _seats_of(self, snapshot: Snapshot) -> Seats:
        with self._seating:
            if snapshot is not self._seated:
                self._seats, self._seated = seat(self._seats, snapshot), snapshot
            return self._seats

    async def frame(self, query: ModelsQuery, version: int = -1) -> Frame:
        """The overview of `query`, at most half a second old and showing `version`; made once for all who ask."""
        now = asyncio.get_running_loop().time()
        self._frames = {each: making for each, making in self._frames.items() if making.good(now, -1)}
        making = self._frames.get(query)
        if making is None or not making.good(now, version):
            frame = self.make(lambda data, seats: Frame.of(overview(data, query, seats)))
            making = _Making(now, self.source.version, asyncio.ensure_future(frame))
            if query in self._frames or len(self._frames) < MOST_QUERIES:
                self._frames[query] = making
        return await asyncio.shield(making.frame)

    def beat(self) -> bytes:
        """The event that says the time."""
        now = asyncio.get_running_loop().time()
        if now - self._beat[0] >= FRAME_SECONDS:
            status = self.source.read().status
            beat = Beat(status.at, status.plan.cycle if status.plan else 0, status.plan.at if status.plan else None)
            self._beat = now, b"event: beat\ndata: %b\n\n" % to_wire(beat)
        return self._beat[1]
