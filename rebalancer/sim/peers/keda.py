"""KEDA: activation between nothing and something, and an HPA on external metrics from one replica on.

From the algorithm of kedacore/keda pkg/scaling/executor/scale_scaledobjects.go. The HPA asks the scaler at each of its
own syncs, so the polling interval governs activation only. Fallback after scaler errors is left out: no scaler fails
here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rebalancer.sim.controller import Seen
from rebalancer.sim.peers.behaviour import DOWN, UP, Rules
from rebalancer.sim.peers.hpa import SYNC_SECONDS, TOLERANCE, HpaMetric, HpaPeer, Total


@dataclass(frozen=True, slots=True)
class Activation:
    """`minReplicaCount`, `idleReplicaCount` and `cooldownPeriod` of a ScaledObject."""

    least: int = 0
    idle: int | None = None
    cooldown_seconds: float = 300.0

    def replicas(self, now: float, current: int, active: bool, last_active: float | None) -> int:  # noqa: FBT001  # the executor's own argument
        """What the executor makes of `current`. `last_active` None: no trigger was ever active."""
        if active:
            from_idle = self.idle is not None and current < self.least
            return max(self.least, 1) if current == 0 or from_idle else current
        above_idle = self.idle is not None and current > self.idle
        if above_idle or (current > 0 and self.least == 0):
            cooled = last_active is None or last_active + self.cooldown_seconds < now
            return (self.least if self.idle is None else self.idle) if cooled else current
        return self.least if self.idle is None else current


class Keda:
    """A ScaledObject per model: minReplicaCount its floor, maxReplicaCount its `most`.

    A trigger is active while its total is above `activation`; unknown totals change nothing.
    """

    def __init__(  # noqa: PLR0913  # the fields of a ScaledObject that decide something
        self,
        triggers: Sequence[HpaMetric],
        up: Rules = UP,
        down: Rules = DOWN,
        activation: float = 0.0,
        cooldown_seconds: float = 300.0,
        poll_seconds: int = 30,
        idle: int | None = None,
        tolerance: float = TOLERANCE,
        every_seconds: int = SYNC_SECONDS,
    ) -> None:
        self.every_seconds = every_seconds
        self._triggers = tuple(triggers)
        self._hpa = HpaPeer(self._triggers, up, down, tolerance, every_seconds)
        self._activation, self._cooldown_seconds, self._idle = activation, cooldown_seconds, idle
        self._poll_seconds = poll_seconds
        self._last_active: dict[int, float] = {}

    def decide(self, seen: Seen) -> Sequence[int]:
        """The HPA's word, and the executor's after it whenever it polls."""
        desired = [self._hpa.replicas(seen, index) for index in range(len(seen.desired))]
        if seen.now % self._poll_seconds < self.every_seconds:
            desired = [self._executed(seen, index, replicas) for index, replicas in enumerate(desired)]
        return desired

    def _executed(self, seen: Seen, index: int, replicas: int) -> int:
        known = [value.value for trigger in self._triggers if isinstance(value := trigger.signal(seen, index), Total)]
        if not known:
            return replicas
        active = max(known) > self._activation
        executor = Activation(seen.scenario.models[index].floor, self._idle, self._cooldown_seconds)
        after = executor.replicas(seen.now, replicas, active, self._last_active.get(index, 0.0))
        if active:
            self._last_active[index] = seen.now
        return after
