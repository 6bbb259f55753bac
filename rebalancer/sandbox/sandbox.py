"""Kafka, Kubernetes and a simulated cluster on loopback, alive in one clock: all that a service has to do with."""

import asyncio
from contextlib import AsyncExitStack
from typing import Self

from rebalancer.kafka.broker import TOPICS, Broker
from rebalancer.obs.clock import Clock
from rebalancer.sandbox.api import EmbeddedKubernetes
from rebalancer.sandbox.broker import EmbeddedBroker
from rebalancer.sandbox.producer import NOTICE_SECONDS, Producer
from rebalancer.sandbox.puppet import Puppet
from rebalancer.world import World

TICK_SECONDS = 0.25  # of the clock: how late the API shows what the world did


class Sandbox:
    """`async with`: when it is entered, the API shows the world and the broker has its history.

    `failed` resolves when the world stopped living. Of models in `muted` nobody hears a sample: their exporter is away.
    """

    def __init__(self, clock: Clock, world: World) -> None:
        self.world = world
        self.kubernetes = EmbeddedKubernetes(clock)
        self.embedded = EmbeddedBroker(
            {f"{Broker('').prefix}{name}": topic.partitions for name, topic in TOPICS.items()}
        )
        self.puppet = Puppet(world, self.kubernetes.store)
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.muted: set[str] = set()
        self._clock = clock
        self._stack = AsyncExitStack()
        self._producer: Producer | None = None

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of the broker."""
        return self.embedded.bootstrap

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            await opening.enter_async_context(self.embedded)
            await opening.enter_async_context(self.kubernetes)
            self._producer = await opening.enter_async_context(Producer(Broker(self.embedded.bootstrap)))
            await self._turn(self._producer)
            await self._producer.flush()
            for work in (self._live(self._producer), self._tick()):
                task = asyncio.create_task(work)
                task.add_done_callback(self._ended)
                opening.push_async_callback(_end, task)
            self._stack = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        if not self.failed.done():
            self.failed.cancel()

    async def interrupt(self, node: str, read_seconds: float) -> float:
        """The cloud announces that it takes the node, which Karpenter reads `read_seconds` later; the deadline."""
        if self._producer is None:
            raise RuntimeError("the sandbox is not running: enter it first")
        now = self._clock.now()
        self.world.advance(now)
        provider_id = self.world.node_claims[node].provider_id
        self.world.interrupt(node, now + NOTICE_SECONDS, read_seconds)
        await self._producer.spot_notice(provider_id, now)
        return now + NOTICE_SECONDS

    async def _live(self, producer: Producer) -> None:
        while True:
            await self.puppet.woken.wait()
            self.puppet.woken.clear()
            await self._turn(producer)

    async def _turn(self, producer: Producer) -> None:
        """Up to now; what clients asked for happens now."""
        self.world.advance(self._clock.now())
        self.puppet.obey()
        self.puppet.show()
        await producer.samples(one for one in self.world.take_samples() if one.model not in self.muted)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_SECONDS)
            self.puppet.woken.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
