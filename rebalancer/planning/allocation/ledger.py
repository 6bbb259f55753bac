"""The working copy of everything free while units are placed: rooms on nodes, capacity of pools, replicas taken."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile

from rebalancer.domain.cluster import Taint, Toleration
from rebalancer.domain.plan import Refusal
from rebalancer.domain.replica_set import out_class
from rebalancer.domain.snapshot import NodeView, PodView
from rebalancer.planning.allocation.fits import Fits
from rebalancer.planning.facts.scene import ROLLOUT, NodeRoom, PodPlacement, Scene, TargetFacts
from rebalancer.planning.guards.release import Purpose, Release, Tally
from rebalancer.planning.shares.caps import Caps
from rebalancer.planning.shares.share import ModelShare


@dataclass(frozen=True, slots=True)
class Victim:
    """One replica that would go.

    target: the target it belongs to.
    pod: the pod; a stand-in where it is no pod yet.
    purpose: why it would go.
    together: how many replicas of its model, on nodes, go with it for one replica of a model under its floor; else 1.
    """

    target: TargetFacts
    pod: PodView
    purpose: Purpose
    together: int = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """One more replica for a target, and where its GPUs come from.

    target: the target that gets it.
    tier: the claim it serves: `floor`, `entitlement` or `demand`.
    source: `free` (it fits now), `soon` (it fits once GPUs are freed), `shift` (its victims make the room), `node` (a
        node grant).
    node: name of the node it is to run on, None for a node grant.
    victims: replicas that go for it.
    """

    target: TargetFacts
    tier: str
    source: str
    node: str | None = None
    victims: tuple[Victim, ...] = ()


@dataclass(slots=True)
class Ledger:
    """Working copy of everything free while units are placed; rooms are copies, so the scene stays as it is.

    A replica that waits for a GPU is the first of its model to go, and others release for it only where their room is
    of use to it.

    scene: the scene, which is only read.
    tally: what guards' windows have after the replicas taken so far.
    rooms: free GPUs by pool and node, now and once all that goes has gone.
    capacity: GPUs by pool that may still be promised.
    owed: GPUs by pool that must be released: what its replicas have or ask for beyond the GPUs there are for certain.
    owed_held: the part of `owed` that replicas on nodes hold.
    caps: room left on elastic pools by models' and teams' limits.
    taken: pods taken so far, by target.
    gone: replicas taken so far, by model id.
    gained: replicas granted so far, by model id; such a model gives none.
    unseated: replicas without a node that fit on none, by model id.
    seated: replicas seated so far, by target.
    reseating: whether this tier seeks places for replicas that wait, too.
    reseated: waiting replicas that have got a place, by model id.
    confined: GPUs by pool that models which run on no other pool still lack at this tier.
    judged: answers of the guards about a target's next replica, by model id, then pool and purpose.
    lacking: ids of models that are to have more at some tier though nothing is taken from them.
    askable: donors with something to spare, by pool, tier and property of the recipient.
    _eligible: names of nodes that a kind of pod may land on.
    _fits: nodes by free GPUs, by kind of pod and whether it is to fit now.
    _fits_of: the same, by pool.
    _spare: nodes with free GPUs, by pool, until one of them is used.
    homes: nodes on which pods without a node were seated, by target and pod UID.
    """

    scene: Scene[ModelShare]
    tally: Tally
    rooms: dict[str, dict[str, NodeRoom]]
    capacity: dict[str, int]
    owed: dict[str, int]
    owed_held: dict[str, int]
    caps: Caps
    taken: dict[tuple[str, str], list[PodView]] = field(default_factory=dict)
    gone: Counter[str] = field(default_factory=Counter)
    gained: Counter[str] = field(default_factory=Counter)
    unseated: Counter[str] = field(default_factory=Counter)
    seated: Counter[tuple[str, str]] = field(default_factory=Counter)
    reseating: bool = False
    reseated: Counter[str] = field(default_factory=Counter)
    confined: Counter[str] = field(default_factory=Counter)
    judged: dict[str, dict[tuple[str, Purpose], Refusal | None]] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set)
    askable: dict[tuple[str, str, tuple[int, bool] | None], list[ModelShare]] = field(default_factory=dict)
    _eligible: dict[PodPlacement, tuple[str, ...]] = field(default_factory=dict)
    _fits: dict[tuple[PodPlacement, bool], Fits] = field(default_factory=dict)
    _fits_of: dict[str, list[tuple[bool, Fits]]] = field(default_factory=dict)
    _spare: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    homes: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, scene: Scene[ModelShare], tally: Tally) -> "Ledger":
        """The ledger before the first unit; pods without a node are placed as the scheduler would place them."""
        rooms = {
            name: {node: NodeRoom(room.node, room.now, room.soon) for node, room in state.rooms.items()}
            for name, state in scene.pools.items()
        }
        held, obliging, placed = (dict.fromkeys(scene.pools, 0) for _ in range(3))
        unplaced = []
        for model in scene.models.values():
            for target in model.targets:
                if target.pool in held:
                    held[target.pool] += target.staying_replicas * target.gpus
                    obliging[target.pool] += target.obliging * target.certain_gpus
                    placed[target.pool] += target.placed * target.certain_gpus
                if target.unplaced:
                    unplaced.append(target)
        capacity = {
            name: 0 if state.budget is None else state.budget - held[name] for name, state in scene.pools.items()
        }
        known = {name: state.most for name, state in scene.pools.items() if state.budget is not None}
        owed = {name: obliging[name] - most for name, most in known.items()}
        owed_held = {name: placed[name] - most for name, most in known.items()}
        ledger = cls(scene, tally, rooms, capacity, owed, owed_held, Caps(scene))
        for target in unplaced:
            ledger._seat_unplaced(target)
        return ledger

    def _seat_unplaced(self, target: TargetFacts) -> None:
        """Pods without a node and raises not yet seen take room now, best fit."""
        for pod in target.unplaced:
            node = self.fit(target, frozenset(), now=True) or self.fit(target, frozenset(), now=False)
            if node is None:
                self.unseated[target.model] += 1
                continue
            self._use(target.pool, node, target.gpus, target.gpus)
            self.homes.setdefault(target.key, {})[pod.uid] = node

    def eligible(self, target: TargetFacts) -> tuple[str, ...]:
        """Nodes of the target's pool that its pods may land on: selector and taints; found once per kind of pod."""
        names = self._eligible.get(target.placement)
        if names is None:
            nodes = tuple(room.node for room in self.rooms.get(target.pool, {}).values())
            names = self._eligible[target.placement] = self.scene.memo.of(
                target.placement, _eligible, target.placement, nodes
            )
        return names

    def fit(self, target: TargetFacts, excluded: frozenset[str], *, now: bool) -> str | None:
        """Best-fitting eligible node with room for one replica's pod, None if there is none."""
        fits = self._fits.get((target.placement, now))
        if fits is None:
            rooms = self.rooms.get(target.pool, {})
            fits = Fits({name: _free(rooms[name], now=now) for name in self.eligible(target)})
            self._fits[target.placement, now] = fits
            self._fits_of.setdefault(target.pool, []).append((now, fits))
        return fits.best(target.gpus, excluded)

    def _use(self, pool: str, node: str, now: int, soon: int) -> None:
        """Counts GPUs of the node as used now, and as used once all that goes has gone; negative numbers free them."""
        room = self.rooms[pool][node]
        room.now -= now
        room.soon -= soon
        self._spare.pop(pool, None)
        for at_once, fits in self._fits_of.get(pool, ()):
            fits.set(node, _free(room, now=at_once))

    def spare(self, pool: str, most: int) -> list[tuple[str, int]]:
        """The first `most` nodes with GPUs that are free, or about to be, and how many."""
        found = self._spare.get(pool)
        if found is None:
            free = ((name, room.soon) for name, room in self.rooms[pool].items() if room.soon > 0)
            found = self._spare[pool] = list(islice(free, most))
        return found

    def kind(self, target: TargetFacts, excluded: frozenset[str]) -> object:
        """The kind of a target's pods, as far as it decides where they fit: of one kind all fit or none."""
        return (target.placement, target.gpus, excluded)

    def open_to(self, target: TargetFacts, model: ModelShare) -> bool:
        """Whether the target may receive: healthy, budget known, not excluded, not capped, nothing taken from it yet.

        In a rollout, which may hang, a target receives just as many as it has doomed pods without a replacement.
        """
        state = self.scene.pools.get(target.pool)
        return (
            (target.stuck is None or self.seated[target.key] < target.replaceable)
            and state is not None
            and state.budget is not None
            and target.pool not in model.ruling.excluded_pools
            and target.key not in self.taken
            and self.caps.room(target) > 0
        )

    def headroom(self, target: TargetFacts) -> int:
        """GPUs that may be promised for one more replica; a replica that waits for a node has its promise already."""
        return max(self.capacity[target.pool], target.gpus if self._reseats(target) else 0)

    def _reseats(self, target: TargetFacts) -> bool:
        """Whether a place is sought for a replica that was asked for and fits on no node."""
        return self.reseating and self.unseated.get(target.model, 0) > self.reseated[target.model]

    def waits(self, target: TargetFacts) -> bool:
        """Whether a replica that the target has asked for fits on no node, and no place was found for it yet."""
        waiting = sum(self.home(target, pod) is None for pod in self.candidates(target))
        return waiting > self.seated[target.key]

    def seat(self, target: TargetFacts, node: str) -> None:
        """Put one replica of `target` on `node`."""
        self._use(target.pool, node, target.gpus, target.gpus)
        if self._reseats(target):
            self.reseated[target.model] += 1
        else:
            self.capacity[target.pool] -= target.gpus
        self.seated[target.key] += 1
        self.caps.take(target)

    def left(self, target: TargetFacts) -> int:
        """Replicas of the target that nobody has taken in this plan."""
        return target.staying_replicas - len(self.taken.get(target.key, ()))

    def left_of(self, model: ModelShare) -> int:
        """Replicas of the model that nobody has taken in this plan."""
        return model.staying_replicas - self.gone.get(model.entry.id, 0)

    def placed_of(self, model: ModelShare) -> int:
        """Replicas of the model that nobody has taken and that are on a node, or will fit on one."""
        return self.left_of(model) - self.unseated.get(model.entry.id, 0)

    def sure_of(self, model: ModelShare) -> int:
        """Of these all that serve, or will: not what loads in a rollout, whose new pods may never become Ready."""
        return self.placed_of(model) - sum(
            pod.phase != "ready" and self.home(target, pod) is not None
            for target in model.targets
            if target.stuck == ROLLOUT
            for pod in self.candidates(target)
        )

    def ready_of(self, model: ModelShare) -> int:
        """Replicas of the model that are Ready and that nobody has taken in this plan."""
        return sum(pod.phase == "ready" for target in model.targets for pod in self.candidates(target))

    def candidates(self, target: TargetFacts) -> list[PodView]:
        """Pods of the target that could still go, first victim first."""
        gone = {pod.uid for pod in self.taken.get(target.key, ())}
        return (
            [pod for pod in reversed(target.staying_pods) if pod.uid not in gone]
            if gone
            else list(reversed(target.staying_pods))
        )

    def first_out(self, target: TargetFacts) -> Iterator[PodView]:
        """Pods of the target that can be the next to go: all of the first class, of which deletion costs choose."""
        pods = self.candidates(target)
        return takewhile(lambda pod: out_class(pod) == out_class(pods[0]), pods)

    def home(self, target: TargetFacts, pod: PodView) -> str | None:
        """The node whose room the pod holds (a pending pod: where it was seated)."""
        return pod.node or self.homes.get(target.key, {}).get(pod.uid)

    def take(self, victim: Victim) -> None:
        """Takes a replica: its room counts as free once it has gone."""
        target = victim.target
        self.taken.setdefault(target.key, []).append(victim.pod)
        self.gone[target.model] += 1
        self.caps.give(target)
        self.judged.pop(target.model, None)
        if target.pool in self.capacity:
            self.capacity[target.pool] += target.gpus
        if target.pool in self.owed:
            self.owed[target.pool] -= target.certain_gpus
            self.owed_held[target.pool] -= target.certain_gpus if victim.pod.node is not None else 0
        node = self.home(target, victim.pod)
        if node is None:
            self.unseated[target.model] -= 1
        if node is not None and node in self.rooms.get(target.pool, {}):
            self._use(target.pool, node, -target.gpus if victim.pod.node is None else 0, -target.gpus)
        self.tally.book(Release(self.scene, self.tally, target, victim.purpose, victim.pod))


def _free(room: NodeRoom, *, now: bool) -> int:
    return min(room.now, room.soon) if now else room.soon


def _eligible(landing: PodPlacement, nodes: tuple[NodeView, ...]) -> tuple[str, ...]:
    return tuple(sorted(node.name for node in nodes if may_land(landing, node)))


def may_land(landing: PodPlacement, node: NodeView) -> bool:
    """Whether such pods may be scheduled on the node (selector and tolerations)."""
    if any(node.labels.get(key) != value for key, value in landing.selector):
        return False
    return all(_tolerated(taint, landing.tolerations) for taint in node.taints)


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return taint.effect == "PreferNoSchedule" or any(one.tolerates(taint) for one in tolerations)
