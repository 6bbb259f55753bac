"""An intake on a broker, and what came out of it."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rebalancer.domain.events import CapacityNotice, Event, MetricSample, Rejection
from rebalancer.ingest.intake import KafkaIntake
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.dead_letters import Keeper
from rebalancer.loop.clock import RealClock


class Refusing:
    """A keeper that acknowledges nothing, unless it `takes`."""

    def __init__(self) -> None:
        self.takes = False
        self.asked: list[Rejection] = []

    async def dead_letter(
        self,
        rejection: Rejection,
        key: bytes | None,
        value: bytes,
        headers: Sequence[tuple[str, bytes | None]],
        **_: object,
    ) -> bool:
        self.asked.append(rejection)
        return self.takes


class Intake:
    """A running intake; `events` in the order of the sink, `calls` the number of events per call."""

    def __init__(
        self,
        broker: Broker,
        keeper: Keeper,
        read_up_to: Mapping[tuple[str, int], int] | None = None,
        clock: RealClock | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.calls: list[int] = []
        self.intake = KafkaIntake(broker, clock or RealClock(), random.Random(1), self.sink, keeper, read_up_to)
        self._running: asyncio.Task[None] | None = None

    def sink(self, events: list[Event]) -> None:
        self.calls.append(len(events))
        self.events += events

    @property
    def running(self) -> bool:
        return self._running is not None and not self._running.done()

    @property
    def samples(self) -> list[MetricSample]:
        return [one for one in self.events if isinstance(one, MetricSample)]

    @property
    def notices(self) -> list[CapacityNotice]:
        return [one for one in self.events if isinstance(one, CapacityNotice)]

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.intake.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running}, timeout=15)
            assert self._running.cancelled(), "the intake did not end when it was cancelled"
