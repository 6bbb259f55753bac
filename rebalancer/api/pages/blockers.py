"""What stands between a model and what it needs, and when that goes away by itself."""

from collections import defaultdict
from dataclasses import dataclass

from rebalancer.api.text.explain import expected_at
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import ModelDecision, Plan, Refusal, Unmet
from rebalancer.domain.snapshot import ModelView, Snapshot


@dataclass(frozen=True, slots=True)
class Blockers:
    """The refusals and unmet needs of one plan, looked up once for all models.

    refused: refusals by subject.
    releases: refused releases by the name of the pool in which they would free GPUs.
    unmet: what models are short of, by model id.
    views: what models' targets have, by model id.
    decisions: what the plan decides about models, by model id.
    outlooks: outlooks by model id; without the models of which nothing was observed.
    """

    refused: dict[str, list[Refusal]]
    releases: dict[str, list[Refusal]]
    unmet: dict[str, Unmet]
    views: dict[str, ModelView]
    decisions: dict[str, ModelDecision]
    outlooks: dict[str, Outlook]

    @classmethod
    def of(cls, plan: Plan, snapshot: Snapshot) -> "Blockers":
        """What each model waits for in `plan`, which was made from `snapshot`."""
        views = {view.id: view for view in snapshot.models}
        refused: dict[str, list[Refusal]] = defaultdict(list)
        releases: dict[str, list[Refusal]] = defaultdict(list)
        for refusal in plan.refusals:
            refused[refusal.subject].append(refusal)
            view = views.get(refusal.subject)
            if view is not None and refusal.replicas_to < refusal.replicas_from:
                for pool in {target.pool for target in view.targets}:
                    releases[pool].append(refusal)
        decisions = {each.model: each for each in plan.models}
        outlooks = {load.model: load.outlook for load in snapshot.loads if load.outlook is not None}
        return cls(dict(refused), dict(releases), {row.model: row for row in plan.unmet}, views, decisions, outlooks)

    def gate(self, model: str) -> Refusal | None:
        """The refusal that lets go first of those that stand between `model` and what it needs; None: no such."""
        refusals = list(self.refused.get(model, ()))
        if model in self.unmet and model in self.views:
            pools = {target.pool for target in self.views[model].targets}
            refusals += [refusal for pool in sorted(pools) for refusal in self.releases.get(pool, ())]
        dated = [(refusal.until, refusal.subject, refusal) for refusal in refusals if refusal.until is not None]
        return min(dated, key=lambda each: each[:2])[2] if dated else None

    def ready_at(self, model: str) -> float | None:
        """The instant at which the last loading replica should be Ready; None: none loads, or no start was measured."""
        view = self.views.get(model)
        return None if view is None else expected_at(view)

    def next_at(self, model: str) -> float | None:
        """The instant at which the model's wait ends by itself; None: it waits for nothing, or nobody knows."""
        gate = self.gate(model)
        return gate.until if gate is not None else self.ready_at(model)

    def donor(self, row: Unmet) -> tuple[str, int] | None:
        """The model that loses least by giving to one that is short, and how many replicas it keeps; they share a pool.

        None where nobody has a replica above its floor, or all who have are short themselves.
        """
        view, gpus = self.views.get(row.model), self.gpus(row.model) * row.replicas
        pools = {target.pool for target in view.targets} if view is not None else set()
        giving = []
        for name, decision in self.decisions.items():
            other = self.views.get(name)
            above = decision.granted - decision.floor
            if name in self.unmet or other is None or above <= 0 or pools.isdisjoint(t.pool for t in other.targets):
                continue
            left = decision.granted - min(above, -(-gpus // max(1, self.gpus(name))))
            giving.append((self._cost(name, decision.granted, left), name, left))
        return min(giving)[1:] if giving else None

    def _cost(self, model: str, has: int, left: int) -> float:
        """What fewer replicas cost a model more; without an outlook more than any that is known."""
        outlook = self.outlooks.get(model)
        if outlook is None or left < outlook.least:
            return float("inf")
        most = len(outlook.late) - 1
        fewer, now = (outlook.late[min(most, max(0, count - outlook.least))] for count in (left, has))
        return fewer - now

    def gpus(self, model: str) -> int:
        """GPUs of one of its replicas, 0 when unknown."""
        view = self.views.get(model)
        return max((target.gpus_per_pod * target.pods_per_replica for target in view.targets), default=0) if view else 0
