"""A small engine to know the truth of: requests of so many tokens run in slots, the others wait in line."""

from collections import deque
from collections.abc import Iterator

import numpy as np

from rebalancer.domain.events import Counters, MetricSample
from tests.builders import NOW
from tests.state.objects import a_sample

TOKENS_PER_SECOND = 20.0  # of each request that runs where all slots are in use


class Engine:
    """Second by second. `work`: replica-seconds that arrived so far; a full replica runs `slots` requests.

    `alone`: the time per token of a request that has a replica to itself, as a share of that in a full batch.
    `most_waiting`: who would be one more is turned away (None: nobody).
    """

    def __init__(self, replicas: int, slots: int = 4, alone: float = 1.0, most_waiting: int | None = None) -> None:
        self.replicas, self.slots, self.alone, self.most_waiting = replicas, slots, alone, most_waiting
        self.waiting: deque[float] = deque()
        self.running: list[float] = []
        self.finished = self.left = self.tokens = self.work = 0.0

    def second(self, arriving: list[float]) -> None:
        """`arriving`: tokens of each request."""
        self.work += sum(arriving) / TOKENS_PER_SECOND / self.slots
        self.waiting.extend(arriving)
        while self.most_waiting is not None and len(self.waiting) > self.most_waiting:
            self.waiting.pop()
            self.left += 1.0
        self._admit()
        used = len(self.running) / (self.replicas * self.slots)
        speed = TOKENS_PER_SECOND / (self.alone + (1.0 - self.alone) * used)
        self.tokens += sum(min(left, speed) for left in self.running)
        left = [tokens - speed for tokens in self.running]
        self.finished += sum(tokens <= 0.0 for tokens in left)
        self.running = [tokens for tokens in left if tokens > 0.0]
        self._admit()

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.replicas * self.slots:
            self.running.append(self.waiting.popleft())


def traffic(seconds: int, per_second: float, tokens: float, seed: int = 0) -> list[list[float]]:
    """Poisson arrivals of `tokens` give or take half."""
    random = np.random.default_rng(seed)
    return [
        [float(tokens * random.uniform(0.5, 1.5)) for _ in range(random.poisson(per_second))] for _ in range(seconds)
    ]


def told(engine: Engine, arriving: list[list[float]], every: int = 5, *, tokens: bool = True, counted: bool = True, left: bool = True, since: float = NOW) -> Iterator[MetricSample]:  # noqa: E501  # fmt: skip
    """What the model as a whole tells every so many seconds while this arrives."""
    for second, requests in enumerate(arriving, 1):
        engine.second(requests)
        if second % every == 0:
            gone = engine.left if left else None
            counters = Counters(NOW - 7200.0, engine.finished, gone, generated_tokens=engine.tokens if tokens else None)
            yield a_sample(
                at=since + second,
                running=float(len(engine.running)),
                gauges={"waiting": float(len(engine.waiting))},
                interval_seconds=float(every),
                counters=counters if counted else None,
            )
