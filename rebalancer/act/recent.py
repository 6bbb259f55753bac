"""A read that many callers want at once: one request serves them all while its answer is young enough."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from rebalancer.kube.errors import KubeError
from rebalancer.obs.clock import Clock

T = TypeVar("T")


class Recent(Generic[T]):
    """The answer of `read`, at most `age_seconds` older than the question; a failure is an answer, too."""

    def __init__(self, read: Callable[[], Awaitable[T]], clock: Clock, age_seconds: float) -> None:
        self._read = read
        self._clock = clock
        self._age_seconds = age_seconds
        self._lock = asyncio.Lock()
        self._asked_monotonic = float("-inf")
        self._answer: tuple[T] | KubeError = KubeError("not read yet")

    async def get(self) -> T:
        """The answer. Raises the KubeError that the read ended with."""
        wanted_monotonic = self._clock.monotonic()
        async with self._lock:  # whoever waited here is served by the read it waited for
            if self._asked_monotonic < wanted_monotonic - self._age_seconds:
                self._asked_monotonic = self._clock.monotonic()
                self._answer = await self._ask()
        if isinstance(self._answer, KubeError):
            raise self._answer
        return self._answer[0]

    def asked_seconds_ago(self) -> float:
        """How old the answer is, by its question."""
        return self._clock.monotonic() - self._asked_monotonic

    async def _ask(self) -> tuple[T] | KubeError:
        try:
            return (await self._read(),)
        except KubeError as error:
            return error
