"""Moves of replicas, past the guards: releases first, then grants, each either made or refused with its numbers.

A replica is granted now only into GPUs that are free now; one whose GPUs are still going waits for a later cycle, which
sees them free and grants then. The shift's id ties the two together.
"""

from collections import Counter
from dataclasses import dataclass, field

from rebalancer.domain.plan import Refusal
from rebalancer.domain.snapshot import PodView
from rebalancer.domain.victims import out_class
from rebalancer.domain.words import listed
from rebalancer.planning.actions.node_plan import NodePlan
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.allocation.astray import WaitingPod, held_up
from rebalancer.planning.allocation.lending import CALLED_HOME, held_back
from rebalancer.planning.allocation.out_order import OutOrder
from rebalancer.planning.allocation.unit import Unit, Victim
from rebalancer.planning.facts.landing import by_a_guess
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.guards.guards import budget, judge
from rebalancer.planning.guards.release import Purpose, Release, Tally
from rebalancer.planning.shares.quotas import QuotaRoom
from rebalancer.planning.shares.share import ModelShare

Key = tuple[str, str]


@dataclass(slots=True)
class Going:
    """Replicas that go from one target.

    pods: the pods that go, first to last.
    purposes: why each of `pods` goes, in the same order.
    counted: how many of `pods` use up which guard's window (`step`, `shift`, or `exempt` for none).
    shift: id of the shift they belong to, None where they go for nobody.
    recipients: ids of the models that get their GPUs.
    ended: doomed pods whose replacement stands; no guard's window and no replica count has them any more.
    """

    pods: list[PodView] = field(default_factory=list)
    purposes: list[Purpose] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    shift: str | None = None
    recipients: list[str] = field(default_factory=list)
    ended: list[PodView] = field(default_factory=list)

    @property
    def counts(self) -> str:
        """The guard whose window they use up, the stricter one of two: `step`, `shift`, or `exempt` for none."""
        return next((guard for guard in ("step", "shift") if self.counted[guard]), "exempt")


@dataclass(slots=True)
class Coming:
    """Replicas granted now to one target.

    nodes: names of the nodes on whose free GPUs they are granted.
    replicas: how many replicas are granted.
    grant: id of the node grant by which some of them are granted, None where all of them have free GPUs.
    node_pool: name of the NodePool of that grant, None without one.
    on_new_nodes: how many of `replicas` are granted by it.
    beside: doomed pods that some of them replace, each with the name of its pool.
    makes_room: models for which it gives replicas elsewhere by them, each with the name of the pool.
    """

    nodes: list[str] = field(default_factory=list)
    replicas: int = 0
    grant: str | None = None
    node_pool: str | None = None
    on_new_nodes: int = 0
    beside: list[tuple[str, PodView]] = field(default_factory=list)
    makes_room: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Moves:
    """Which moves passed the guards, which did not, and which wait for GPUs; a target is keyed by (model id, pool).

    tally: what guards' windows have after these moves.
    quotas: replicas that the cluster lets in now, those granted so far counted; what goes is there until it has gone.
    promised: GPUs promised after these moves, by pool.
    going: replicas that go, by target.
    coming: replicas that come, by target.
    waiting: for each replica that waits a clause that says for what, by model id.
    blocked: refusals that keep a model from its replicas, by the id of that model.
    refusals: all refusals, in the order in which they were made.
    spared: replicas that allocation had taken and that stay after all, by model id; as many others sought for the model
        are not needed.
    stay: the highest class of the spared pods on nodes, by target: no pod of a lower class may go, since its controller
        would end the spared ones first.
    left: replicas that do not go, by target whose replicas are numbered, once somebody asked for them.
    """

    tally: Tally
    quotas: QuotaRoom
    promised: dict[str, int]
    going: dict[Key, Going] = field(default_factory=dict)
    coming: dict[Key, Coming] = field(default_factory=dict)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    blocked: dict[str, list[Refusal]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    spared: Counter[str] = field(default_factory=Counter)
    stay: dict[Key, int] = field(default_factory=dict)
    left: dict[Key, OutOrder] = field(default_factory=dict)

    @property
    def releasing(self) -> set[str]:
        """Names of the pools in which a model releases for another."""
        return {pool for (_, pool), going in self.going.items() if going.recipients}

    def refuse(self, refusal: Refusal, recipient: str | None) -> None:
        """Note a refusal, and that it blocks a unit of `recipient`; None: nobody's."""
        self.refusals.append(refusal)
        if recipient is not None:
            self.blocked.setdefault(recipient, []).append(refusal)

    def keep(self, *victims: Victim) -> None:
        """Note that these replicas do not go after all."""
        for victim in victims:
            self.spared[victim.target.model] += 1
            if victim.pod.node is not None:  # one without goes instead of others at no loss
                self.stay[victim.target.key] = max(out_class(victim.pod), self.stay.get(victim.target.key, 0))

    def left_of(self, target: TargetFacts) -> OutOrder:
        """The numbered replicas of the target that do not go, the highest number first."""
        left = self.left.get(target.key)
        if left is None:
            left = self.left[target.key] = OutOrder(target, marked=False)
        return left

    def wait(self, model: str, why: str) -> None:
        """Note that one replica of `model` waits, and for what."""
        self.waiting.setdefault(model, []).append(why)


def judge_moves(scene: Scene[ModelShare], allocation: Allocation, nodes: NodePlan, tally: Tally) -> Moves:
    """Pass every move by the guards, in the order of the claims they serve. `tally`: before anything is taken."""
    moves = Moves(tally.copy(), QuotaRoom(scene), {name: state.promised for name, state in scene.pools.items()})
    withdrawing = {target.key for _, target, count, _ in nodes.withdrawn if count > 0}
    for victim in allocation.releases:
        release(scene, moves, victim, None)
    called_home = held_back(scene, allocation.units)
    made: set[int] = set()  # units whose victims go
    for index, unit in enumerate(allocation.units):
        if moves.spared[unit.target.model] > 0:
            moves.spared[unit.target.model] -= 1
            moves.keep(*unit.victims)
        elif index in called_home:
            moves.wait(unit.target.model, CALLED_HOME)
            moves.keep(*unit.victims)
        elif unit.victims:
            made |= {index} if _shift(scene, moves, unit) else set()
        elif unit.target.settle > 0 or unit.target.key in withdrawing:
            moves.wait(unit.target.model, "replicas of its own that are on their way out")
        else:
            _raise(scene, moves, unit, held_up(allocation.astray, index, made))
    for unit, grant, node_pool in nodes.units:
        if unit.target.settle > 0 or moves.spared[unit.target.model] > 0:
            continue
        coming = moves.coming.setdefault(unit.target.key, Coming())
        coming.replicas += 1
        coming.on_new_nodes += 1
        coming.grant, coming.node_pool = grant, node_pool
        moves.promised[unit.target.pool] += unit.target.gpus
    return moves


def _raise(scene: Scene[ModelShare], moves: Moves, unit: Unit, robbed: WaitingPod | None) -> None:
    """Grants one more replica if its GPUs are free and may be promised now; else it waits. `robbed`: for whom first."""
    target = unit.target
    if unit.source != "free":
        moves.wait(target.model, f"GPUs on {listed(unit.places)} that are not free yet")
        return
    if robbed is not None:
        moves.wait(target.model, robbed.why)
        return
    first = target.desired_replicas == 0 and target.key not in moves.coming
    rooms = scene.pools[target.pool].rooms
    if not first and by_a_guess(target, [rooms[name].node for name in unit.places if name in rooms]):
        moves.wait(target.model, "its first pod, which shows whether it tolerates the taints there")
        return
    over = budget(scene.pools[target.pool], moves.promised[target.pool], target.gpus)
    if over is not None:
        moves.wait(target.model, over)
        return
    if moves.quotas.room(target) <= 0:
        moves.wait(target.model, f"room in a quota: {moves.quotas.words(target)}")
        return
    moves.quotas.take(target)
    moves.promised[target.pool] += target.gpus
    coming = moves.coming.setdefault(target.key, Coming())
    coming.replicas += 1
    coming.nodes.extend(unit.nodes)
    if unit.makes_room is not None:
        coming.makes_room.append(unit.makes_room)


def release(scene: Scene[ModelShare], moves: Moves, victim: Victim, recipient: str | None) -> bool:
    """Lets a replica go for `recipient` (None: for nobody), or notes the guard's refusal; whether it goes."""
    one = _released(scene, moves.tally, victim)
    if not _is_next(moves, victim, (victim,)):
        moves.keep(victim)
        return False
    refusal = judge(one)
    if refusal is not None:
        moves.refuse(refusal, recipient)
        moves.keep(victim)
        return False
    _enter(moves, one, victim, recipient, scene)
    moves.tally.book(one)
    return True


def _released(scene: Scene[ModelShare], tally: Tally, victim: Victim) -> Release:
    return Release(scene, tally, victim.target, victim.purpose, victim.pod, victim.together, victim.for_floor)


def _is_next(moves: Moves, victim: Victim, together: tuple[Victim, ...]) -> bool:
    """Whether a numbered replica goes by a decrease: once all above it go, in this plan so far or `together` with it.

    Those may have been taken for somebody whose turn comes later, or been spared by a guard.
    """
    if not victim.target.numbered:
        return True
    gone = {each.pod.uid for each in together}
    highest = next((pod for pod in moves.left_of(victim.target) if pod.uid not in gone), None)
    return highest is None or out_class(highest) <= out_class(victim.pod)


def _enter(moves: Moves, one: Release, victim: Victim, recipient: str | None, scene: Scene[ModelShare]) -> None:
    going = moves.going.get(victim.target.key)
    if going is None:
        going = moves.going[victim.target.key] = Going()
    going.pods.append(victim.pod)
    if victim.target.numbered:
        moves.left_of(victim.target).take(victim.pod)
    going.purposes.append(victim.purpose)
    going.counted[one.counts] += 1
    if recipient is not None:
        going.shift = going.shift or f"s{scene.snapshot.cycle}-{recipient}-{victim.target.pool}"
        if recipient not in going.recipients:
            going.recipients.append(recipient)


def _shift(scene: Scene[ModelShare], moves: Moves, unit: Unit) -> bool:
    """Lets all victims of a unit go, or none of them: half a shift frees GPUs for nobody. Whether they go."""
    recipient = unit.target.model
    trial = moves.tally.copy()
    for victim in unit.victims:
        one = _released(scene, trial, victim)
        refusal = judge(one)
        if refusal is not None:
            moves.refuse(refusal, recipient)
        elif out_class(victim.pod) < moves.stay.get(victim.target.key, 0) or not _is_next(moves, victim, unit.victims):
            before = "with higher numbers" if victim.target.numbered else "that still load"
            moves.wait(recipient, f"replicas of {victim.target.model} {before}")
        else:
            trial.book(one)
            continue
        moves.keep(*unit.victims)
        return False
    for victim in unit.victims:
        release(scene, moves, victim, recipient)
    donors = ", ".join(sorted({victim.target.model for victim in unit.victims}))
    moves.wait(recipient, f"GPUs of {donors} on {listed(unit.places)}")
    return True
