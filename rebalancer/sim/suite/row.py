"""A line of the table: one controller on one case."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from rebalancer.sim.demand import F64
from rebalancer.sim.record import Record
from rebalancer.sim.requests.arrivals import MINUTE_SECONDS
from rebalancer.sim.requests.fluid import fluid_minutes
from rebalancer.sim.requests.minutes import Minutes
from rebalancer.sim.scenario import BY_MINUTE
from rebalancer.sim.score import BLOCK_SECONDS, score, violations_by_block
from rebalancer.sim.suite.peers import LIMITS

OURS = "ours"
COST_AT = {"S5": 0.01}  # scenarios about cost, at a violation of at most so much
BOUND = "bound"


class Row(Struct, frozen=True):
    """What one controller came to on one case with one seed. Shares are from 0 to 1, not per cent.

    Of the bound only `late_work_share` is known: it is the least that there can be. Before the run is played no number
    is known: each is None.

    scenario: name of the scenario or family.
    day: the day that is played, as `suite.cases` names days.
    gpus: GPUs of the case.
    start_seconds: seconds that a replica takes to start, None where models differ.
    controller: who played: `ours`, the name of a peer, or `bound`.
    actuation: how the service acted, `scale` or `bounds`; None for all others.
    tuning: setting of a peer as "signal@target", as it is with exact figures (`Given.tuning` says what other figures
        make of it); None for who is not tuned.
    seed: seed of what chance decides.
    world: `fluid`, `requests` or `batching`; rows of one world are compared with each other.
    violation: share of all requests that were late, None where only a bound is known.
    worst_model_violation: the same share for the model where it is largest, None as above.
    lost_utility: jobs less the sum of their mean utilities over minutes, None in scenarios that are not Faro's.
    gpu_hours: GPU-hours held, those of starting and ending replicas included; None where only a bound is known.
    cost_usd: USD that GPUs cost over the run, None where the scenario has no prices.
    starts_and_stops: replicas that were started and replicas that were ended, together; None where only a bound is
        known.
    floor_breaches: how often a model was asked to have fewer replicas than its floor; None where only a bound is known.
    recover_p95_seconds: 95th percentile of the seconds for which requests were late after a surge, None without surges.
    lost_in_flight: requests in service that were lost when their replica ended, None where nobody counts them.
    late_work_share: share of all work that came to a model in a second of which requests were late.
    plan_p99_ms: the least milliseconds that 99 % of the service's plans stayed within, None for all others.
    gap_closure: how much of the way from the best tuned peer to foresight the service goes; None where that is not
        known (`gap_closure`).
    given: name of the figures and metrics with which was decided (`given.GIVEN`).
    """

    scenario: str
    day: str
    gpus: int
    start_seconds: int | None
    controller: str
    actuation: str | None
    tuning: str | None
    seed: int
    world: str = "fluid"
    violation: float | None = None
    worst_model_violation: float | None = None
    lost_utility: float | None = None
    gpu_hours: float | None = None
    cost_usd: float | None = None
    starts_and_stops: int | None = None
    floor_breaches: int | None = None
    recover_p95_seconds: float | None = None
    lost_in_flight: float | None = None
    late_work_share: float | None = None
    plan_p99_ms: float | None = None
    gap_closure: float | None = None
    given: str = "exact"


class Played(Struct, frozen=True):
    """A row, and its headline by 10 minutes, (blocks, 2): what is counted, and what it is a share of.

    Late and all requests, or lost utility times minutes and minutes; empty where only a bound is known.
    `slow`: share of requests whose time per token missed its objective, None where tokens have no times.
    """

    row: Row
    blocks: list[tuple[float, float]]
    slow: float | None = None

    def block_array(self) -> F64:
        """The blocks as an array."""
        return np.array(self.blocks, dtype=np.float64).reshape(-1, 2)


def headline(row: Row) -> float | None:
    """The number that a scenario is about, less is better: lost utility where there is one, else the violation."""
    return row.violation if row.lost_utility is None else row.lost_utility


def broken_floors(rows: Sequence[Row]) -> int | None:
    """How often floors were broken in all of the rows; None where nobody counted. A mean would round one to none."""
    counts = [row.floor_breaches for row in rows if row.floor_breaches is not None]
    return sum(counts) if counts else None


def standing(row: Row) -> tuple[float, float]:
    """By what rows of one case are ranked, less is better: the headline, then GPU-hours.

    In a scenario about cost: the headline as far as it is above what is allowed, then the cost.
    """
    first = headline(row) or 0.0
    allowed = COST_AT.get(row.scenario)
    if allowed is None:
        return first, row.gpu_hours or 0.0
    return max(first, allowed), row.cost_usd or 0.0


def played(row: Row, record: Record, minutes: Minutes | None = None) -> Played:
    """The row with the record's numbers in it. `minutes`: Faro's score; None for what the fluid form says of it."""
    total = score(record)
    if minutes is None and row.scenario in BY_MINUTE:
        minutes = fluid_minutes(record)
    filled = {
        "violation": total.violation,
        "worst_model_violation": total.worst_model_violation,
        "lost_utility": None if minutes is None else minutes.lost_utility,
        "gpu_hours": total.gpu_hours,
        "cost_usd": total.cost_usd if record.scenario.has_prices else None,
        "starts_and_stops": total.starts_and_stops,
        "floor_breaches": total.floor_breaches,
        "recover_p95_seconds": total.recover_p95_seconds,
        "lost_in_flight": record.lost_in_flight,
        "late_work_share": total.late_work_share,
    }
    whole = {name: getattr(row, name) for name in row.__struct_fields__} | filled
    by_block = (
        violations_by_block(record) if minutes is None else minutes.lost_by_block(BLOCK_SECONDS // MINUTE_SECONDS)
    )
    return Played(Row(**whole), [(float(counted), float(requests)) for counted, requests in by_block])


def best_peer(rows: Sequence[Row]) -> Row | None:
    """The peer that stands best among the rows of one case and seed; None where none has a headline."""
    peers = [row for row in rows if row.controller not in {OURS, *LIMITS} and headline(row) is not None]
    return min(peers, key=standing, default=None)


def gap_closure(row: Row, rows: Sequence[Row]) -> float | None:
    """How much of the way from the best tuned peer to foresight `row` goes; `rows`: those of its case and seed.

    (peer - row) / (peer - foresight) of the headlines; None where the best peer is not above foresight, and where cost
    decides, which foresight does not know.
    """
    peer = best_peer(rows)
    if row.controller != OURS or peer is None or row.scenario in COST_AT:
        return None
    limit = next((headline(each) for each in rows if each.controller == "foresight"), None)
    ours, theirs = headline(row), headline(peer)
    if limit is None or ours is None or theirs is None or theirs <= limit:
        return None
    return (theirs - ours) / (theirs - limit)
