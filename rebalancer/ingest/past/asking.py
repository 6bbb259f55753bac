"""Asks a Prometheus for its past, piece by piece: two questions at a time, answers in the order of time."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import requests
from prometheus_api_client.exceptions import PrometheusApiClientException

from rebalancer.domain.metric_maps import MetricMap
from rebalancer.ingest.past.looks import PodLook, PodThen, read_range
from rebalancer.ingest.past.pieces import PastPiece
from rebalancer.ingest.prometheus import LateError, LinkLocalError, Server, look, looked_at
from rebalancer.ingest.prometheus_session import QueryCost, Visit
from rebalancer.ingest.promql import batches, question, with_own
from rebalancer.obs.clock import Clock

AT_ONCE: Final = 2  # questions: what else asks this Prometheus, alerts and autoscalers, goes first
DEADLINE_SECONDS: Final = 60.0
SMALLEST_STEPS: Final = 8  # of a piece that is still halved when it is too much to ask
# More samples or time than its limits allow, in its own words: a proxy before it that answers 503 says neither.
TOO_MUCH: Final = re.compile(r"HTTP Status Code (422|503 .*timeout)")


class PastUnanswered(Exception):
    """Prometheus gives nothing of its past; the text says why, for people."""


class Answered(NamedTuple):
    """What came of one piece.

    piece: the piece that was asked about.
    looks: readings of pods in it, in the order of time.
    missing: why some of it is not there, in words for people; None when all is.
    cost: what its questions cost Prometheus.
    """

    piece: PastPiece
    looks: list[PodLook]
    missing: str | None = None
    cost: QueryCost = QueryCost()


async def ask_past(  # noqa: PLR0913  # who is asked about what
    server: Server,
    namespaces: Collection[str],
    window: Collection[PastPiece],
    pod_then: PodThen,
    clock: Clock,
    own_maps: Sequence[MetricMap] = (),
) -> AsyncIterator[Answered]:
    """Each piece's looks, in the order of `window`. Raises PastUnanswered where it cannot be asked at all.

    `own_maps`: the policy's metric maps, which stand before ours.
    """
    maps = with_own(own_maps)
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="prometheus-past")
    among = [*batches(namespaces)]
    asked_for = await loop.run_in_executor(threads, _questions, server, among, maps, clock)
    reader = _Reader(server, asked_for, maps, pod_then, clock)

    def begin(piece: PastPiece) -> "asyncio.Future[Answered]":
        return loop.run_in_executor(threads, reader.answered, piece)

    waiting = deque(window)
    under_way = deque(begin(waiting.popleft()) for _ in range(min(AT_ONCE, len(waiting))))
    try:
        while under_way:
            answered = await under_way.popleft()
            if waiting:  # no more of them than one is read and one is waited for
                under_way.append(begin(waiting.popleft()))
            yield answered
    finally:
        for one in under_way:
            one.add_done_callback(looked_at)
            one.cancel()
        threads.shutdown(wait=False, cancel_futures=True)


def _questions(server: Server, among: list[list[str]], maps: Sequence[MetricMap], clock: Clock) -> list[str]:
    """One for each batch of namespaces, about the metrics that there are. Raises PastUnanswered."""
    try:
        with Visit(server, clock, DEADLINE_SECONDS) as visit:
            has = look(visit, among, maps)
    except (requests.Timeout, LateError) as error:
        raise PastUnanswered(f"{server.url}: no answer within {DEADLINE_SECONDS:g} s") from error
    except (OSError, LinkLocalError, PrometheusApiClientException, ValueError, RecursionError) as error:
        raise PastUnanswered(f"{server.url}: {str(error)[:300]}") from error
    return [text for names in among if (text := question(names, has, maps, counted=True))]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Whom the same questions are asked about every piece, and whose pods the answers tell of."""

    server: Server
    questions: list[str]
    maps: Sequence[MetricMap]
    pod_then: PodThen
    clock: Clock

    def answered(self, piece: PastPiece) -> Answered:
        looks: list[PodLook] = []
        missing: str | None = None
        costs: list[QueryCost] = []
        for text in self.questions:
            read, why = self._looks(text, piece, costs)
            looks += read
            missing = missing or why
        cost = sum(costs, QueryCost())
        return Answered(piece, sorted(looks, key=lambda each: each.step_at), missing, cost)

    def _looks(self, text: str, piece: PastPiece, costs: list[QueryCost]) -> tuple[list[PodLook], str | None]:
        """The looks of a piece, halved while it is too much to ask; what is not to be had has a reason."""
        try:
            with Visit(self.server, self.clock, DEADLINE_SECONDS) as visit:
                try:
                    result = visit.query_range(text, piece.begin, piece.end, piece.step_seconds)
                finally:
                    costs.append(visit.cost)
            return read_range(result, self.pod_then, self.maps), None
        except (requests.Timeout, LateError):
            why = f"no answer within {DEADLINE_SECONDS:g} s"
        except (OSError, LinkLocalError, PrometheusApiClientException, ValueError, RecursionError) as error:
            why = str(error)[:300]
            if isinstance(error, OSError | LinkLocalError | msgspec.ValidationError | RecursionError) or (
                isinstance(error, PrometheusApiClientException) and not TOO_MUCH.match(why)
            ):
                raise PastUnanswered(f"{self.server.url}: {why}") from error
        if (piece.end - piece.begin) // piece.step_seconds < SMALLEST_STEPS:
            return [], why
        both = [self._looks(text, half, costs) for half in piece.halves()]
        return [each for looks, _ in both for each in looks], next((each for _, each in both if each is not None), None)
