"""Stages 6 and 8: allocation and node grants pass the guards, or become refusals - releases before grants.

A replica is granted now only into GPUs that are free now; one whose GPUs are still going waits for a later cycle,
which sees them free and grants then. The shift's id ties the two together.
"""

from collections import Counter
from dataclasses import dataclass, field

from rebalancer.domain.plan import Refusal
from rebalancer.domain.snapshot import NoticeView, PodView
from rebalancer.planning.allocation import Allocation
from rebalancer.planning.guards import Purpose, Release, Tally, judge
from rebalancer.planning.ledger import Unit, Victim
from rebalancer.planning.nodes import NodePlan
from rebalancer.planning.scene import Holder, Part, Scene

Key = tuple[str, str]


@dataclass(slots=True)
class Going:
    """Replicas that go from one part: pods first to last, and for whom."""

    pods: list[PodView] = field(default_factory=list)
    purposes: list[Purpose] = field(default_factory=list)
    counts: str = "exempt"
    shift: str | None = None
    recipients: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Coming:
    """Replicas granted now to one part. `grant`, `node_pool`: the node grant among them."""

    nodes: list[str] = field(default_factory=list)
    replicas: int = 0
    grant: str | None = None
    node_pool: str | None = None
    tiers: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Moves:
    """What passed the guards per part, what did not, and what waits for GPUs (model -> why)."""

    going: dict[Key, Going] = field(default_factory=dict)
    coming: dict[Key, Coming] = field(default_factory=dict)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    blocked: dict[str, list[Refusal]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)

    def refuse(self, refusal: Refusal, recipient: str | None) -> None:
        """Keep a refusal, and that it blocks `recipient`'s unit."""
        self.refusals.append(refusal)
        if recipient is not None:
            self.blocked.setdefault(recipient, []).append(refusal)


def judge_moves(scene: Scene, found: Allocation, nodes: NodePlan) -> Moves:
    """Pass every move by the guards, in the order of the claims they serve."""
    moves = Moves()
    tally = Tally.of(scene)
    headroom = {name: (state.budget or 0) - state.promised for name, state in scene.pools.items()}
    for victim in found.releases:
        _release(scene, tally, moves, victim, None)
    for unit in found.units:
        if unit.victims:
            _shift(scene, tally, moves, unit)
        elif unit.source == "free" and headroom[unit.part.pool] >= unit.part.gpus and unit.part.settle == 0:
            headroom[unit.part.pool] -= unit.part.gpus
            coming = moves.coming.setdefault(unit.part.key, Coming())
            coming.replicas += 1
            coming.nodes.append(unit.node or "")
            coming.tiers.append(unit.tier)
        else:
            where = f"GPUs on {unit.node} are not free yet" if unit.source == "soon" else "replicas on their way out"
            moves.waiting.setdefault(unit.part.model, []).append(where)
    for unit, grant, node_pool in nodes.units:
        if unit.part.settle == 0:
            coming = moves.coming.setdefault(unit.part.key, Coming())
            coming.replicas += 1
            coming.grant, coming.node_pool = grant, node_pool
            coming.tiers.append("node")
    _drains(scene, tally, moves)
    return moves


def _release(scene: Scene, tally: Tally, moves: Moves, victim: Victim, recipient: str | None) -> bool:
    release = Release(scene, tally, scene.holders[victim.part.model], victim.purpose)
    refusal = judge(release)
    if refusal is not None:
        moves.refuse(refusal, recipient)
        return False
    _enter(moves, release, victim, recipient, scene)
    tally.book(release)
    return True


def _enter(moves: Moves, release: Release, victim: Victim, recipient: str | None, scene: Scene) -> None:
    going = moves.going.setdefault(victim.part.key, Going())
    going.pods.append(victim.pod)
    going.purposes.append(victim.purpose)
    if release.counts != "exempt":
        going.counts = release.counts
    if recipient is not None:
        going.shift = going.shift or f"s{scene.snapshot.cycle}-{recipient}-{victim.part.pool}"
        if recipient not in going.recipients:
            going.recipients.append(recipient)


def _shift(scene: Scene, tally: Tally, moves: Moves, unit: Unit) -> None:
    """All victims of a unit pass, or none goes: half a shift frees GPUs for nobody."""
    recipient = unit.part.model
    trial = Tally(
        tally.fleet_lost,
        tally.fleet_base,
        *(Counter(each) for each in (tally.taken, tally.drained, tally.step, tally.shift)),
    )
    releases = []
    for victim in unit.victims:
        release = Release(scene, trial, scene.holders[victim.part.model], victim.purpose)
        refusal = judge(release)
        if refusal is not None:
            moves.refuse(refusal, recipient)
            return
        trial.book(release)
        releases.append(victim)
    for victim in releases:
        _release(scene, tally, moves, victim, recipient)
    donors = ", ".join(sorted({victim.part.model for victim in unit.victims}))
    moves.waiting.setdefault(recipient, []).append(f"GPUs of {donors} on {unit.node}")


def _drains(scene: Scene, tally: Tally, moves: Moves) -> None:
    """Doomed replicas that nobody replaces in their place go when Karpenter drains them, or before the node does."""
    notices = {notice.node: notice for notice in scene.snapshot.notices}
    for holder in scene.holders.values():
        for part in holder.parts:
            if part.stuck is not None or part.unreplaced == 0:
                continue
            replaced_now = moves.coming[part.key].replicas if part.key in moves.coming else 0
            alone = unreplaced_pods(part, holder)[replaced_now:]
            for pod in alone[: max(0, part.asked - part.least)]:
                if _leaves(notices[pod.node or ""], part, scene.now):
                    _release(scene, tally, moves, Victim(part, pod, Purpose.DRAIN), None)


def unreplaced_pods(part: Part, holder: Holder) -> list[PodView]:
    """Doomed pods without a replacement asked beside them, in a stable order."""
    replaced = set(holder.memory.replaced)
    return sorted((pod for pod in part.doomed if f"{part.pool}/{pod.uid}" not in replaced), key=lambda pod: pod.uid)


def _leaves(notice: NoticeView, part: Part, now: float) -> bool:
    """Whether a doomed pod without replacement is to be released now. Karpenter moves voluntary ones by itself."""
    if notice.voluntary:
        return False
    return notice.karpenter or now >= notice.deadline - part.target.grace_seconds
