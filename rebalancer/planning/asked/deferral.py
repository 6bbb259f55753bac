"""Batch work yields to the others and is deferred, not starved: once per window it has a turn.

While it yields, its requests count a tenth of their priority. Deferred for a window less a turn, they count all of it,
and a quarter of what it needs comes before what anybody gains, until the window is over; then the next one begins.
Guards hold as ever: a turn is a claim, no way around them.
"""

import math
from dataclasses import dataclass

from rebalancer.domain.policy import DeferralRule, Model
from rebalancer.planning.asked.demand import Demand

BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Deferral:
    """How a batch model stands back. `weight`: what its requests count, as a share of their priority.

    `since`: it has lacked replicas from then on; its turn begins at `turn_at` and ends at `until`; all None: it lacks
    none. `due`: replicas that come before what anybody gains, 0 outside its turn.
    """

    weight: float
    since: float | None = None
    turn_at: float | None = None
    until: float | None = None
    due: int = 0


NO_DEFERRAL = Deferral(1.0)  # of every other class


def defer(model: Model, demand: Demand, held: int, since: float | None, rule: DeferralRule, now: float) -> Deferral:  # noqa: PLR0913  # fmt: skip  # each is one input
    """How the model that holds `held` replicas, and was deferred `since`, stands back at `now`.

    A turn lasts to its end, though the model then has what it needs: else it would lose that again at once.
    """
    if model.workload_class != BATCH:
        return NO_DEFERRAL
    short = not demand.unknown and held < demand.replicas
    if since is not None and now - since >= rule.window_seconds:
        since = None
    turn = since is not None and now - since >= rule.window_seconds - rule.turn_seconds
    if not (short or turn):
        return Deferral(rule.weight)
    begun = now if since is None else since
    until = begun + rule.window_seconds
    due = max(1, math.ceil(rule.share * demand.replicas)) if turn and demand.replicas > 0 else 0
    return Deferral(1.0 if turn else rule.weight, begun, until - rule.turn_seconds, until, due)
