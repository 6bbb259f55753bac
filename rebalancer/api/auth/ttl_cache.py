"""Answers that are kept for a while: at most so many, and each asked for once however many wait for it."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from rebalancer.obs.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Ask = Callable[[], Awaitable[tuple[V, float]]]
"""What is not kept is asked here: the answer, and for how many seconds it may be kept."""


class TtlCache(Generic[K, V]):
    """`most` answers; the one least lately used goes first. Errors are not kept."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._answers: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._asking: dict[K, asyncio.Task[V]] = {}

    def has(self, key: K) -> bool:
        """Whether an answer is at hand."""
        cached = self._answers.get(key)
        return cached is not None and self._clock.monotonic() < cached[1]

    async def get(self, key: K, ask: Ask[V]) -> V:
        """The answer kept, else the one asked for now. Raises what `ask` raises."""
        if self.has(key):
            self._answers.move_to_end(key)
            return self._answers[key][0]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.get_running_loop().create_task(self._ask(key, ask))
            task.add_done_callback(lambda done: self._forget_task(key, done))
        return await asyncio.shield(task)  # who waits may go away; the others still want the answer

    async def _ask(self, key: K, ask: Ask[V]) -> V:
        answer, seconds = await ask()
        self._answers[key] = answer, self._clock.monotonic() + seconds
        self._answers.move_to_end(key)
        while len(self._answers) > self._most:
            self._answers.popitem(last=False)
        return answer

    def _forget_task(self, key: K, done: asyncio.Task[V]) -> None:
        del self._asking[key]
        if not done.cancelled():
            done.exception()  # told to those who wait; when all have gone away nobody misses it
