"""From when on the pods of a node under notice count for nobody: when their replacements are due."""

from collections.abc import Collection

from rebalancer.domain.codec import quantise
from rebalancer.domain.node_rules import NodeRules
from rebalancer.state.holdings import Holdings
from rebalancer.state.pools import Pools

MARGIN_SECONDS = 60.0  # for plans, watches, autoscalers and the scheduler

_Deadline = tuple[str, float]  # of the node of that name


def doomed_at(deadline: float, load_seconds: float, node_seconds: float, grace_seconds: float) -> float:
    """Instant from which on pods of a node with that `deadline` count for nobody: their replacements are due by then.

    A replacement waits for its node where the pool can get one (`node_seconds`, 0 elsewhere), then loads; whatever it
    replaces has its grace to end in, and a minute is left for plans, watches and autoscalers. A maintenance at
    12:00:00, models that load in up to 240 s and end within 90 s, a pool that gets a node within 900 s:
    12:00:00 - (240 + 900 + 90 + 60) s = 11:38:30. A spot notice of 120 s counts at once.
    """
    return deadline - (load_seconds + node_seconds + grace_seconds + MARGIN_SECONDS)


class Due:
    """What `doomed_at` says by node: for one deadline never later again, though the slowest replica has left.

    `rules`: of the policy in force.
    """

    def __init__(self, rules: NodeRules, holdings: Holdings, pools: Pools) -> None:
        self.rules = rules
        self._holdings = holdings
        self._pools = pools
        self._instants: dict[_Deadline, float] = {}  # from when on the node's pods do not count
        self._steps: dict[_Deadline, float] = {}  # seconds by which the clock was set since it is known

    def at(self, node: str, deadline: float) -> float:
        """By the slowest start and the longest grace of the models' pods that are there now, or were."""
        pods = list(self._holdings.pods_on(node))
        load = max((self._holdings.slow_load_seconds(model) for model, _ in pods), default=0.0)
        grace = max((pod.grace_seconds for _, pod in pods), default=0)
        coming = self.rules.node_timeout_seconds if self._pools.grows(node) else 0.0
        at = quantise(doomed_at(deadline, load, coming, grace))
        known = node, deadline
        self._instants[known] = min(at, self._instants.get(known, at))
        return self._instants[known] + min(0.0, self._steps.get(known, 0.0))

    def stepped(self, seconds: float) -> None:
        """The clock was set: no node that is known counts later than it would have, until it is set right again.

        A deadline is the cloud's and stands, and by a clock set back it is far away once more: replicas that were about
        to go would serve, and others could be given in their stead.
        """
        self._steps = {known: self._steps.get(known, 0.0) + seconds for known in self._instants}

    def keep(self, deadlines: Collection[_Deadline]) -> None:
        """Forget all others."""
        self._instants = {known: at for known, at in self._instants.items() if known in deadlines}
        self._steps = {known: seconds for known, seconds in self._steps.items() if known in deadlines}

    # --- the checkpoint

    def past(self) -> dict[str, tuple[tuple[float, float], ...]]:
        """Each node's deadlines, the earliest first, with their instants, for the checkpoint."""
        past: dict[str, tuple[tuple[float, float], ...]] = {}
        for (node, deadline), at in sorted(self._instants.items()):
            past[node] = (*past.get(node, ()), (deadline, at))
        return past

    def restore(self, node: str, past: tuple[float, float]) -> None:
        """Put back what `past` gave of a deadline; what was said since may only be earlier."""
        deadline, at = past
        self._instants[node, deadline] = min(at, self._instants.get((node, deadline), at))
