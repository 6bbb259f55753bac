"""A model once its need is known."""

from rebalancer.domain.memory import ModelMemory
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import Refusal
from rebalancer.planning.demand.deferral import Deferral
from rebalancer.planning.demand.demand import Demand, busy_now, need_now, need_words
from rebalancer.planning.demand.votes import Ballot
from rebalancer.planning.facts.scene import ModelFacts


class ModelNeed(ModelFacts, frozen=True):
    """The facts of a model, and what it needs.

    ballot: the votes of its signals.
    demand: replicas that it needs, what people rule included.
    unruled: replicas that it would need had nobody ruled anything.
    plausibility_refusal: what the guard `plausible` declined of its demand, None where nothing is doubted.
    deferral: how far it stands back as batch work.
    remembered: its memory for the next plan.
    """

    ballot: Ballot
    demand: Demand
    unruled: int
    plausibility_refusal: Refusal | None
    deferral: Deferral
    remembered: ModelMemory

    @property
    def own(self) -> int:
        """Replicas that come before any gain: floor, wanted entitlement, a person's least, a batch model's turn."""
        if self.ruling.pin is not None:
            return self.most_replicas
        wanted = min(self.demand.owed, self.entry.entitlement)
        return min(self.most_replicas, max(self.floor, wanted, self.deferral.due, self.ruling.raised_floor))

    @property
    def need_now(self) -> int | None:
        """Replicas above which what a donor holds is surplus and may go at once; None where its work is unknown.

        Measured: the limits cost 13-21 points of violation in a surge without that exemption, 0.1 with it. Of work with
        a deadline that is what is due: it gives way at once.
        """
        if self.deferral.counts:
            return self.deferral.due
        if self.entry.takes_idle:
            return 0
        return need_now(self.load.work, self.believed)

    @property
    def need_words(self) -> str:
        """What `need_now` is of, as a clause."""
        if self.deferral.counts:
            return f"what of its work is due needs {self.deferral.due}"
        return need_words(self.load.work, self.believed)

    @property
    def believed(self) -> Outlook | None:
        """The outlook; None where there is none, the work is not plausible, or nobody sees it."""
        return self.load.outlook if self.plausibility_refusal is None and not self.ballot.blind else None

    @property
    def busy_now(self) -> int | None:
        """Replicas that its present work keeps busy, those that it needs for bursts left out; None where unknown."""
        return self.deferral.due if self.deferral.counts else busy_now(self.load.work)
