"""The link to the broker does to Kafka's frames what it says, with a server that echoes them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from tests.faults import wire
from tests.faults.wire import Wire
from tests.testbed.process import free_port


def _request(api: int, number: int, text: bytes = b"0123456789") -> bytes:
    body = api.to_bytes(2, "big") + b"\0\1" + number.to_bytes(4, "big") + text
    return len(body).to_bytes(4, "big") + body


class Client:
    """A client that speaks through the link."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def asks(self, api: int, number: int) -> None:
        self.writer.write(_request(api, number))
        await self.writer.drain()

    async def hears(self) -> tuple[int, bytes]:
        """Which request is answered, and with what."""
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        body = await self.reader.readexactly(size)
        return int.from_bytes(body[:4], "big"), body[4:]

    async def hears_nothing(self, seconds: float = 0.2) -> bool:
        try:
            await asyncio.wait_for(self.hears(), seconds)
        except TimeoutError:
            return True
        return False


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers with the number and the text of each request."""
    try:
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big")
            body = await reader.readexactly(size)
            answer = body[4:]
            writer.write(len(answer).to_bytes(4, "big") + answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.transport.abort()


@asynccontextmanager
async def _link() -> AsyncIterator[tuple[Wire, Callable[[], Awaitable[Client]]]]:
    port, target = free_port(), free_port()
    server = await asyncio.start_server(_echo, "127.0.0.1", target)

    clients: list[Client] = []

    async def connected() -> Client:
        clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
        return clients[-1]

    async with server, Wire.before(port, target) as link:
        yield link, connected
        for client in clients:
            client.writer.transport.abort()
        await link.ended()


async def test_without_a_fault_every_answer_comes_to_its_request() -> None:
    async with _link() as (_, connected):
        client = await connected()
        for number in (1, 2):
            await client.asks(wire.FETCH, number)
            assert await client.hears() == (number, b"0123456789")


async def test_a_black_hole_answers_nothing_and_ends_no_connection() -> None:
    async with _link() as (link, connected):
        client = await connected()
        async with link.meddling(wire.silence):
            await client.asks(wire.FETCH, 1)
            assert await client.hears_nothing()
            assert not client.reader.at_eof()


async def test_one_api_is_held_back_and_the_others_go_on() -> None:
    async with _link() as (link, connected):
        fetching, beating = await connected(), await connected()
        async with link.meddling(wire.without(wire.FETCH, asks=False)):
            await fetching.asks(wire.FETCH, 1)
            await beating.asks(12, 2)
            assert await beating.hears() == (2, b"0123456789")
            assert await fetching.hears_nothing()


@pytest.mark.parametrize("fault", [wire.reset, wire.truncate])
async def test_a_connection_is_cut_at_once_or_in_the_middle_of_an_answer(fault: wire.Meddle) -> None:
    async with _link() as (link, connected):
        client = await connected()
        async with link.meddling(fault):
            await client.asks(wire.FETCH, 1)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.hears()


async def test_a_byte_of_an_answer_is_another_one() -> None:
    async with _link() as (link, connected):
        client = await connected()
        async with link.meddling(wire.spoiled(wire.FETCH)):
            await client.asks(wire.FETCH, 1)
            number, text = await client.hears()
            assert number == 1
            assert sum(a != b for a, b in zip(text, b"0123456789", strict=True)) == 1


async def test_chance_says_which_byte_of_an_answer_is_another_one_and_never_whose_answer_it_is() -> None:
    spoilt = set()
    async with _link() as (link, connected):
        client = await connected()
        async with link.meddling(wire.spoiled(wire.PRODUCE, Random(1))):
            for number in range(40):
                await client.asks(wire.PRODUCE, number)
                answered, text = await client.hears()
                assert answered == number
                spoilt |= {at for at, pair in enumerate(zip(text, b"0123456789", strict=True)) if len({*pair}) > 1}
            await client.asks(wire.FETCH, 40)
            assert await client.hears() == (40, b"0123456789")
    assert spoilt == {*range(10)}


async def test_answers_of_one_api_are_lost_and_counted_and_the_others_arrive() -> None:
    async with _link() as (link, connected):
        client = await connected()
        async with link.meddling(wire.only(wire.PRODUCE, wire.silence)):
            await client.asks(wire.PRODUCE, 1)
            await client.asks(wire.FETCH, 2)
            assert await client.hears() == (2, b"0123456789")
        assert link.answers == {wire.PRODUCE: 1, wire.FETCH: 1}


async def test_an_answer_of_one_api_comes_behind_the_next_one_of_any() -> None:
    async with _link() as (link, connected):
        client = await connected()
        async with link.meddling(wire.reordered(wire.PRODUCE)):
            for number, api in enumerate((wire.FETCH, wire.PRODUCE, wire.FETCH, wire.FETCH)):
                await client.asks(api, number)
            assert [(await client.hears())[0] for _ in range(4)] == [0, 2, 1, 3]


async def test_of_two_answers_the_second_comes_first() -> None:
    async with _link() as (link, connected):
        client = await connected()
        async with link.meddling(wire.reordered()):
            await client.asks(wire.FETCH, 1)
            await client.asks(wire.FETCH, 2)
            assert [(await client.hears())[0] for _ in range(2)] == [2, 1]
