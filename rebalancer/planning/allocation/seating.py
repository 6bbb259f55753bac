"""The working copy of everything free while units are placed: rooms on nodes, capacity of pools, replicas taken."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from rebalancer.domain.plan import Refusal
from rebalancer.domain.snapshot import PodView
from rebalancer.planning.allocation.fits import Fits
from rebalancer.planning.allocation.out_order import OutOrder
from rebalancer.planning.allocation.roles import Roles
from rebalancer.planning.allocation.unit import Victim
from rebalancer.planning.facts.landing import crowded, domains, eligible, silent_nodes
from rebalancer.planning.facts.scene import ROLLOUT, NodeRoom, PodPlacement, Scene, TargetFacts
from rebalancer.planning.guards.release import Purpose, Release, Tally
from rebalancer.planning.shares.caps import Caps
from rebalancer.planning.shares.quotas import QuotaRoom
from rebalancer.planning.shares.share import ModelShare


@dataclass(slots=True)
class Seating:
    """Working copy of everything free while units are placed; rooms are copies, so the scene stays as it is.

    A replica that waits for a GPU is the first of its model to go, and others release for it only where their room is
    of use to it.

    scene: the scene, which is only read.
    tally: what guards' windows have after the replicas taken so far.
    rooms: free GPUs by pool and node, now and once all that goes has gone.
    capacity: GPUs by pool that may still be promised.
    excess: GPUs by pool that must be released: what its replicas have or ask for beyond the GPUs there are for certain.
    excess_held: the part of `excess` that replicas on nodes hold.
    caps: room left on elastic pools by models' and teams' limits.
    roles: how far the roles of couples may move, and what is `gone` and `gained` by model.
    quotas: replicas that the cluster would still let in; what was taken in this plan counts as gone.
    taken: pods taken so far, by target.
    orders: the others of those targets that were asked for one, first victim first, by target.
    unseated: replicas without a node that fit on none, by model id.
    seated: replicas seated so far, by target.
    seats: nodes on which they were seated, by target.
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
    homes: nodes on which pods without a node were seated, by target and replica's UID.
    awaiting: those of these pods whose GPUs there others still hold, each with its target.
    silent: names of nodes that are there and are not Ready: nobody knows whether what loads there ever serves.
    """

    scene: Scene[ModelShare]
    tally: Tally
    rooms: dict[str, dict[str, NodeRoom]]
    capacity: dict[str, int]
    excess: dict[str, int]
    excess_held: dict[str, int]
    caps: Caps
    roles: Roles
    quotas: QuotaRoom
    taken: dict[tuple[str, str], list[PodView]] = field(default_factory=dict)
    orders: dict[tuple[str, str], OutOrder] = field(default_factory=dict)
    unseated: Counter[str] = field(default_factory=Counter)
    seated: Counter[tuple[str, str]] = field(default_factory=Counter)
    reseating: bool = False
    reseated: Counter[str] = field(default_factory=Counter)
    confined: Counter[str] = field(default_factory=Counter)
    judged: dict[str, dict[tuple[str, Purpose], Refusal | None]] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set)
    askable: dict[tuple[str, str, Hashable], list[ModelShare]] = field(default_factory=dict)
    awaiting: set[tuple[tuple[str, str], str]] = field(default_factory=set)
    _eligible: dict[PodPlacement, frozenset[str]] = field(default_factory=dict)
    _fits: dict[tuple[PodPlacement, bool], Fits] = field(default_factory=dict)
    _fits_of: dict[str, list[tuple[bool, Fits]]] = field(default_factory=dict)
    _spare: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    homes: dict[tuple[str, str], dict[str, tuple[str, ...]]] = field(default_factory=dict)
    seats: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()

    @property
    def gone(self) -> Counter[str]:
        """Replicas taken so far, by model id."""
        return self.roles.gone

    @property
    def gained(self) -> Counter[str]:
        """Replicas granted so far, by model id; such a model gives none."""
        return self.roles.gained

    @classmethod
    def of(cls, scene: Scene[ModelShare], tally: Tally) -> "Seating":
        """The seating before the first unit; pods without a node are placed as the scheduler would place them."""
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
        capacity = {name: 0 if one.budget is None else one.budget - held[name] for name, one in scene.pools.items()}
        known = {name: state.most for name, state in scene.pools.items() if state.budget is not None}
        excess = {name: obliging[name] - most for name, most in known.items()}
        excess_held = {name: placed[name] - most for name, most in known.items()}
        roles = Roles.of(scene)
        seating = cls(scene, tally, rooms, capacity, excess, excess_held, Caps(scene), roles, QuotaRoom(scene))
        seating.silent = silent_nodes(state.view for state in scene.pools.values())
        for target in unplaced:
            seating._seat_unplaced(target)
        return seating

    def _seat_unplaced(self, target: TargetFacts) -> None:
        """Pods without a node and raises not yet seen take room now, best fit.

        Where one found no place, the next one like it finds none either: of 50,000 that somebody typed one looks.
        """
        full = False  # no place for a replica of which no pod has one
        for pod in target.unplaced:
            if full and not pod.nodes:
                self.unseated[target.model] += 1
                continue
            at_once = self.fit(target, frozenset(), now=True, pod=pod)
            nodes = at_once or self.fit(target, frozenset(), now=False, pod=pod)
            if not nodes:
                self.unseated[target.model] += 1
                full = full or not pod.nodes
                continue
            if not at_once:
                self.awaiting.add((target.key, pod.uid))
            for node in nodes:
                self._use(target.pool, node, target.pod_gpus, target.pod_gpus)
            self.homes.setdefault(target.key, {})[pod.uid] = nodes

    def eligible(self, target: TargetFacts) -> frozenset[str]:
        """Nodes of the target's pool that its pods may land on by themselves; found once per kind of pod."""
        names = self._eligible.get(target.placement)
        if names is None:
            nodes = tuple(room.node for room in self.rooms.get(target.pool, {}).values())
            names = self._eligible[target.placement] = self.scene.memo.of(
                target.placement, eligible, target.placement, nodes
            )
        return names

    def crowded(
        self, target: TargetFacts, *, now: bool, beside: Sequence[str] = (), replica: str = ""
    ) -> frozenset[str]:
        """Nodes on which one more pod of the target would stand too near to its own kind.

        `now`: with the pods that are on their way out, which the scheduler counts until they have gone. `beside`: nodes
        that other pods of the same replica have or are to have. `replica`: its UID where some of its pods are there.
        """
        state = self.scene.pools.get(target.pool)
        if state is None or not target.view.placement.by_own_pods:
            return frozenset()
        gone = {pod.uid for pod in self.taken.get(target.key, ())}
        others = Counter(self.seats.get(target.key, ()))
        for pod in target.view.pods:
            if pod.uid != replica and (now or (pod.uid not in gone and pod.phase != "terminating")):
                others.update(pod.nodes)
        for nodes in self.homes.get(target.key, {}).values():
            others.update(nodes)
        return crowded(target, state.view.nodes, others, beside)

    def outside(self, target: TargetFacts) -> list[frozenset[str]]:
        """For each domain that may have a whole replica, least room first, the eligible nodes that are not in it.

        One empty set where the pods of a replica may stand in any domain.
        """
        topology, rooms = target.view.placement.alone, self.rooms.get(target.pool, {})
        if not topology:
            return [frozenset()]
        inside = domains(topology, [rooms[name].node for name in self.eligible(target)]).values()
        by_room = sorted(inside, key=lambda names: (sum(rooms[name].soon for name in names), min(names)))
        return [self.eligible(target) - names for names in by_room]

    def fit(
        self, target: TargetFacts, excluded: frozenset[str], *, now: bool, pod: PodView | None = None
    ) -> tuple[str, ...]:
        """Best-fitting eligible nodes with room for all pods of one replica; () where there are none.

        Each pod of a replica is placed by itself, as the scheduler does it: nothing but its template binds them to one
        node or to one domain. `pod`: a replica some of whose pods may have a node; then places of the others.
        """
        for outside in self.outside(target):
            nodes = self._fit(target, excluded | outside, now=now, pod=pod)
            if nodes:
                return nodes
        return ()

    def _fit(self, target: TargetFacts, excluded: frozenset[str], *, now: bool, pod: PodView | None) -> tuple[str, ...]:
        fits = self._fits.get((target.placement, now))
        if fits is None:
            fits = Fits({name: _free(self.rooms[target.pool][name], now=now) for name in self.eligible(target)})
            self._fits[target.placement, now] = fits
            self._fits_of.setdefault(target.pool, []).append((now, fits))
        if target.pods == 1:
            node = fits.best(target.gpus, excluded | self.crowded(target, now=now))
            return () if node is None else (node,)
        uid, there = ("", ()) if pod is None else (pod.uid, pod.nodes)
        nodes: list[str] = []
        for _ in range(target.pods - len(there)):
            shut = self.crowded(target, now=now, beside=[*there, *nodes], replica=uid)
            node = fits.best(target.pod_gpus, excluded | shut)
            if node is None:
                break
            self._use(target.pool, node, target.pod_gpus, target.pod_gpus)
            nodes.append(node)
        for node in nodes:  # until the replica is seated there
            self._use(target.pool, node, -target.pod_gpus, -target.pod_gpus)
        return tuple(nodes) if len(nodes) == target.pods - len(there) else ()

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
        nodes = self._spare.get(pool)
        if nodes is None:
            free = ((name, room.soon) for name, room in self.rooms[pool].items() if room.soon > 0)
            nodes = self._spare[pool] = list(islice(free, most))
        return nodes

    def kind(self, target: TargetFacts, excluded: frozenset[str]) -> object:
        """The kind of a target's pods, as far as it decides where they fit: of one kind all fit or none."""
        alone = target.view.placement.alone
        return (target.placement, target.gpus, target.pods, alone, excluded | self.crowded(target, now=False))

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
            and self.roles.borne(model.entry.id, 1)
        )

    def headroom(self, target: TargetFacts) -> int:
        """GPUs that may be promised for one more replica; a replica that waits for a node has its promise already."""
        return max(self.capacity[target.pool], target.gpus if self._reseats(target) else 0)

    def promisable(self, target: TargetFacts) -> int:
        """The same for one for which others go: pods of rollouts come first, those that wait not before a floor."""
        model, state = self.scene.models[target.model], self.scene.pools[target.pool]
        below = self.left_of(model) + self.gained.get(target.model, 0) < model.floor
        surging = 0 if self._reseats(target) else state.surging_beside(None if below else target.gpus)
        return self.headroom(target) - surging

    def let_in(self, target: TargetFacts) -> bool:
        """Whether quotas let one more replica in; one of the target's own that waits for a node is in already."""
        return self.quotas.room(target) > 0 or (self._reseats(target) and self.waits(target))

    def _reseats(self, target: TargetFacts) -> bool:
        """Whether a place is sought for a replica that was asked for and fits on no node."""
        return self.reseating and self.unseated.get(target.model, 0) > self.reseated[target.model]

    def homeless(self, target: TargetFacts) -> int:
        """Replicas of the target that fit on no node, and that nobody has taken in this plan: they are no loss."""
        return self.candidates(target).count("homeless", lambda pod: not self.home(target, pod))

    def waits(self, target: TargetFacts) -> bool:
        """Whether a replica that the target has asked for fits on no node, and no place was found for it yet."""
        return self.homeless(target) > self.seated[target.key]

    def seat(self, target: TargetFacts, nodes: tuple[str, ...]) -> None:
        """Put one replica of `target` on `nodes`, one for each of its pods."""
        for node in nodes:
            self._use(target.pool, node, target.pod_gpus, target.pod_gpus)
        if self._reseats(target):
            self.reseated[target.model] += 1
        else:
            self.capacity[target.pool] -= target.gpus
            self.quotas.take(target)
        self.seated[target.key] += 1
        self.seats.setdefault(target.key, []).extend(nodes)
        self.caps.take(target)

    def left(self, target: TargetFacts) -> int:
        """Replicas of the target that nobody has taken in this plan."""
        return target.staying_replicas - len(self.taken.get(target.key, ()))

    def givable(self, target: TargetFacts) -> int:
        """Replicas that the target could still give.

        Of numbered ones those above every doomed one: asked for fewer its controller would end the doomed one first,
        and whoever waits for the other's GPUs would wait in vain. Where pods are not marked and a decrease is under
        way, nobody knows whether it ends a doomed one: none more is given before that is seen.
        """
        if self._unclear(target):
            return 0
        left = self.roles.parting(target.model, self.left(target) - target.least)
        if not (target.doomed and target.numbered):
            return left
        doomed = max(pod.ordinal or 0 for pod in target.doomed)
        return min(left, self.candidates(target).count("above doomed", lambda pod: (pod.ordinal or 0) > doomed))

    def _unclear(self, target: TargetFacts) -> bool:
        """Whether a decrease is under way of which nobody knows whether it ends doomed replicas or others."""
        doomed = target.doomed or any(pod.on(self.scene.doomed) for pod in target.leaving_pods)
        return bool(target.leaving_pods and doomed) and not self.candidates(target).predictable

    def left_of(self, model: ModelShare) -> int:
        """Replicas of the model that nobody has taken in this plan."""
        return model.staying_replicas - self.gone.get(model.entry.id, 0)

    def placed_of(self, model: ModelShare) -> int:
        """Replicas of the model that nobody has taken and that are on a node, or will fit on one."""
        return self.left_of(model) - self.unseated.get(model.entry.id, 0)

    def sure_of(self, model: ModelShare) -> int:
        """The model's placed replicas that serve, or surely will.

        Not what is on a node that is silent and may never answer; nor what loads in a rollout, whose new pods may never
        become Ready; nor what waits until others have gone: whose pods were all made anew, as after a rollout that
        hung, serves with those that it has left for a start and more.
        """
        return self.placed_of(model) - sum(
            self.candidates(target).count("unsure", partial(self.unsure, target))
            for target in model.targets
            if target.stuck == ROLLOUT or target.unplaced or self.silent
        )

    def unsure(self, target: TargetFacts, pod: PodView) -> bool:
        """Whether nobody knows when, or whether ever, the replica serves."""
        return pod.phase != "ready" and (
            (target.key, pod.uid) in self.awaiting
            or (target.stuck == ROLLOUT and bool(self.home(target, pod)))
            or (bool(self.silent) and pod.on(self.silent))
        )

    def ready_of(self, model: ModelShare) -> int:
        """Replicas of the model that are Ready and that nobody has taken in this plan."""
        return sum(self.candidates(target).count("ready", lambda pod: pod.phase == "ready") for target in model.targets)

    def candidates(self, target: TargetFacts) -> OutOrder:
        """Pods of the target that could still go, first victim first."""
        if target.key not in self.orders:
            self.orders[target.key] = OutOrder(target, marked=self.scene.snapshot.marks_victims)
        return self.orders[target.key]

    def home(self, target: TargetFacts, pod: PodView) -> tuple[str, ...]:
        """The node whose room each pod of the replica holds (a pending one: where it was seated); () before all do."""
        if pod.node is not None:
            return pod.nodes
        seated = self.homes.get(target.key, {}).get(pod.uid)
        return () if seated is None else (*pod.nodes, *seated)

    def take(self, victim: Victim) -> None:
        """Takes a replica: its room counts as free once it has gone."""
        target = victim.target
        self.taken.setdefault(target.key, []).append(victim.pod)
        self.candidates(target).take(victim.pod)
        self.gone[target.model] += 1
        self.caps.give(target)
        self.quotas.give(target)
        self.judged.pop(target.model, None)
        if target.pool in self.capacity:
            self.capacity[target.pool] += target.gpus
        if target.pool in self.excess:
            self.excess[target.pool] -= target.certain_gpus
            self.excess_held[target.pool] -= target.certain_gpus if victim.pod.node is not None else 0
        if not self.home(target, victim.pod):
            self.unseated[target.model] -= 1
        rooms = self.rooms.get(target.pool, {})
        for node in victim.pod.nodes:
            if node in rooms:
                self._use(target.pool, node, 0, -target.pod_gpus)
        for node in self.homes.get(target.key, {}).get(victim.pod.uid, ()):
            if node in rooms:
                self._use(target.pool, node, -target.pod_gpus, -target.pod_gpus)
        self.tally.book(Release(self.scene, self.tally, target, victim.purpose, victim.pod))


def _free(room: NodeRoom, *, now: bool) -> int:
    return min(room.now, room.soon) if now else room.soon
