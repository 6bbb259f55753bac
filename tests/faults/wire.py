"""The link between the service and the broker, with a hand on it: it knows Kafka's frames, and chooses among them."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from ssl import SSLContext
from typing import Final, Self

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
_SIZE_BYTES = 4
_NUMBER_BYTES = 4  # of the request that is answered: what an answer begins with
_CONNECTION_ERRORS = (ConnectionError, asyncio.IncompleteReadError, OSError)


@dataclass(frozen=True)
class Frame:
    """One request to the broker (`asks`) or its answer: `api` is the number of the API in Kafka's protocol."""

    asks: bool
    api: int
    body: bytes

    @property
    def whole(self) -> bytes:
        """As it goes over the wire, its length before it."""
        return len(self.body).to_bytes(_SIZE_BYTES, "big") + self.body


class Cut(ConnectionError):
    """Raised by whoever meddles: the connection is reset, after `first` has been passed on."""

    def __init__(self, first: bytes = b"") -> None:
        super().__init__("cut")
        self.first = first


Meddle = Callable[[Frame], Awaitable[bytes]]
"""What is passed on in a frame's place; b"": nothing."""


@dataclass
class Wire:
    """A proxy on `port` before the broker's `target` port on loopback.

    opened: when each connection began. answers: how many came from the broker, by their API.
    """

    port: int
    target: int
    meddle: Meddle | None = None
    opened: list[float] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _links: set[asyncio.Task[None]] = field(default_factory=set)

    @classmethod
    @asynccontextmanager
    async def before(cls, port: int, target: int, tls: SSLContext | None = None) -> AsyncIterator[Self]:
        """Listens until the context ends, by TLS where that is given; the broker is spoken to in plain."""
        wire = cls(port, target)
        server = await asyncio.start_server(wire._connected, "127.0.0.1", port, ssl=tls)
        try:
            yield wire
        finally:
            server.close()
            wire.cut()
            await wire.ended()

    @asynccontextmanager
    async def meddling(self, meddle: Meddle) -> AsyncIterator[None]:
        """A fault on the link until the context ends; connections that it spoiled end with it."""
        self.meddle = meddle
        try:
            yield
        finally:
            self.meddle = None
            self.cut()

    def cut(self) -> None:
        """Reset all connections."""
        for writer in list(self._open):
            writer.transport.abort()

    async def ended(self) -> None:
        """Wait until whatever was open has ended."""
        while self._links:
            await asyncio.wait(set(self._links))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        task.add_done_callback(self._links.discard)
        self.opened.append(time.time())
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        apis: dict[int, int] = {}
        ways = [
            asyncio.create_task(self._carry(reader, back, apis, asks=True)),
            asyncio.create_task(self._carry(there, writer, apis, asks=False)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            self._open -= {writer, back}
            for each in (writer, back):
                each.transport.abort()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, apis: dict[int, int], *, asks: bool
    ) -> None:
        """Frame by frame in one direction. A request's number says later which API its answer is of."""
        with suppress(*_CONNECTION_ERRORS):
            while True:
                size = int.from_bytes(await source.readexactly(_SIZE_BYTES), "big")
                frame = _frame(await source.readexactly(size), apis, asks=asks)
                if not asks:
                    self.answers[frame.api] += 1
                try:
                    passed = frame.whole if self.meddle is None else await self.meddle(frame)
                except Cut as cut:
                    sink.write(cut.first)
                    await sink.drain()
                    raise
                sink.write(passed)
                await sink.drain()


def _frame(body: bytes, apis: dict[int, int], *, asks: bool) -> Frame:
    if asks:
        api, number = int.from_bytes(body[:2], "big"), int.from_bytes(body[4:8], "big")
        apis[number] = api
        return Frame(asks, api, body)
    return Frame(asks, apis.pop(int.from_bytes(body[:4], "big"), -1), body)


async def silence(frame: Frame) -> bytes:
    """Nothing arrives in either direction, and no connection ends."""
    return b""


async def reset(frame: Frame) -> bytes:
    """Every connection ends as soon as somebody speaks."""
    raise Cut


async def truncate(frame: Frame) -> bytes:
    """An answer ends in its middle, and its connection with it."""
    if frame.asks:
        return frame.whole
    raise Cut(frame.whole[: len(frame.whole) // 2])


def slowly(seconds: float) -> Meddle:
    """Each frame takes so much longer."""

    async def meddle(frame: Frame) -> bytes:
        await asyncio.sleep(seconds)
        return frame.whole

    return meddle


def without(api: int, *, asks: bool) -> Meddle:
    """Of one API requests (or answers) are held back; everything else, as heartbeats, goes on."""

    async def meddle(frame: Frame) -> bytes:
        if (frame.api, frame.asks) == (api, asks):
            await asyncio.Event().wait()
        return frame.whole

    return meddle


def only(api: int, meddle: Meddle) -> Meddle:
    """The fault befalls the answers of one API; everything else goes on."""

    async def meddle_with_it(frame: Frame) -> bytes:
        return frame.whole if frame.asks or frame.api != api else await meddle(frame)

    return meddle_with_it


def spoiled(api: int, chance: Random | None = None) -> Meddle:
    """In each answer of one API a byte is another one: that in the middle, or whichever chance says."""

    async def spoil(frame: Frame) -> bytes:
        where = max(8, len(frame.body) // 2) if chance is None else chance.randrange(_NUMBER_BYTES, len(frame.body))
        body = frame.body[:where] + bytes(byte ^ 0xFF for byte in frame.body[where : where + 1])
        return Frame(frame.asks, frame.api, body + frame.body[where + 1 :]).whole

    return only(api, spoil)


def reordered(api: int | None = None) -> Meddle:
    """Every second answer on the link is given before the one that came first.

    With an API: each answer of it behind the next one of any, on whose connection it comes.
    """
    waiting: list[bytes] = []

    async def meddle(frame: Frame) -> bytes:
        if frame.asks:
            return frame.whole
        if not waiting and api in {None, frame.api}:
            waiting.append(frame.whole)
            return b""
        return frame.whole + (waiting.pop() if waiting else b"")

    return meddle
