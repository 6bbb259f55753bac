"""Nodes that nobody else drains: the node is cordoned, and who does not go by a target's number is evicted in time.

Only in pools whose policy says `drain`, only nodes without a Karpenter NodePool, only replicas of the policy's models.
The ladder of one replica under a notice of 120 s, with a grace of 30 s: at once the node is cordoned and a replacement
asked beside it; until 120 - 30 - 20 = 70 s it serves; then its target's number takes it back where Kubernetes would
end this very pod, else it is evicted, tried again for as long as its disruption budget says no; from 100 s on it is
deleted with the seconds that are left. Its preStop hook runs within its grace, so both have their time unless the
notice was shorter. Of a person's drain and of a fault nothing is due: a replica is evicted once its replacement is
Ready, or, where it is surplus that has none, once as many as are needed are Ready elsewhere; and never deleted against
a budget.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from rebalancer.domain.drain import LAST_SECONDS, cordons, dated, in_last_seconds, is_drained, outlasts, was_there
from rebalancer.domain.plan import DrainChange
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.snapshot import NoticeView, PodView
from rebalancer.planning.actions.moves import Going, Moves
from rebalancer.planning.facts.scene import PoolFacts, Scene, TargetFacts
from rebalancer.planning.guards.guards import budget
from rebalancer.planning.shares.share import ModelShare


def drains(scene: Scene[ModelShare], pool: str, notice: NoticeView) -> bool:
    """Whether the service drains the node of this notice itself; it must be a node of that pool."""
    state = scene.pools.get(pool)
    if state is None or not state.pool.drain or not scene.snapshot.drains_nodes:
        return False
    node = next((each for each in state.view.nodes if each.name == notice.node), None)
    return node is not None and is_drained(state.pool, node, notice, scene.now)


def drain_changes(scene: Scene[ModelShare], moves: Moves) -> list[DrainChange]:
    """Cordons and uncordons by pool and node, then evictions by model."""
    if not scene.snapshot.drains_nodes or scene.snapshot.sync.clock_is_off:
        return []
    notices = {notice.node: notice for notice in scene.snapshot.notices}
    promised = Counter(moves.promised)
    changes = [change for state in scene.pools.values() for change in _cordons(scene, state, notices)]
    for model in scene.models.values() if notices else ():
        if model.doomed:
            changes += _evictions(scene, moves, promised, model, notices)
    return changes


def _cordons(scene: Scene[ModelShare], state: PoolFacts, notices: Mapping[str, NoticeView]) -> Iterator[DrainChange]:
    """A node is cordoned once, and uncordoned only by whom it was cordoned: if a person undid it, it stays so.

    By our mark we know that, so it stays for as long as what the node was cordoned for, or is not believed just now. A
    mark that outlived it would make a person's next cordon ours to undo.
    """
    for node in state.view.nodes:
        notice = notices.get(node.name)
        over = _over(notice, scene.now)
        if node.cordoned and over and (notice is None or not notice.doubted or not node.schedulable):
            why = over + ("; of our cordon only the mark was left" if node.schedulable else "")
            yield _of_node(scene, state, node, "uncordon", why)
        elif notice is not None and node.schedulable and not node.cordoned and drains(scene, state.pool.name, notice):
            yield _of_node(scene, state, node, "cordon", f"under notice ({notice.kind}, {notice.source or 'unknown'})")


def _over(notice: NoticeView | None, now: float) -> str:
    """Why nothing that is told of a node now is a reason to cordon it, "" where something is."""
    if notice is None:
        return "its notice is over"
    if cordons(notice, now):
        return ""
    if notice.doubted:
        return f"its notice is not believed: {notice.doubted}"
    left = "is merely possible" if notice.confidence == "possible" else "has not come to its time"
    return f"what it was cordoned for is over; what is left ({notice.kind}) {left}"


def _of_node(scene: Scene[ModelShare], state: PoolFacts, node: NodeView, kind: str, reason: str) -> DrainChange:
    return DrainChange(
        id=f"{scene.snapshot.cycle}-{node.name}-{kind}",
        kind=kind,
        node=node.name,
        pool=state.pool.name,
        reason=reason,
    )


def _evictions(
    scene: Scene[ModelShare],
    moves: Moves,
    promised: Counter[str],
    model: ModelShare,
    notices: Mapping[str, NoticeView],
) -> Iterator[DrainChange]:
    """The doomed replicas of one model that no number ends and whose time has come.

    `promised`: GPUs promised so far, by pool; counts those for pods that are made anew.
    """
    spare = model.ready_staying - (model.staying_replicas - sum(target.replaced for target in model.targets))
    enough = _enough_elsewhere(moves, model)
    for target in model.targets:
        going = moves.going.get(target.key, Going())
        gone = {pod.uid for pod in (*going.pods, *going.ended)}
        spare -= len(going.ended)
        if target.stuck == "paused":
            continue
        for pod, notice in _drained(scene, target, notices):
            if pod.uid in gone:
                continue
            replaced = pod in target.beside and spare > 0
            surplus = enough and _is_surplus(moves, target, pod, notice)
            surplus = surplus and _room_for_another(scene, moves, promised, target)
            ends = dated(notice) and not outlasts(notice, pod, scene.now)
            if scene.now >= ends_at(scene, target, notice) if ends else replaced or surplus:
                spare -= replaced
                promised[target.pool] += target.gpus if surplus else 0
                what = "as many as are needed are Ready elsewhere" if surplus else "nothing replaces it yet"
                what = "its replacement is Ready" if replaced else what
                yield _of_pod(scene, target, pod, notice, what, model.floor if surplus else 0)


def _enough_elsewhere(moves: Moves, model: ModelShare) -> bool:
    """Whether as many as the model needs are Ready on nodes that stay, so that a doomed one beside them is surplus."""
    name = model.entry.id
    ready = model.ready_staying - moves.tally.taken[name]
    return ready >= max(model.floor, model.needed) and not moves.waiting.get(name)


def _is_surplus(moves: Moves, target: TargetFacts, pod: PodView, notice: NoticeView) -> bool:
    """Whether a doomed replica without a replacement may go before its node does.

    One that landed there since what empties the node came is left: where the cordon fails, the next would, too.
    """
    alone = pod not in target.beside and target.key not in moves.coming
    return alone and not dated(notice) and was_there(notice, pod)


def _room_for_another(scene: Scene[ModelShare], moves: Moves, promised: Counter[str], target: TargetFacts) -> bool:
    """Whether the pod that is made anew for a surplus one takes no GPUs that somebody waits for or was promised."""
    pool = target.pool
    if any(model.entry.id in moves.waiting for model in scene.of_pool[pool]):
        return False
    return budget(scene.pools[pool], promised[pool], target.gpus) is None


def _drained(
    scene: Scene[ModelShare], target: TargetFacts, notices: Mapping[str, NoticeView]
) -> Iterable[tuple[PodView, NoticeView]]:
    for pod in sorted(target.doomed, key=lambda each: each.uid):
        of_pod = [notices[node] for node in pod.nodes if node in notices]
        if of_pod:
            notice = min(of_pod, key=lambda each: each.deadline)
            if drains(scene, target.pool, notice):
                yield pod, notice


def ends_at(scene: Scene[ModelShare], target: TargetFacts, notice: NoticeView) -> float:
    """When a replica begins to end: its grace is over at the deadline, where we drain 20 s before it."""
    lead = LAST_SECONDS if drains(scene, target.pool, notice) else 0.0
    return notice.deadline - target.view.grace_seconds - lead


def _of_pod(  # noqa: PLR0913  # who goes, why, and what must stay
    scene: Scene[ModelShare], target: TargetFacts, pod: PodView, notice: NoticeView, what: str, floor: int
) -> DrainChange:
    left = notice.deadline - scene.now
    last = in_last_seconds(notice, scene.now)
    grace = target.view.grace_seconds
    goes = f"goes in {left:.0f} s" if left > 0.0 else f"was to go {-left:.0f} s ago"
    when = f"{notice.node} {goes if dated(notice) else 'is to be emptied'}"
    return DrainChange(
        id=f"{scene.snapshot.cycle}-{pod.name}-{'delete' if last else 'evict'}",
        kind="delete" if last else "evict",
        node=notice.node,
        pool=target.pool,
        reason=f"{when} ({notice.kind}) and its grace is {grace} s; {what}",
        model=target.model,
        namespace=target.view.namespace,
        pod=pod.name,
        uid=pod.uid,
        grace_seconds=max(1, min(grace, int(left))) if last else None,
        floor=floor,
    )
