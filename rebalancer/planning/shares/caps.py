"""Caps on where replicas stand: on elastic pools, on spot pools, in one place, by a model's own limits and its team's.

A place is an instance type and a zone: what goes together. What is lent of a pool of shares (`isolation: soft`) is lent
to no realtime model: a neighbour on the same GPU may take its time at any moment. A cap stops raises; what is above one
because the policy was lowered goes as surplus does, through the guards.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rebalancer.domain.placement import place_of
from rebalancer.domain.policy import Model, Policy, Pool, Team
from rebalancer.domain.words import gpus, replicas
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.scene import Scene, TargetFacts

NO_CAP = 1_000_000_000


class _Cap(NamedTuple):
    """One limit of a target, which it may share with others.

    key: what it is counted under.
    most: the limit, in replicas or GPUs.
    each: what one replica of the target counts for.
    where: the words for where it binds, `on elastic pools`.
    rule: the words for what allows how much: `elasticReplicas`, or a team's name.
    """

    key: tuple[str, ...]
    most: int
    each: int
    where: str
    rule: str


class Caps:
    """What models and teams hold under their caps while units are placed, and what they may; nothing without caps."""

    def __init__(self, scene: Scene[ModelNeed]) -> None:
        self._of = _by_target(scene)
        self._held: Counter[tuple[str, ...]] = Counter()
        for each in scene.models.values() if self._of else ():
            for target in each.targets:
                self._add(target, target.staying_replicas)

    def _add(self, target: TargetFacts, replicas: int) -> None:
        for cap in self._of.get(target.key, ()):
            self._held[cap.key] += replicas * cap.each

    def take(self, target: TargetFacts) -> None:
        """One replica more of the target."""
        self._add(target, 1)

    def give(self, target: TargetFacts) -> None:
        """One replica less."""
        self._add(target, -1)

    def room(self, target: TargetFacts) -> int:
        """Replicas that the target may still get; below 0: so many are above a cap."""
        return min((self._left(cap) for cap in self._of.get(target.key, ())), default=NO_CAP)

    def _left(self, cap: _Cap) -> int:
        return (cap.most - self._held[cap.key]) // cap.each

    def respected(self, targets: Sequence[TargetFacts]) -> bool:
        """Whether none of the targets is above a cap."""
        return not self._of or all(self.room(target) >= 0 for target in targets)

    def most(self, targets: Sequence[TargetFacts], most: int) -> int:
        """`most`, as far as the model's caps allow it: where all targets have one, what these leave together."""
        caps = [self._of.get(target.key, ()) for target in targets]
        if not caps or not all(caps):
            return most
        held = sum(target.staying_replicas for target in targets)
        shared = set(caps[0]).intersection(*caps)
        together = min(map(self._left, shared), default=NO_CAP)
        apart = sum(min((self._left(cap) for cap in own if cap not in shared), default=NO_CAP) for own in caps)
        return min(most, max(0, held + min(together, apart)))

    def words(self, target: TargetFacts) -> str:
        """The cap that binds the target, in words with its numbers."""
        cap = min(self._of[target.key], key=self._left)
        held = self._held[cap.key]
        if cap.key[0] == "shares":
            beyond = f"beyond the {cap.most} it owns there " if cap.most else ""
            return f"a realtime model is lent no share of a GPU {beyond}({cap.where} says isolation: soft)"
        if cap.key[0] == "team":
            return f"team {cap.rule} holds {gpus(held)} of elastic pools, where elasticGpus allows it {cap.most}"
        return f"it has {replicas(held)} {cap.where}, where {cap.rule} allows it {cap.most}"


def _by_target(scene: Scene[ModelNeed]) -> dict[tuple[str, str], tuple[_Cap, ...]]:
    policy: Policy = scene.policy
    teams = {team.name: team for team in policy.teams}
    pools = {pool.name: pool for pool in policy.pools}
    shares = any(pool.isolation == "soft" for pool in policy.pools)
    capped = {model.id for model in policy.models if _capped(model) or (shares and model.workload_class == "realtime")}
    if not capped and not teams:
        return {}
    caps_of = {
        target.key: tuple(_caps(model.entry, target, pools, teams.get(model.entry.team)))
        for model in scene.models.values()
        if model.entry.id in capped or model.entry.team in teams
        for target in model.targets
    }
    return {key: caps for key, caps in caps_of.items() if caps}


def _capped(model: Model) -> bool:
    return (model.elastic_replicas, model.spot_replicas, model.place_replicas) != (None, None, None)


def _caps(model: Model, target: TargetFacts, pools: Mapping[str, Pool], team: Team | None) -> Iterator[_Cap]:
    pool = pools[target.pool]
    if pool.isolation == "soft" and model.workload_class == "realtime":
        home = next((spec.pool for spec in model.targets if pools[spec.pool].kind == "primary"), None)
        own = model.entitlement if home == pool.name else 0
        yield _Cap(("shares", model.id, pool.name), own, 1, f"pool {pool.name}", "isolation")
    if model.elastic_replicas is not None and pool.kind == "elastic":
        yield _Cap(("elastic", model.id), model.elastic_replicas, 1, "on elastic pools", "elasticReplicas")
    if team is not None and pool.kind == "elastic":
        yield _Cap(("team", team.name), team.elastic_gpus, target.gpus, "on elastic pools", team.name)
    if model.spot_replicas is not None and pool.capacity_type == "spot":
        yield _Cap(("spot", model.id), model.spot_replicas, 1, "on spot pools", "spotReplicas")
    place = place_of(pool.node_labels)
    if model.place_replicas is not None and any(place):
        where = f"on {' in '.join(filter(None, place))}"
        yield _Cap(("place", model.id, *place), model.place_replicas, 1, where, "placeReplicas")
