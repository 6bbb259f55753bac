"""What a replica holds ready while it stands by, so that it reads little in the moments in which nobody leads."""

import asyncio
from typing import Self

from rebalancer.app.past import SLACK_SECONDS, reading, recent_seconds
from rebalancer.app.tasks import end
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.topic_past import TopicPast
from rebalancer.kafka.topic_tail import TopicTail
from rebalancer.obs.clock import Clock
from rebalancer.state.checkpoint import RINGS_PREFIX


class Standby:
    """`state` and `decisions`, read along while the context lasts as far back as `past.read_succession` asks for.

    Rings are left out: who stands by has its own. With a keyframe each 300 s that is about 4 MB at 1,000 models.
    """

    def __init__(self, broker: Broker, clock: Clock, checkpoint_seconds: float, keyframe_seconds: float) -> None:
        self._whole = reading(broker)
        recent = recent_seconds(checkpoint_seconds) + SLACK_SECONDS
        self._tails = {
            "state": TopicTail(broker, "state", clock, recent, lambda key: not key.startswith(RINGS_PREFIX)),
            "decisions": TopicTail(broker, "decisions", clock, recent + SLACK_SECONDS + keyframe_seconds),
        }
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def ready(self) -> bool:
        """Whether all of it is being read along."""
        return all(tail.follows for tail in self._tails.values())

    async def read(self, name: str, since: float | None) -> list[TopicPast]:
        """Implements `past.Read`: what is held, where it reaches back to `since`. Raises PastUnreadable."""
        return await (self._whole(name, since) if since is None else self._tails[name].since(since))

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(tail.run()) for tail in self._tails.values()]
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(*self._tasks)
