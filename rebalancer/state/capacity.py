"""What one replica carries within its SLO: the policy's figure, until what was seen speaks against it long enough.

Seconds are sorted by how much each replica carried, in eighths of the policy's figure, and by whether the latency was
within the SLO. The capacity is the load that divides the two best. The figure of the policy stands while it divides
them nearly as well: an outlier, a slow afternoon or a lag of the latency's window moves nothing. Only a load that was
carried raises it, and only where lighter loads were within the SLO does a missed one lower it: else the load is not
what is wrong. Idle time says nothing either way.
"""

from math import exp
from typing import NamedTuple

BINS = 8  # per policy's figure
LOWEST, HIGHEST = BINS // 2, 2 * BINS  # bounds: half and double the policy's figure
MEMORY_SECONDS = 14_400.0  # of evidence after which it fades: a change of engine or of prompts is learnt in hours
SLOW_SECONDS = 3_600.0  # of evidence in which 63 % of a difference are taken over
LEAST_SECONDS = 600.0  # misjudged by the policy's figure before anything is learnt
TOLERATED = 0.05  # of the evidence: latencies of a minute's window are late at each edge
LIGHT_WITHIN = 0.8  # of lighter loads that must have been within the SLO for the load to be what broke it
SETTLE_SECONDS = 60.0


class CapacityKept(NamedTuple):
    """A `Capacity` for the checkpoint: the figure it began with, what was learnt, and from what."""

    prior: float
    learnt: float
    readings: int
    within: tuple[float, ...]
    late: tuple[float, ...]
    carried: tuple[float, ...]


class Capacity:
    """One model's, in requests running on one replica. `readings`: how many looks at loaded replicas spoke."""

    __slots__ = ("_carried", "_fresh", "_late", "_within", "learnt", "prior", "readings")

    def __init__(self, prior: float, kept: CapacityKept | None = None) -> None:
        """`kept` counts where it began with the same figure: a person who changes it knows better."""
        self.prior = self.learnt = prior
        self.readings = 0
        self._within, self._late, self._carried = ([0.0] * (HIGHEST + 1) for _ in range(3))
        self._fresh = 0.0
        if kept is not None and kept.prior == prior and len(kept.within) == HIGHEST + 1:
            self.learnt, self.readings = kept.learnt, kept.readings
            self._within, self._late, self._carried = list(kept.within), list(kept.late), list(kept.carried)

    def saw(self, carried: float, seconds: float, within: bool) -> None:  # noqa: FBT001  # what was seen
        """Each replica carried so many requests for `seconds` (a pod's: its share), the latency `within` the SLO."""
        place = min(int(BINS * carried / self.prior), HIGHEST)
        if within:
            self._within[place] += seconds
            self._carried[place] += carried * seconds
        else:
            self._late[place] += seconds
        if place >= LOWEST:
            self.readings += 1
            self._fresh += seconds
            if self._fresh >= SETTLE_SECONDS:
                self._settle()

    def _settle(self) -> None:
        fresh, self._fresh = self._fresh, 0.0
        self.learnt += (self._target() - self.learnt) * (1.0 - exp(-fresh / SLOW_SECONDS))
        fades = exp(-fresh / MEMORY_SECONDS)
        for seconds in (self._within, self._late, self._carried):
            seconds[:] = [fades * one for one in seconds]

    def _target(self) -> float:
        within, late = self._within, self._late
        misjudged = [sum(within[bound:]) + sum(late[LOWEST:bound]) for bound in range(LOWEST, HIGHEST + 1)]
        evidence = sum(within[LOWEST:]) + sum(late[LOWEST:])
        allowed = min(misjudged) + max(LEAST_SECONDS, TOLERATED * evidence)
        bounds = (bound for bound in range(LOWEST, HIGHEST + 1) if misjudged[bound - LOWEST] <= allowed)
        best = min(bounds, key=lambda bound: abs(bound - BINS))
        if best > BINS:
            return self._most_carried(best)
        if best < BINS and not self._load_broke_it(best):
            best = BINS
        return self.prior * best / BINS

    def _most_carried(self, bound: int) -> float:
        """Not the border above what was carried, but what was."""
        place = bound - 1
        seconds = self._within[place]
        return self._carried[place] / seconds if seconds > 0.0 else self.prior * place / BINS

    def _load_broke_it(self, bound: int) -> bool:
        within, late = sum(self._within[:bound]), sum(self._late[:bound])
        return within >= max(LEAST_SECONDS, LIGHT_WITHIN * (within + late))

    @property
    def kept(self) -> CapacityKept:
        """For the checkpoint."""
        return CapacityKept(
            self.prior, self.learnt, self.readings, tuple(self._within), tuple(self._late), tuple(self._carried)
        )
