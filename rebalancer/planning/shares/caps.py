"""Caps: how many more replicas a model may hold on elastic pools by its own limit and its team's, and on shares.

What is lent of a pool of shares (`isolation: soft`) is lent to no realtime model: a neighbour on the same GPU may take
its time at any moment.

A cap stops raises; what is above one because the policy was lowered goes as surplus does, through the guards.
"""

from collections import Counter
from collections.abc import Sequence

from rebalancer.domain.policy import Policy
from rebalancer.domain.words import gpus, replicas
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.scene import Scene, TargetFacts

NO_CAP = 1_000_000_000


class Caps:
    """What models and teams hold on elastic pools while units are placed, and what they may; nothing without caps."""

    def __init__(self, scene: Scene[ModelNeed]) -> None:
        policy = scene.policy
        self._replicas = {
            model.id: model.elastic_replicas for model in policy.models if model.elastic_replicas is not None
        }
        self._gpus = {team.name: team.elastic_gpus for team in policy.teams}
        self._team = {model.id: model.team for model in policy.models} if self._gpus else {}
        some = bool(self._replicas or self._gpus)
        self._elastic = frozenset(pool.name for pool in policy.pools if some and pool.kind == "elastic")
        self._held: Counter[str] = Counter()
        self._team_gpus: Counter[str] = Counter()
        self._own_shares = _own_shares(policy)
        self._shares: Counter[tuple[str, str]] = Counter()
        for each in scene.models.values() if self._elastic or self._own_shares else ():
            for target in each.targets:
                self._add(target, target.staying_replicas)

    def _add(self, target: TargetFacts, replicas: int) -> None:
        if target.key in self._own_shares:
            self._shares[target.key] += replicas
        if target.pool in self._elastic:
            self._held[target.model] += replicas
            self._team_gpus[self._team.get(target.model, "")] += replicas * target.gpus

    def take(self, target: TargetFacts) -> None:
        """One replica more of the target."""
        self._add(target, 1)

    def give(self, target: TargetFacts) -> None:
        """One replica less."""
        self._add(target, -1)

    def room(self, target: TargetFacts) -> int:
        """Replicas that the target may still get; below 0: so many are above a cap."""
        of_shares = NO_CAP
        if target.key in self._own_shares:
            of_shares = self._own_shares[target.key] - self._shares[target.key]
        if target.pool not in self._elastic:
            return of_shares
        own, gpus = self._replicas.get(target.model), self._gpus.get(self._team.get(target.model, ""))
        of_model = NO_CAP if own is None else own - self._held[target.model]
        of_team = NO_CAP if gpus is None else (gpus - self._team_gpus[self._team[target.model]]) // target.gpus
        return min(of_model, of_team, of_shares)

    def kept(self, targets: Sequence[TargetFacts]) -> bool:
        """Whether none of the targets is above a cap."""
        capped = bool(self._elastic or self._own_shares)
        return not capped or all(self.room(target) >= 0 for target in targets)

    def most(self, targets: Sequence[TargetFacts], most: int) -> int:
        """`most`, as far as caps allow it where all of these targets are; what is lent of shares is capped by pool."""
        rooms = [self.room(target) for target in targets]
        if NO_CAP in rooms or not rooms:
            return most
        held = sum(target.staying_replicas for target in targets)
        more = sum(rooms) if any(target.key in self._own_shares for target in targets) else min(rooms)
        return min(most, max(0, held + more))

    def words(self, target: TargetFacts) -> str:
        """The cap that binds the target, in words with its numbers."""
        owned = self._own_shares.get(target.key)
        if owned is not None and owned <= self._shares[target.key]:
            beyond = f"beyond the {owned} it owns there " if owned else ""
            return f"a realtime model is lent no share of a GPU {beyond}(pool {target.pool} says isolation: soft)"
        own, team = self._replicas.get(target.model), self._team.get(target.model, "")
        if own is not None and own <= self._held[target.model]:
            return (
                f"it has {replicas(self._held[target.model])} on elastic pools, where elasticReplicas allows it {own}"
            )
        most = self._gpus[team]
        return f"team {team} holds {gpus(self._team_gpus[team])} of elastic pools, where elasticGpus allows it {most}"


def _own_shares(policy: Policy) -> dict[tuple[str, str], int]:
    """Replicas of each realtime model that are its own in each pool of shares, by model id and pool name."""
    soft = {pool.name for pool in policy.pools if pool.isolation == "soft"}
    primary = [pool.name for pool in policy.pools if pool.kind == "primary"]
    found = {}
    for model in policy.models if soft else ():
        home = next((spec.pool for spec in model.targets if spec.pool in primary), None)
        for spec in model.targets if model.workload_class == "realtime" else ():
            if spec.pool in soft:
                found[model.id, spec.pool] = model.entitlement if spec.pool == home else 0
    return found
