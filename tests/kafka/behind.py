"""The embedded broker behind a link: for TLS, which it does not speak itself, and for faults."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext

from rebalancer.sandbox.broker import EmbeddedBroker
from tests.faults.wire import Frame, Meddle, Wire
from tests.testbed.process import free_port

HOST = b"127.0.0.1"


@asynccontextmanager
async def behind(broker: EmbeddedBroker, tls: SSLContext | None = None) -> AsyncIterator[Wire]:
    """What it shows is what `tls` has loaded when somebody connects."""
    port, target = free_port(), int(broker.bootstrap.rpartition(":")[2])
    async with Wire.before(port, target, tls) as wire:
        wire.meddle = naming(target, port)
        yield wire


def naming(target: int, port: int) -> Meddle:
    """In the answers of the broker on `target` its port is another one."""
    theirs, said = (HOST + each.to_bytes(4, "big") for each in (target, port))

    async def meddle(frame: Frame) -> bytes:
        return frame.whole if frame.asks else Frame(frame.asks, frame.api, frame.body.replace(theirs, said)).whole

    return meddle
