"""Stages 6 and 8: allocation and node grants pass the guards, or become refusals - releases before grants.

A replica is granted now only into GPUs that are free now; one whose GPUs are still going waits for a later cycle,
which sees them free and grants then. The shift's id ties the two together.
"""

from collections import Counter
from dataclasses import dataclass, field

from rebalancer.domain.plan import Refusal
from rebalancer.domain.replica_set import out_class
from rebalancer.domain.snapshot import PodView
from rebalancer.planning.actions.node_grants import NodePlan
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.allocation.ledger import Unit, Victim
from rebalancer.planning.allocation.lending import CALLED_HOME, held_back
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.guards.guards import budget, judge
from rebalancer.planning.guards.release import Purpose, Release, Tally

Key = tuple[str, str]


@dataclass(slots=True)
class Going:
    """Replicas that go from one part: pods first to last, and for whom.

    counted: how many of them use up which guard's window. ended: doomed pods whose replacement stands; no count has
    them any more.
    """

    pods: list[PodView] = field(default_factory=list)
    purposes: list[Purpose] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    shift: str | None = None
    recipients: list[str] = field(default_factory=list)
    ended: list[PodView] = field(default_factory=list)

    @property
    def counts(self) -> str:
        """The window they use up; the stricter one where there are two."""
        return next((guard for guard in ("step", "shift") if self.counted[guard]), "exempt")


@dataclass(slots=True)
class Coming:
    """Replicas granted now to one part.

    grant, node_pool: the node grant among them. beside: the doomed pods, with their pools, that some of them replace.
    """

    nodes: list[str] = field(default_factory=list)
    replicas: int = 0
    grant: str | None = None
    node_pool: str | None = None
    beside: list[tuple[str, PodView]] = field(default_factory=list)


@dataclass(slots=True)
class Moves:
    """What passed the guards per part, what did not, and what waits for GPUs (model -> why).

    tally: what the guards' windows hold after it. promised: GPUs per pool after it. spared: replicas per model that
    allocation had taken and a guard keeps: what it then sought for the model elsewhere is not needed. stay: the class
    of those kept that a ReplicaSet would end before others of their part.
    """

    tally: Tally
    promised: dict[str, int]
    going: dict[Key, Going] = field(default_factory=dict)
    coming: dict[Key, Coming] = field(default_factory=dict)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    blocked: dict[str, list[Refusal]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    spared: Counter[str] = field(default_factory=Counter)
    stay: dict[Key, int] = field(default_factory=dict)

    @property
    def releasing(self) -> set[str]:
        """Pools where somebody releases for somebody."""
        return {pool for (_, pool), going in self.going.items() if going.recipients}

    def refuse(self, refusal: Refusal, recipient: str | None) -> None:
        """Keep a refusal, and that it blocks `recipient`'s unit."""
        self.refusals.append(refusal)
        if recipient is not None:
            self.blocked.setdefault(recipient, []).append(refusal)

    def keep(self, *victims: Victim) -> None:
        """They do not go."""
        for victim in victims:
            self.spared[victim.target.model] += 1
            if victim.pod.node is not None:  # one without goes instead of others at no loss
                self.stay[victim.target.key] = max(out_class(victim.pod), self.stay.get(victim.target.key, 0))

    def wait(self, model: str, why: str) -> None:
        """One replica of `model` waits."""
        self.waiting.setdefault(model, []).append(why)


def judge_moves(scene: Scene, found: Allocation, nodes: NodePlan, tally: Tally) -> Moves:
    """Pass every move by the guards, in the order of the claims they serve. `tally`: nothing taken yet."""
    moves = Moves(tally, {name: state.promised for name, state in scene.pools.items()})
    withdrawing = {target.key for _, target, count, _ in nodes.withdrawn if count > 0}
    for victim in found.releases:
        release(scene, moves, victim, None)
    called_home = held_back(scene, found.units)
    for index, unit in enumerate(found.units):
        if moves.spared[unit.target.model] > 0:
            moves.spared[unit.target.model] -= 1
            moves.keep(*unit.victims)
        elif index in called_home:
            moves.wait(unit.target.model, CALLED_HOME)
            moves.keep(*unit.victims)
        elif unit.victims:
            _shift(scene, moves, unit)
        elif unit.target.settle > 0 or unit.target.key in withdrawing:
            moves.wait(unit.target.model, "replicas of its own that are on their way out")
        else:
            _raise(scene, moves, unit)
    for unit, grant, node_pool in nodes.units:
        if unit.target.settle > 0 or moves.spared[unit.target.model] > 0:
            continue
        coming = moves.coming.setdefault(unit.target.key, Coming())
        coming.replicas += 1
        coming.grant, coming.node_pool = grant, node_pool
        moves.promised[unit.target.pool] += unit.target.gpus
    return moves


def _raise(scene: Scene, moves: Moves, unit: Unit) -> None:
    """One more replica into GPUs that are free and may be promised now, else it waits."""
    target = unit.target
    if unit.source != "free":
        moves.wait(target.model, f"GPUs on {unit.node} that are not free yet")
        return
    over = budget(scene.pools[target.pool], moves.promised[target.pool], target.gpus)
    if over is not None:
        moves.wait(target.model, over)
        return
    moves.promised[target.pool] += target.gpus
    coming = moves.coming.setdefault(target.key, Coming())
    coming.replicas += 1
    coming.nodes.append(unit.node or "")


def release(scene: Scene, moves: Moves, victim: Victim, recipient: str | None) -> None:
    """It goes for `recipient` (None: for nobody), or a guard says why it does not."""
    one = Release(scene, moves.tally, victim.target, victim.purpose, victim.pod, victim.together)
    refusal = judge(one)
    if refusal is not None:
        moves.refuse(refusal, recipient)
        moves.keep(victim)
        return
    _enter(moves, one, victim, recipient, scene)
    moves.tally.book(one)


def _enter(moves: Moves, one: Release, victim: Victim, recipient: str | None, scene: Scene) -> None:
    going = moves.going.setdefault(victim.target.key, Going())
    going.pods.append(victim.pod)
    going.purposes.append(victim.purpose)
    going.counted[one.counts] += 1
    if recipient is not None:
        going.shift = going.shift or f"s{scene.snapshot.cycle}-{recipient}-{victim.target.pool}"
        if recipient not in going.recipients:
            going.recipients.append(recipient)


def _shift(scene: Scene, moves: Moves, unit: Unit) -> None:
    """All victims of a unit pass, or none goes: half a shift frees GPUs for nobody."""
    recipient = unit.target.model
    trial = moves.tally.copy()
    for victim in unit.victims:
        one = Release(scene, trial, victim.target, victim.purpose, victim.pod, victim.together)
        refusal = judge(one)
        if refusal is not None:
            moves.refuse(refusal, recipient)
        elif out_class(victim.pod) < moves.stay.get(victim.target.key, 0):
            moves.wait(recipient, f"replicas of {victim.target.model} that still load")
        else:
            trial.book(one)
            continue
        moves.keep(*unit.victims)
        return
    for victim in unit.victims:
        release(scene, moves, victim, recipient)
    donors = ", ".join(sorted({victim.target.model for victim in unit.victims}))
    moves.wait(recipient, f"GPUs of {donors} on {unit.node}")
