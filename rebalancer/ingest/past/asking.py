"""Asks a Prometheus for its past, piece by piece: two questions at a time, answers in the order of time."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import msgspec
import requests
from prometheus_api_client.exceptions import PrometheusApiClientException

from rebalancer.ingest.past.looks import PodLook, PodThen, read_range
from rebalancer.ingest.past.pieces import PastPiece
from rebalancer.ingest.prometheus import LateError, LinkLocalError, Server, looked_at, ranges
from rebalancer.ingest.promql import batches, question
from rebalancer.obs.clock import Clock

AT_ONCE: Final = 2  # questions: what else asks this Prometheus, alerts and autoscalers, goes first
DEADLINE_SECONDS: Final = 60.0
SMALLEST_STEPS: Final = 8  # of a piece that is still halved when it is too much to ask
# More samples or time than its limits allow, in its own words: a proxy before it that answers 503 says neither.
TOO_MUCH: Final = re.compile(r"HTTP Status Code (422|503 .*timeout)")


class PastUnanswered(Exception):
    """Prometheus gives nothing of its past; the text says why, for people."""


class Answered(NamedTuple):
    """What came of one piece. `missing`: why some of it is not there, None when all is."""

    piece: PastPiece
    looks: list[PodLook]
    missing: str | None = None


async def ask_past(
    server: Server, namespaces: Collection[str], window: Collection[PastPiece], pod_then: PodThen, clock: Clock
) -> AsyncIterator[Answered]:
    """Each piece's looks, in the order of `window`. Raises PastUnanswered where it cannot be asked at all."""
    questions = [question(names, counted=True) for names in batches(namespaces)]
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="prometheus-past")

    def begin(piece: PastPiece) -> "asyncio.Future[Answered]":
        return loop.run_in_executor(threads, _answered, server, questions, piece, pod_then, clock)

    waiting = deque(window)
    asked = deque(begin(waiting.popleft()) for _ in range(min(AT_ONCE, len(waiting))))
    try:
        while asked:
            answered = await asked.popleft()
            if waiting:  # no more of them than one is read and one is waited for
                asked.append(begin(waiting.popleft()))
            yield answered
    finally:
        for one in asked:
            one.add_done_callback(looked_at)
            one.cancel()
        threads.shutdown(wait=False, cancel_futures=True)


def _answered(server: Server, questions: list[str], piece: PastPiece, pod_then: PodThen, clock: Clock) -> Answered:
    looks: list[PodLook] = []
    missing: str | None = None
    for asked in questions:
        found, why = _looks(server, asked, piece, pod_then, clock)
        looks += found
        missing = missing or why
    return Answered(piece, sorted(looks, key=lambda look: look.step_at), missing)


def _looks(
    server: Server, asked: str, piece: PastPiece, pod_then: PodThen, clock: Clock
) -> tuple[list[PodLook], str | None]:
    """The looks of a piece, halved while it is too much to ask; what is not to be had has a reason."""
    try:
        result: Any = ranges(server, asked, piece.begin, piece.end, piece.step_seconds, clock, DEADLINE_SECONDS)
        return read_range(result, pod_then), None
    except (requests.Timeout, LateError):
        why = f"no answer within {DEADLINE_SECONDS:g} s"
    except (OSError, LinkLocalError, PrometheusApiClientException, ValueError) as error:
        why = str(error)[:300]
        if isinstance(error, OSError | LinkLocalError | msgspec.ValidationError) or (
            isinstance(error, PrometheusApiClientException) and not TOO_MUCH.match(why)
        ):
            raise PastUnanswered(f"{server.url}: {why}") from error
    if (piece.end - piece.begin) // piece.step_seconds < SMALLEST_STEPS:
        return [], why
    both = [_looks(server, asked, half, pod_then, clock) for half in piece.halves()]
    return [look for looks, _ in both for look in looks], next((each for _, each in both if each is not None), None)
