"""The stream: what it says first, what it says next, how often, to whom, and how it ends."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace as changed
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from rebalancer.api.auth.authentication import Authentication
from rebalancer.api.auth.authority import Trusting
from rebalancer.api.handlers.event_stream import BEAT_SECONDS, CHANNELS, Box, Channels, page_parts
from rebalancer.api.pages.gpu_tiles import seat
from rebalancer.api.pages.models_table import ModelsQuery
from rebalancer.api.pages.overview import overview
from rebalancer.api.pages.renderer import FRAME_SECONDS, Frame, PageRenderer
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.serving.server import Servers
from rebalancer.loop.clock import RealClock
from tests.api.decided import some_status_port
from tests.api.page_data import SomePageData
from tests.api.scenes import PAGE_DATA

Event = dict[str, Any]


def at_cycle(cycle: int, ready: int = 5) -> PageData:
    """The scene some cycles on, with `ready` replicas of its first model."""
    plan = PAGE_DATA.status.plan
    assert plan is not None
    models = (replace(plan.models[0], ready=ready), *plan.models[1:])
    status = replace(PAGE_DATA.status, plan=replace(plan, cycle=cycle, at=plan.at + cycle, models=models))
    return changed(PAGE_DATA, status=status)


class Running:
    """The API on loopback over looks that a test moves."""

    def __init__(self) -> None:
        self.source = SomePageData(seen=at_cycle(1))
        self.parts = page_parts(self.source)
        authentication = Authentication(Trusting(), RealClock())
        self.servers = Servers(some_status_port(), authentication, ("127.0.0.1", 0), ("127.0.0.1", 0), self.parts)

    def url(self, path: str = "/v1/stream") -> str:
        return f"http://127.0.0.1:{self.servers.api_port}{path}"

    @property
    def listeners(self) -> int:
        channels = self.parts[CHANNELS]
        assert isinstance(channels, Channels)
        return channels.streams


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    made = Running()
    await made.servers.start()
    yield made
    await made.servers.stop()


@asynccontextmanager
async def listening(running: Running, path: str = "/v1/stream", **headers: str) -> AsyncIterator[AsyncIterator[Event]]:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
        session.get(running.url(path), headers=headers) as response,
    ):
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        yield events(response)


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    """The events of a stream: their name, id and data."""
    fields: dict[str, str] = {}
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield {**fields, "data": msgspec.json.decode(fields["data"])}
            fields = {}


async def until(condition: object, what: str) -> None:
    assert callable(condition)
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.01)


async def test_the_first_event_is_the_whole_overview_and_the_next_what_changed(running: Running) -> None:
    async with listening(running) as said:
        first = await anext(said)
        assert (first["event"], first["id"]) == ("overview", "rb-0-1a2b3c-1")
        assert first["data"]["models"][0]["ready"] == 5
        running.source.show(at_cycle(2, ready=6))
        second = await anext(said)
        assert (second["id"], second["data"]["models"][0]["ready"]) == ("rb-0-1a2b3c-2", 6)


async def test_a_reader_that_comes_back_after_a_gap_gets_the_whole_overview_of_now(running: Running) -> None:
    running.source.show(at_cycle(9, ready=3))
    async with listening(running, **{"Last-Event-ID": "rb-0-1a2b3c-1"}) as said:
        assert (await anext(said))["data"]["models"][0]["ready"] == 3


async def test_a_cycle_that_changed_nothing_is_no_event_but_the_beat_tells_its_time(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalancer.api.handlers.event_stream.BEAT_SECONDS", 0.3)
    async with listening(running) as said:
        await anext(said)
        running.source.show(at_cycle(2))
        beat = await anext(said)
        assert beat["event"] == "beat"
        running.source.show(at_cycle(3))
        while beat["data"]["cycle"] != 3:
            beat = await anext(said)
            assert beat["event"] == "beat"


async def test_cycles_that_change_nothing_and_come_faster_than_beats_keep_no_beat_back(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalancer.api.handlers.event_stream.BEAT_SECONDS", 1.2)
    async with listening(running) as said:
        await anext(said)
        beat = asyncio.ensure_future(anext(said))
        cycle = 1
        async with asyncio.timeout(10):
            while not beat.done():
                cycle += 1
                running.source.show(at_cycle(cycle))
                await asyncio.wait([beat], timeout=FRAME_SECONDS)
        assert beat.result()["event"] == "beat"
        assert beat.result()["data"]["cycle"] > 1


async def test_many_cycles_at_once_are_few_frames_of_which_the_last_is_true(running: Running) -> None:
    loop = asyncio.get_running_loop()
    async with listening(running) as said:
        await anext(said)
        began = loop.time()
        seen: list[int] = []
        for cycle in range(2, 300):
            running.source.show(at_cycle(cycle, ready=cycle))
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.005)
        while not seen or seen[-1] != 299:
            seen.append((await anext(said))["data"]["models"][0]["ready"])
        assert len(seen) <= (loop.time() - began) / FRAME_SECONDS + 2


async def test_an_overview_is_made_once_for_all_who_ask_the_same(running: Running) -> None:
    async with listening(running) as one, listening(running) as two, listening(running, "/v1/stream?q=x") as other:
        for said in (one, two, other):
            await anext(said)
        made = running.source.made
        running.source.show(at_cycle(2, ready=6))
        for said in (one, two):
            assert (await anext(said))["data"]["models"][0]["ready"] == 6
        assert running.source.made - made <= 2  # one for the two, one for the other, which sees no difference


async def test_each_reader_gets_the_rows_it_asked_for(running: Running) -> None:
    async with listening(running, "/v1/stream?q=sdxl") as said:
        assert [row["model"] for row in (await anext(said))["data"]["models"]] == ["sdxl"]


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_frames_arrive_at_once_packed_or_not(running: Running, encoding: str) -> None:
    async with listening(running, **{"Accept-Encoding": encoding}) as said:
        await anext(said)
        for cycle in (2, 3):
            running.source.show(at_cycle(cycle, ready=cycle))
            assert (await anext(said))["data"]["models"][0]["ready"] == cycle


def test_packed_frames_follow_each_other_in_one_stream_in_any_order() -> None:
    frames = [Frame.of(overview(at_cycle(n), ModelsQuery(), seat({}, PAGE_DATA.snapshot))) for n in (1, 2, 3)]
    reader = zlib.decompressobj(-zlib.MAX_WBITS)
    for frame in (frames[2], frames[0], frames[1], frames[0]):
        assert reader.decompress(frame.packed) == frame.event
    assert len(frames[0].packed) < len(frames[0].event) / 2


async def test_a_reader_that_leaves_is_forgotten(running: Running) -> None:
    async with listening(running) as said:
        await anext(said)
        assert running.listeners == 1
    running.source.show(at_cycle(2, ready=9))
    await until(lambda: running.listeners == 0, "the stream is closed")


async def test_a_reader_that_does_not_read_is_dropped_and_holds_one_frame_at_most(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalancer.api.handlers.event_stream.STUCK_SECONDS", 0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", running.servers.api_port, limit=1024)
    writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readline()
    cycle = 1
    async with asyncio.timeout(30):
        while cycle == 1 or running.listeners:
            cycle += 1
            running.source.show(long_page_data(cycle))
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.05)
    writer.close()


def long_page_data(cycle: int) -> PageData:
    """A frame of some MiB, so that the sockets' buffers are soon full."""
    data = at_cycle(cycle)
    problems = tuple(f"{cycle} {n} " + "x" * 100_000 for n in range(60))
    return changed(data, status=replace(data.status, policy_problems=problems))


async def test_a_box_holds_the_newest_frame_alone() -> None:
    frames = [Frame.of(overview(at_cycle(n), ModelsQuery(), seat({}, PAGE_DATA.snapshot))) for n in (1, 2)]
    box = Box()
    for frame in frames:
        box.put(frame)
    assert await box.take() is frames[1]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await box.take()


async def test_it_ends_when_the_service_goes_down_without_keeping_it(running: Running) -> None:
    loop = asyncio.get_running_loop()
    async with listening(running) as said:
        await anext(said)
        began = loop.time()
        await running.servers.stop()
        assert loop.time() - began < 1.0
        with pytest.raises(StopAsyncIteration):
            await anext(said)


async def test_a_page_that_cannot_be_made_ends_nobodys_stream(running: Running) -> None:
    async with listening(running) as said:
        await anext(said)
        broken = at_cycle(2)
        running.source.show(changed(broken, status=replace(broken.status, plan="nonsense")))
        await until(lambda: running.source.made > 1, "it was tried")
        running.source.show(at_cycle(3, ready=4))
        assert (await anext(said))["data"]["models"][0]["ready"] == 4


async def test_a_frame_is_never_older_than_the_move_it_is_asked_for() -> None:
    source = SomePageData(seen=at_cycle(1))
    renderer = PageRenderer(source)
    assert (await renderer.frame(ModelsQuery())).page.cycle == 1
    source.show(at_cycle(2, ready=6))
    assert (await renderer.frame(ModelsQuery(), source.version)).page.cycle == 2


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_who_asks_for_the_head_alone_gets_no_body_and_may_ask_again(running: Running, encoding: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.servers.api_port)
    asked = f"HEAD /v1/stream HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: {encoding}\r\n\r\n"
    async with asyncio.timeout(10):
        for _ in range(2):
            writer.write(asked.encode())
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            assert b"text/event-stream" in await reader.readuntil(b"\r\n\r\n")
    writer.close()


def test_the_beat_comes_every_five_seconds() -> None:
    assert BEAT_SECONDS == 5.0
