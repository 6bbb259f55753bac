"""Makes calls end: deadlines for all, more tries for reads, one try for writes."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from rebalancer.kube.effects import name_of
from rebalancer.kube.errors import Temporary, lost
from rebalancer.kube.resources import Call, Object
from rebalancer.kube.transport import Transport
from rebalancer.obs.clock import Clock
from rebalancer.obs.effects import effect

DEADLINE_SECONDS: Final = 5.0
ATTEMPTS: Final = 3
FIELD_MANAGER: Final = "rebalancer"

_PATIENCE_SECONDS: Final = 2.0
"""A read waits this long for the server at most; a longer Retry-After is the caller's to honour."""

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Caller:
    """Sends calls by a transport and turns replies into values or KubeErrors."""

    transport: Transport
    clock: Clock
    rng: random.Random

    async def read(
        self,
        call: Call,
        decode: Callable[[bytes], _R],
        attempts: int = ATTEMPTS,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> _R:
        """Ask until the answer can be read, at most `attempts` times and all within the deadline."""

        async def ask() -> _R:
            return _decoded(call, decode, await self.transport.ask(call))

        retrying = AsyncRetrying(
            retry=retry_if_exception(_worth_waiting),
            stop=stop_after_attempt(attempts),
            wait=self._wait,
            sleep=self.clock.sleep,
            reraise=True,
        )
        return await self._within(deadline_seconds, call, retrying(ask))

    async def read_object(self, call: Call) -> Object:
        """Read one object."""
        return await self.read(call, _object)

    async def write(self, call: Call, body: Any) -> Object:  # noqa: ANN401 - any JSON
        """Send once; return what the server answers."""
        if call.verb != "delete":
            call = replace(call, query={"fieldManager": FIELD_MANAGER})
        call = replace(call, body=msgspec.json.encode(body))
        with effect(name_of(call), call.path):
            reply = await self._within(DEADLINE_SECONDS, call, self.transport.ask(call))
        return _decoded(call, _object, reply)

    async def _within(self, seconds: float, call: Call, answer: Awaitable[_R]) -> _R:
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError as error:
            self.transport.errors["timeout"] += 1
            raise lost(call, f"no answer within {seconds:g} s") from error

    def _wait(self, state: RetryCallState) -> float:
        """What the server asked for; at least 0.1-0.2 s after the first try, 0.2-0.4 s after the next."""
        error = state.outcome.exception() if state.outcome else None
        server_wait = error.retry_after_seconds if isinstance(error, Temporary) else None
        return max(server_wait or 0.0, self.rng.uniform(0.1, 0.2) * state.attempt_number)


def _decoded(call: Call, decode: Callable[[bytes], _R], body: bytes) -> _R:
    """A 2xx reply that is cut, empty or a page for people is no reply."""
    try:
        return decode(body)
    except msgspec.DecodeError as error:
        raise lost(call, f"the reply of {len(body)} bytes cannot be read: {error}") from error


def _object(body: bytes) -> Object:
    return msgspec.json.decode(body, type=Object)


def _worth_waiting(error: BaseException) -> bool:
    return isinstance(error, Temporary) and (error.retry_after_seconds or 0.0) <= _PATIENCE_SECONDS
