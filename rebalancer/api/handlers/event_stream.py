"""`/v1/stream`: the overview by server-sent events, whole at the start and whenever it shows something else.

A frame is made once for everybody who asked for the same. Who reads slowly skips frames, who does not read at all is
dropped: nothing is buffered beyond one frame per stream.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import structlog
from aiohttp import hdrs, web

from rebalancer.api.handlers.app_keys import RENDERER
from rebalancer.api.http.packing import packed_part, takes_gzip
from rebalancer.api.http.responses import ApiError
from rebalancer.api.pages.models_table import ModelsQuery
from rebalancer.api.pages.renderer import FRAME_SECONDS, Frame, PageRenderer
from rebalancer.api.ports.page_data import PageDataSource

BEAT_SECONDS: Final = 5.0
STUCK_SECONDS: Final = 10.0  # a write that takes longer has nobody at the other end
AGAIN_MILLISECONDS: Final = 2000  # a browser that lost us comes back after this
MOST: Final = 200  # streams of all callers together
GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

log = structlog.get_logger()


class Channel:
    """All streams with one question: hears of changes, makes a frame, hands it to each listener's box of one."""

    def __init__(self, renderer: PageRenderer, query: ModelsQuery) -> None:
        self._renderer = renderer
        self._query = query
        self._task: asyncio.Task[None] | None = None
        self.boxes: set[Box] = set()

    def join(self, box: "Box") -> None:
        """From now on `box` gets what changes."""
        self.boxes.add(box)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    def leave(self, box: "Box") -> None:
        """The last one turns off the light."""
        self.boxes.discard(box)
        if not self.boxes and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        version = -1
        while True:
            version = await self._renderer.source.newer_than(version)
            try:
                frame = await self._renderer.frame(self._query, version)
                for box in self.boxes:
                    box.put(frame)
            except Exception:  # one bad frame must not end the stream for all who watch
                log.exception("an overview could not be made; the next change tries again")
            with suppress(TimeoutError):
                async with asyncio.timeout(FRAME_SECONDS):
                    await self._renderer.closed.wait()


class Box:
    """Holds the newest frame that one stream has not sent yet."""

    def __init__(self) -> None:
        self._frame: Frame | None = None
        self._filled = asyncio.Event()

    def put(self, frame: Frame) -> None:
        """A newer one takes an older one's place."""
        self._frame = frame
        self._filled.set()

    async def take(self) -> Frame:
        """Wait for a frame."""
        await self._filled.wait()
        self._filled.clear()
        assert self._frame is not None  # noqa: S101  # it was filled
        frame, self._frame = self._frame, None
        return frame


class Channels:
    """The channels that somebody listens to."""

    def __init__(self, renderer: PageRenderer) -> None:
        self._renderer = renderer
        self._open: dict[ModelsQuery, Channel] = {}

    @property
    def streams(self) -> int:
        """How many are open."""
        return sum(len(channel.boxes) for channel in self._open.values())

    @asynccontextmanager
    async def listening(self, query: ModelsQuery) -> AsyncIterator[Box]:
        """A box that is filled while this lasts. Raises ApiError 503 when too many listen."""
        if self.streams >= MOST:
            raise ApiError(503, f"{MOST} streams are open", "close a page of the console", retry_after_seconds=30)
        channel = self._open.setdefault(query, Channel(self._renderer, query))
        box = Box()
        channel.join(box)
        try:
            yield box
        finally:
            channel.leave(box)
            if not channel.boxes:
                self._open.pop(query, None)


class Sender:
    """Writes parts to one stream, packed where the reader unpacks."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._packs = takes_gzip(request)
        headers = {
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "Vary": "Accept-Encoding",
            "X-Accel-Buffering": "no",  # nginx would else keep frames back until there are 4 KiB of them
        }
        if self._packs:
            headers["Content-Encoding"] = "gzip"
        self.response = web.StreamResponse(headers=headers)

    async def begin(self) -> None:
        """The head, and how soon to come back."""
        await self.response.prepare(self._request)
        hello = b"retry: %d\n\n" % AGAIN_MILLISECONDS
        await self._write(GZIP_HEAD + packed_part(hello) if self._packs else hello)

    async def frame(self, frame: Frame) -> None:
        """One overview."""
        await self._write(frame.packed if self._packs else frame.event)

    async def beat(self, event: bytes) -> None:
        """The time."""
        await self._write(packed_part(event) if self._packs else event)

    async def _write(self, part: bytes) -> None:
        """Raises ConnectionResetError when the reader is gone, or as good as gone."""
        try:
            async with asyncio.timeout(STUCK_SECONDS):
                await self.response.write(part)
        except TimeoutError as error:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionResetError("a reader of the stream did not read") from error


CHANNELS: Final[web.AppKey[Channels]] = web.AppKey("channels", Channels)


def page_parts(source: PageDataSource) -> dict[web.AppKey[Any], Any]:
    """What the routes of pages find on their application."""
    renderer = PageRenderer(source)
    return {RENDERER: renderer, CHANNELS: Channels(renderer)}


async def close_streams(app: web.Application) -> None:
    """The service goes down: streams end."""
    if RENDERER in app:
        app[RENDERER].closed.set()


async def follow(
    request: web.Request, renderer: PageRenderer, channels: Channels, query: ModelsQuery
) -> web.StreamResponse:
    """Tell `request` what changes until it leaves or the service goes down.

    Each event is the whole overview, so whatever a reader missed before it came back is in the first. Who asks for the
    head alone gets that.
    """
    sender = Sender(request)
    if request.method == hdrs.METH_HEAD:
        await sender.response.prepare(request)
        return sender.response
    async with channels.listening(query) as box:
        await sender.begin()
        with suppress(ConnectionError):
            shown = await renderer.frame(query)
            await sender.frame(shown)
            while not renderer.closed.is_set():
                frame = await _next(box, renderer, shown)
                if frame is not None:
                    shown = frame
                    await sender.frame(frame)
                elif not renderer.closed.is_set():
                    await sender.beat(renderer.beat())
    return sender.response


async def _next(box: Box, renderer: PageRenderer, shown: Frame) -> Frame | None:
    """The next frame unlike `shown`; None when there is none for the length of a beat, or no more."""
    taking = asyncio.ensure_future(_other(box, shown))
    closing = asyncio.ensure_future(renderer.closed.wait())
    try:
        await asyncio.wait({taking, closing}, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        return taking.result() if taking.done() else None
    finally:
        for each in (taking, closing):
            each.cancel()
        await asyncio.gather(taking, closing, return_exceptions=True)


async def _other(box: Box, shown: Frame) -> Frame:
    while (frame := await box.take()).shows(shown):
        pass
    return frame
