"""Journal lines on their way into the topic `decisions`, where the next start finds them."""

import asyncio

from rebalancer.kafka.outbox import Outbox

LARGEST_RECORD = 900 * 1024  # brokers take 1 MiB by default; a longer journal line stays in the local file alone
STOP_SECONDS = 2.0


class DecisionsTopic:
    """Sends by the outbox, which bounds what waits and counts what it drops."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._on_their_way: set[asyncio.Task[bool]] = set()

    async def publish(self, key: bytes, line: bytes) -> bool:
        """Whether the line is acknowledged."""
        return await self._outbox.send("decisions", key, line)

    def tell(self, key: bytes, line: bytes) -> None:
        """Send without waiting."""
        if len(line) > LARGEST_RECORD:
            return
        task = asyncio.get_running_loop().create_task(self.publish(key, line))
        self._on_their_way.add(task)
        task.add_done_callback(self._on_their_way.discard)

    async def stop(self) -> None:
        """Wait a moment for the lines that were told; where Kafka is known to be away, none is acknowledged in it."""
        if self._on_their_way and self._outbox.trouble is None:
            await asyncio.wait(self._on_their_way, timeout=STOP_SECONDS)
