"""After the moves: doomed replicas are ended before their node goes, as far as Kubernetes would end just them."""

from collections.abc import Iterator, Mapping

from rebalancer.domain.plan import Refusal
from rebalancer.domain.replica_set import ends_just, out_class
from rebalancer.domain.snapshot import NoticeView, PodView
from rebalancer.planning.given.moves import Going, Key, Moves, release
from rebalancer.planning.guarded.release import Purpose
from rebalancer.planning.seen.scene import Holder, Part, Scene
from rebalancer.planning.shared.ledger import Victim


def drain(scene: Scene, moves: Moves) -> None:
    """Add to the moves which doomed pods the coming replicas replace, and which go now."""
    for holder in scene.holders.values():
        if holder.doomed:
            _drain(scene, moves, holder, _beside(moves, holder))


def _beside(moves: Moves, holder: Holder) -> dict[Key, list[PodView]]:
    """Say which doomed pods the coming replicas replace, those of their own part first; returns the pods left alone."""
    alone = {part.key: _unreplaced_pods(part) for part in holder.parts}
    coming = [(part, moves.coming[part.key]) for part in holder.parts if part.key in moves.coming]
    pairs = [(part, one, other) for part, one in coming for other in holder.parts]
    for _, one, other in sorted(pairs, key=lambda pair: pair[0] is not pair[2]):
        while alone[other.key] and len(one.beside) < one.replicas:
            one.beside.append((other.pool, alone[other.key].pop(0)))
    return alone


def _drain(scene: Scene, moves: Moves, holder: Holder, alone: dict[Key, list[PodView]]) -> None:
    """Doomed replicas go before their node does: replaced ones, and those that nothing is on its way for.

    A part that grows in this plan goes on in the next: replacements are asked first.
    """
    notices = {notice.node: notice for notice in scene.snapshot.notices}
    replacements = holder.steady - (holder.held - sum(part.replaced for part in holder.parts))
    expected = len(moves.waiting.get(holder.model.id, ()))
    name = holder.model.id
    above = sum(part.sure - part.settle for part in holder.parts) - moves.tally.taken[name] - holder.floor
    for part in holder.parts:
        if part.stuck is not None or part.key in moves.coming:
            continue
        going = moves.going.get(part.key)
        counted = part.held + part.unreplaced
        beside = max(0, min(above, part.asked - part.settle - max(part.least, counted)))
        state = scene.pools.get(part.pool)
        if state is None or state.budget is None:
            beside = 0  # its nodes are not seen: the guard empty speaks for the others
        spare = max(0, counted - part.least - (len(going.pods) if going else 0))
        for pod, notice in _noticed(_replaced_pods(part)[:beside], notices):
            leaves = _leaves(notice, part, scene.now) and not notice.karpenter
            if leaves and (replacements > 0 or not _open(notice)) and _goes(scene, moves, part, pod):
                replacements -= 1
                above -= 1
                moves.going.setdefault(part.key, Going()).ended.append(pod)
        for pod, notice in _noticed(alone[part.key][:spare], notices):
            if _open(notice) and expected > 0:
                expected -= 1
            elif _leaves(notice, part, scene.now) and _goes(scene, moves, part, pod):
                release(scene, moves, Victim(part, pod, Purpose.DRAIN), None)


def _noticed(pods: list[PodView], notices: Mapping[str, NoticeView]) -> Iterator[tuple[PodView, NoticeView]]:
    """Each pod with its node's notice. A node that is dead without one is left out: Kubernetes evicts its pods."""
    return ((pod, notices[pod.node]) for pod in pods if pod.node and pod.node in notices)


def _goes(scene: Scene, moves: Moves, part: Part, pod: PodView) -> bool:
    """Whether asking for one replica less ends this one and no other; a refusal says where only its mark is missing."""
    going = moves.going.get(part.key, Going())
    gone = {each.uid for each in (*going.pods, *going.ended)}
    staying = [each for each in part.kept if each.uid not in gone]
    doomed = [each for each in part.doomed if each.uid not in gone]
    if not ends_just(pod, staying, doomed, marked=True):
        return False
    if scene.snapshot.marks_victims or ends_just(pod, staying, doomed, marked=False):
        return True
    if not any(each.guard == "marks" and each.subject == part.model for each in moves.refusals):
        moves.refuse(_unmarked(scene.holders[part.model], pod), None)
    return False


def _unmarked(holder: Holder, pod: PodView) -> Refusal:
    return Refusal(
        guard="marks",
        subject=holder.model.id,
        replicas_from=holder.has,
        replicas_to=holder.has - 1,
        why=f"Kubernetes might end another replica than {pod.name} on {pod.node}: no pod is marked, "
        "actuation.deletionCost is off; it goes with its node, or by kubectl drain",
    )


def _replaced_pods(part: Part) -> list[PodView]:
    """Doomed pods with a replacement asked beside them, in a stable order."""
    return sorted(part.beside, key=_goes_first)


def _unreplaced_pods(part: Part) -> list[PodView]:
    """Doomed pods without one, in a stable order."""
    beside = {pod.uid for pod in part.beside}
    return sorted((pod for pod in part.doomed if pod.uid not in beside), key=_goes_first)


def _goes_first(pod: PodView) -> tuple[int, str]:
    return -out_class(pod), pod.uid


def _leaves(notice: NoticeView, part: Part, now: float) -> bool:
    """Whether a doomed pod is to be released now. Karpenter moves voluntary ones by itself."""
    if notice.voluntary:
        return False
    return notice.karpenter or now >= notice.deadline - part.target.grace_seconds


def _open(notice: NoticeView) -> bool:
    """A person's drain has no deadline: its replicas serve until their replacements do."""
    return notice.kind == "drain" and not notice.karpenter
