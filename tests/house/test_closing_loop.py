"""The event loop of the real tier ends when its connections have, and tells which have not."""

import asyncio
import socket
from collections.abc import Iterator
from threading import Timer

import pytest

from tests.closing_loop import ClosingLoop, LeftOpen

MORE_THAN_BUFFERS = b"." * (64 * 1024 * 1024)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


async def connected(listener: socket.socket) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection(*listener.getsockname())
    return writer


def test_what_is_being_closed_is_waited_for(listener: socket.socket) -> None:
    loop = ClosingLoop()
    writer = loop.run_until_complete(connected(listener))
    peer, _ = listener.accept()
    loop.call_soon(writer.write, MORE_THAN_BUFFERS)
    loop.call_soon(writer.close)  # it stays open until the peer has read all of that
    waits = Timer(0.2, _read_all, [peer])
    waits.daemon = True
    waits.start()
    loop.close()
    waits.join()
    assert loop.is_closed()


def test_what_stays_open_is_told_with_its_peer_and_the_loop_is_closed_all_the_same(listener: socket.socket) -> None:
    loop = ClosingLoop(goodbye_seconds=0.05)
    with socket.create_connection(listener.getsockname()) as forgotten:
        loop.add_reader(forgotten, lambda: None)
        with pytest.raises(LeftOpen, match=f"to .*{listener.getsockname()[1]}"):
            loop.close()
    assert loop.is_closed()


def _read_all(peer: socket.socket) -> None:
    with peer:
        while peer.recv(1 << 20):
            pass
