"""Reads Prometheus' past at a start: the learners of `state` learn from it, and its first table needs no waiting."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from rebalancer.app.lessons import Lessons
from rebalancer.domain.policy import Policy
from rebalancer.ingest.past.asking import ask_past
from rebalancer.ingest.past.minutes import ModelMinute, minutes
from rebalancer.ingest.past.names import pods_then
from rebalancer.ingest.past.pieces import pieces
from rebalancer.ingest.past.together import PoolTogether, pools_together
from rebalancer.ingest.past.use import WindowUse, window_use
from rebalancer.ingest.prometheus import Server
from rebalancer.ingest.prometheus_session import QueryCost
from rebalancer.obs.clock import Clock
from rebalancer.obs.effects import effect
from rebalancer.state import ClusterState

NAME = "past.json"
EFFECTS: Final[Mapping[str, str]] = {
    "past/write": "what a first look read of Prometheus' past, by `rebalancer observe`"
}
HOUR_SECONDS = 3600.0


class Backfilled(NamedTuple):
    """A window of the past as Prometheus had it.

    begin: its first instant, epoch seconds.
    end: its last.
    minutes: each model at each step.
    use: each model over the whole window, in the policy's order.
    missing: why parts of it could not be had, one sentence for each part.
    pools: the models of each pool together.
    cost: of all questions, as the Prometheus tells it.
    """

    begin: float
    end: float
    minutes: tuple[ModelMinute, ...]
    use: tuple[WindowUse, ...]
    missing: tuple[str, ...]
    pools: tuple[PoolTogether, ...] = ()
    cost: QueryCost = QueryCost()


def store_past(folder: Path, past: Backfilled) -> None:
    """What a report tells of the window, as a file beside the journal: its models, not its minutes. Blocks.

    Raises OSError.
    """
    with effect("past/write", NAME):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / NAME).write_bytes(msgspec.json.encode(past._replace(minutes=())))


def stored_past(folder: Path) -> Backfilled | None:
    """What `store_past` wrote last into this folder; None where there is none that can be read. Blocks."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Backfilled)
    except (OSError, ValueError):
        return None


async def backfill(  # noqa: PLR0913  # whom is asked about what, and who hears of it
    server: Server,
    policy: Policy,
    state: ClusterState,
    clock: Clock,
    hours: float,
    interval_seconds: float,
    reads: Callable[[int, int], None],
) -> Backfilled:
    """Ask for the last `hours`, and put what is learnt from them into `state`, which knows the pods by now.

    `interval_seconds`: between two scrapes. `reads` hears of each piece read: how many, of how many. Raises
    ingest.past.asking.PastUnanswered where Prometheus cannot be asked.
    """
    end = clock.now()
    begin = end - hours * HOUR_SECONDS
    window = pieces(begin, end, interval_seconds)
    slo_seconds = {model.id: model.slo.latency_seconds for model in policy.models if model.slo is not None}
    lessons, minutes_read, missing = Lessons(policy, begin), list[ModelMinute](), list[str]()
    namespaces = {model.namespace for model in policy.models}
    cost = QueryCost()
    reads(0, len(window))
    answers = ask_past(
        server, namespaces, window, pods_then(policy.models, state.pod_named), clock, policy.metrics.maps
    )
    async for piece, looks, why, asked_for in answers:
        cost += asked_for
        await asyncio.to_thread(lessons.hear, looks, piece.step_seconds)
        minutes_read += minutes(looks, piece.step_seconds, slo_seconds)
        missing += [] if why is None else [why]
        reads(window.index(piece) + 1, len(window))
    for model, past in lessons.pasts().items():
        state.restore_rings(model, past)
    use, pools = window_use(policy.models, minutes_read), pools_together(policy, minutes_read)
    return Backfilled(begin, end, tuple(minutes_read), use, tuple(missing), pools, cost)
