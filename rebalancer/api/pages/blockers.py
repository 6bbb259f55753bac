"""What stands between a model and what it needs, and when that goes away by itself."""

from collections import defaultdict
from dataclasses import dataclass

from rebalancer.api.text.explain import expected_at
from rebalancer.domain.plan import Plan, Refusal, Unmet
from rebalancer.domain.snapshot import ModelView, Snapshot


@dataclass(frozen=True, slots=True)
class Blockers:
    """The refusals and unmet needs of one plan, looked up once for all models.

    `refused`: refusals by subject; `releases`: refused releases by the pool they would free.
    """

    refused: dict[str, list[Refusal]]
    releases: dict[str, list[Refusal]]
    unmet: dict[str, Unmet]
    views: dict[str, ModelView]

    @classmethod
    def of(cls, plan: Plan, snapshot: Snapshot) -> "Blockers":
        """Of one plan and what it was made from."""
        views = {view.id: view for view in snapshot.models}
        refused: dict[str, list[Refusal]] = defaultdict(list)
        releases: dict[str, list[Refusal]] = defaultdict(list)
        for refusal in plan.refusals:
            refused[refusal.subject].append(refusal)
            view = views.get(refusal.subject)
            if view is not None and refusal.replicas_to < refusal.replicas_from:
                for pool in {target.pool for target in view.targets}:
                    releases[pool].append(refusal)
        return cls(dict(refused), dict(releases), {row.model: row for row in plan.unmet}, views)

    def gate(self, model: str) -> Refusal | None:
        """The refusal that lets go first of those that stand between `model` and what it needs; None: no such."""
        refusals = list(self.refused.get(model, ()))
        if model in self.unmet and model in self.views:
            pools = {target.pool for target in self.views[model].targets}
            refusals += [refusal for pool in sorted(pools) for refusal in self.releases.get(pool, ())]
        dated = [(refusal.until, refusal.subject, refusal) for refusal in refusals if refusal.until is not None]
        return min(dated, key=lambda each: each[:2])[2] if dated else None

    def ready_at(self, model: str) -> float | None:
        """When the last loading replica should be Ready by the start time measured; None: none loads, or unknown."""
        view = self.views.get(model)
        return None if view is None else expected_at(view)

    def next_at(self, model: str) -> float | None:
        """When the thing it waits for comes by itself; None: nothing is waited for, or nobody knows."""
        gate = self.gate(model)
        return gate.until if gate is not None else self.ready_at(model)

    def gpus(self, model: str) -> int:
        """GPUs of one of its replicas, 0 when unknown."""
        view = self.views.get(model)
        return max((target.gpus_per_pod * target.pods_per_replica for target in view.targets), default=0) if view else 0
