"""A producer that knows no broker any more is replaced by one that asks the bootstrap again; no other one is."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rebalancer.kafka.broker import BROKER_ERRORS, Broker
from rebalancer.kafka.outbox import LOST_SECONDS, Outbox
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.faults.wire import METADATA, PRODUCE, Cut, Frame, Wire
from tests.kafka.behind import behind, naming
from tests.kafka.waiting import SkippingClock, records, skips, until
from tests.testbed.process import free_port

NO_PORT = 1 << 24


@asynccontextmanager
async def an_outbox(link: Wire, clock: SkippingClock) -> AsyncIterator[Outbox]:
    """It runs, and still does at the end."""
    outbox = Outbox(Broker(f"127.0.0.1:{link.port}"), clock, random.Random(7))
    running = asyncio.create_task(outbox.run())
    try:
        yield outbox
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait({running})
        await outbox.close(2.0)


async def sent(embedded: EmbeddedBroker) -> list[bytes]:
    return [record.value for record in await records(Broker(embedded.bootstrap), "decisions")]


async def test_an_answer_that_names_no_port_is_an_error_of_the_broker_and_ends_nobody(embedded: EmbeddedBroker) -> None:
    async with behind(embedded) as link:
        right, link.meddle = link.meddle, naming(link.target, NO_PORT)
        with pytest.raises(BROKER_ERRORS):
            await Broker(f"127.0.0.1:{link.port}").make_topics()
        async with an_outbox(link, SkippingClock()) as outbox:
            await until(lambda: "cannot be written to" in str(outbox.trouble))
            link.meddle = right
            assert await outbox.send("decisions", None, b"after", deadline_seconds=15.0)


async def test_a_producer_that_was_told_a_wrong_port_of_the_only_broker_is_replaced(
    embedded: EmbeddedBroker,
) -> None:
    clock, misled = SkippingClock(), asyncio.Event()

    def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        misled.set()
        writer.transport.abort()

    wrong = free_port()
    async with (
        behind(embedded) as link,
        an_outbox(link, clock) as outbox,
        await asyncio.start_server(hang_up, "127.0.0.1", wrong),
    ):
        assert await outbox.send("decisions", None, b"before", deadline_seconds=15.0)
        right, link.meddle = link.meddle, naming(link.target, wrong)
        while not misled.is_set():
            link.cut()  # whoever is cut off asks anew where the brokers are
            await outbox.send("decisions", None, b"meanwhile", deadline_seconds=0.3)
        link.meddle = right
        assert not await outbox.send("decisions", None, b"lost", deadline_seconds=2.0), "it found back by itself"
        await until(lambda: skips(clock, LOST_SECONDS) and outbox.counts["connected"] == 2)
        assert await outbox.send("decisions", None, b"after", deadline_seconds=15.0)
        assert outbox.trouble is None
        assert (await sent(embedded))[-1] == b"after"


async def test_a_producer_whose_broker_is_found_and_acknowledges_nothing_keeps_what_it_holds(
    embedded: EmbeddedBroker,
) -> None:
    clock = SkippingClock()
    async with behind(embedded) as link, an_outbox(link, clock) as outbox:
        assert await outbox.send("decisions", None, b"before", deadline_seconds=15.0)
        right = link.meddle
        assert right is not None

        async def nothing_is_written(frame: Frame) -> bytes:
            if frame.api == PRODUCE:
                raise Cut
            return await right(frame)

        link.meddle = nothing_is_written
        assert not await outbox.send("decisions", None, b"held", deadline_seconds=0.3)
        told = link.answers[METADATA]
        await until(lambda: skips(clock, LOST_SECONDS) and link.answers[METADATA] > told + 15)  # two looks, some 4 s
        link.meddle = right
        assert await outbox.send("decisions", None, b"after", deadline_seconds=15.0)
        assert (outbox.counts["connected"], await sent(embedded)) == (1, [b"before", b"held", b"after"])


async def test_a_producer_whose_broker_is_away_for_an_hour_keeps_what_it_holds(embedded: EmbeddedBroker) -> None:
    clock = SkippingClock()
    async with behind(embedded) as link, an_outbox(link, clock) as outbox:
        assert await outbox.send("decisions", None, b"before", deadline_seconds=15.0)
        embedded.cut()
        assert not await outbox.send("decisions", None, b"held", deadline_seconds=0.3)
        tries = len(link.opened)
        await until(lambda: skips(clock, LOST_SECONDS) and len(link.opened) > tries + 15)  # two looks, some 4 s
        embedded.heal()
        assert await outbox.send("decisions", None, b"after", deadline_seconds=15.0)
        assert (outbox.counts["connected"], await sent(embedded)) == (1, [b"before", b"held", b"after"])
