"""A model once the GPUs that there are have been shared by worth."""

from rebalancer.domain.instant import Instant
from rebalancer.planning.demand.need import ModelNeed


class ModelShare(ModelNeed, frozen=True):
    """The facts and the need of a model, and what it is to have before guards.

    share: replicas of the GPUs there are, by what each count of replicas is worth; None where its demand decides.
    needed: replicas of its demand, less those that would gain nothing though they were there.
    lacks: replicas that neither serve nor load of those it needs, or would need had nobody ruled fewer.
    cost: what a replica costs until the horizon where nodes can go, in requests; 0 where GPUs are there anyway.
    used: replicas that it is seen to use, and that go to nobody's forecast; 0 where what all use does not fit.
    part: replicas that it keeps while everybody's part suffices; 0 while they do not.
    kept_replicas: replicas of which none is surplus yet, however many `aim` has.
    patient_until: until when it takes no replica that another model's demand covers, since it gave one and has room for
        its present work; None where it takes what it gains most from.
    alone: replicas that it would be to have by itself, where the other role of its couple binds it; else None.
    """

    share: int | None
    needed: int
    lacks: int
    cost: float = 0.0
    used: int = 0
    part: int = 0
    kept_replicas: int = 0
    patient_until: Instant | None = None
    alone: int | None = None

    @property
    def aim(self) -> int:
        """Replicas it is to have before guards: its share; its demand where there is nothing to share by."""
        return self.demand.replicas if self.share is None else self.share
