"""Quotas of namespaces and queues: how many more replicas of a target the cluster would let in.

What a quota cannot take is asked for by nobody: such pods are not created, or wait at a gate for ever. What a release
frees is free once its pods have gone.
"""

from collections import defaultdict
from collections.abc import Sequence

from rebalancer.domain.quota_view import QuotaView
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.scene import Scene, TargetFacts

QUOTA = "quota"  # the constraint of who is short for want of permission
UNLIMITED = 1_000_000_000

_Key = tuple[str, str]  # model id, pool


class QuotaRoom:
    """What is left of each quota while replicas are placed, all that was asked for before counted; in thousandths."""

    def __init__(self, scene: Scene[ModelNeed]) -> None:
        self._left: list[int] = []
        self._held: list[int] = []  # what the models have of it, or asked for
        self._views = scene.snapshot.quotas
        self._draws: defaultdict[_Key, list[tuple[int, int]]] = defaultdict(list)  # by target: quota, of one replica
        for index, view in enumerate(self._views):
            left, held = 0 if view.refuses else view.hard - view.used, 0
            for draw in view.draws:
                self._draws[draw.model, draw.pool].append((index, draw.amount))
                model = scene.models.get(draw.model)
                targets = [one for one in model.targets if one.pool == draw.pool] if model is not None else []
                left -= sum(draw.amount * _uncounted(one, view) for one in targets)
                held += sum(draw.amount * one.staying_replicas for one in targets)
            self._left.append(left)
            self._held.append(0 if view.refuses else held)

    def room(self, target: TargetFacts) -> int:
        """Replicas of the target that would be let in; below 0: so many that are asked for will not be."""
        return min((self._fits(index, amount) for index, amount in self._of(target)), default=UNLIMITED)

    def _of(self, target: TargetFacts) -> Sequence[tuple[int, int]]:
        return self._draws.get(target.key, ())

    def _fits(self, index: int, amount: int) -> int:
        if self._views[index].refuses:
            return min(0, self._left[index])
        return self._left[index] // amount if amount > 0 else UNLIMITED

    def take(self, target: TargetFacts) -> None:
        """One replica more of the target."""
        for index, amount in self._of(target):
            self._left[index] -= amount

    def give(self, target: TargetFacts) -> None:
        """One replica less."""
        for index, amount in self._of(target):
            self._left[index] += amount

    def frees(self, donor: TargetFacts, target: TargetFacts) -> bool:
        """Whether one more replica of the target would be let in, once a replica of the donor has gone."""
        freed = dict(self._of(donor))
        return all(
            not self._views[index].refuses and self._left[index] + freed.get(index, 0) >= amount
            for index, amount in self._of(target)
        )

    def most(self, targets: Sequence[TargetFacts], most: int) -> int:
        """`most`, as far as quotas would let replicas of these targets in if all other models gave theirs."""
        if not self._draws:
            return most
        return min(most, sum(max(target.staying_replicas, self._whole(target)) for target in targets))

    def _whole(self, target: TargetFacts) -> int:
        wholes = ((self._left[index] + self._held[index], amount) for index, amount in self._of(target) if amount > 0)
        return min((whole // amount for whole, amount in wholes), default=UNLIMITED if self.room(target) > 0 else 0)

    def refusing(self, targets: Sequence[TargetFacts], *, more: bool) -> str:
        """Why none of these targets is let in once `more`, or with what it asks for already; "" where one is."""
        here = [target for target in targets if target.stuck is None]
        room = max((self.room(target) for target in here), default=UNLIMITED)
        return "; ".join(filter(None, map(self.words, here))) if room < (1 if more else 0) else ""

    def words(self, target: TargetFacts) -> str:
        """The first quota that lets in no replica more, with used, hard and who holds it; "" where all do."""
        full = ((index, amount) for index, amount in self._of(target) if self._fits(index, amount) <= 0)
        return next((self._views[index].text(amount, self._coming(index)) for index, amount in full), "")

    def _coming(self, index: int) -> int:
        """What was asked for of a quota, or granted in this plan, that its own numbers do not have yet."""
        view = self._views[index]
        return 0 if view.refuses else view.hard - view.used - self._left[index]


def _uncounted(target: TargetFacts, view: QuotaView) -> int:
    """Replicas that were asked for and that the quota's own numbers do not have yet."""
    gated = sum(pod.gated is True for pod in target.staying_pods) if view.at_a_gate else 0
    return target.unseen_pods + gated
