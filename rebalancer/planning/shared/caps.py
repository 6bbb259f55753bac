"""Caps on elastic pools: how many more replicas a model may hold there by its own limit and by its team's.

A cap stops raises; what is above one because the policy was lowered goes as surplus does, through the guards.
"""

from collections import Counter
from collections.abc import Sequence

from rebalancer.planning.seen.scene import Part, Scene

NO_CAP = 1_000_000_000


class Caps:
    """What models and teams hold on elastic pools while units are placed, and what they may; nothing without caps."""

    def __init__(self, scene: Scene) -> None:
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
        for holder in scene.holders.values() if self._elastic else ():
            for part in holder.parts:
                self._add(part, part.held)

    def _add(self, part: Part, replicas: int) -> None:
        if part.pool in self._elastic:
            self._held[part.model] += replicas
            self._team_gpus[self._team.get(part.model, "")] += replicas * part.gpus

    def take(self, part: Part) -> None:
        """One replica more of the part."""
        self._add(part, 1)

    def give(self, part: Part) -> None:
        """One replica less."""
        self._add(part, -1)

    def room(self, part: Part) -> int:
        """Replicas that the part may still get; below 0: so many are above a cap."""
        if part.pool not in self._elastic:
            return NO_CAP
        own, gpus = self._replicas.get(part.model), self._gpus.get(self._team.get(part.model, ""))
        of_model = NO_CAP if own is None else own - self._held[part.model]
        of_team = NO_CAP if gpus is None else (gpus - self._team_gpus[self._team[part.model]]) // part.gpus
        return min(of_model, of_team)

    def kept(self, parts: Sequence[Part]) -> bool:
        """Whether none of the parts is above a cap."""
        return not self._elastic or all(self.room(part) >= 0 for part in parts)

    def most(self, parts: Sequence[Part], most: int) -> int:
        """`most` as far as the model's caps leave it: all there is to say where it runs on elastic pools alone."""
        if not parts or any(part.pool not in self._elastic for part in parts):
            return most
        held = sum(part.held for part in parts)
        return min(most, max(0, held + min(self.room(part) for part in parts)))

    def words(self, part: Part) -> str:
        """What caps the part, with its numbers."""
        own, team = self._replicas.get(part.model), self._team.get(part.model, "")
        if own is not None and own <= self._held[part.model]:
            return f"{self._held[part.model]} replicas on elastic pools, elasticReplicas {own}"
        return f"team {team} holds {self._team_gpus[team]} GPUs of elastic pools, elasticGpus {self._gpus[team]}"
