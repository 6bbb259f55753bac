"""The embedded broker behind TLS, which it does not speak itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ssl import SSLContext

from rebalancer.sandbox.broker import EmbeddedBroker
from tests.faults.wire import Frame, Meddle, Wire
from tests.testbed.process import free_port

HOST = b"127.0.0.1"


@asynccontextmanager
async def behind_tls(broker: EmbeddedBroker, tls: SSLContext) -> AsyncIterator[Wire]:
    """What it shows is what `tls` has loaded when somebody connects."""
    port, target = free_port(), int(broker.bootstrap.rpartition(":")[2])
    async with Wire.before(port, target, tls) as wire:
        wire.meddle = _naming(port, target)
        yield wire


def _naming(port: int, target: int) -> Meddle:
    """In the broker's answers its address is ours."""
    theirs, ours = (HOST + each.to_bytes(4, "big") for each in (target, port))

    async def meddle(frame: Frame) -> bytes:
        return frame.whole if frame.asks else Frame(frame.asks, frame.api, frame.body.replace(theirs, ours)).whole

    return meddle
