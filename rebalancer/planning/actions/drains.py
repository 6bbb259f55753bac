"""Doomed replicas are ended before their node goes, as far as Kubernetes would end them and no others.

This comes after the moves. Worked example: chat has 3 replicas, one of them on node-7, which a person drains. The first
plan that finds a free GPU raises the target to 4 beside the doomed replica (a `replace`), and nothing goes. Once 3
replicas are Ready on other nodes, a later plan takes the target back to 3 and marks the doomed pod, which the
ReplicaSet then deletes. Were it a cloud's notice with a deadline, the doomed replica would serve until its grace period
before that, and then go whether its replacement is Ready or not. A replaced pod on a node that Karpenter drains is left
to Karpenter.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from rebalancer.domain.drain import dated, outlasts, was_there
from rebalancer.domain.plan import Refusal
from rebalancer.domain.snapshot import NoticeView, PodView
from rebalancer.domain.victims import ends_just, out_class
from rebalancer.planning.actions.evictions import drains, ends_at
from rebalancer.planning.actions.moves import Going, Key, Moves, judge_moves, release
from rebalancer.planning.actions.node_plan import NodePlan
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.allocation.unit import Victim
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.guards.release import Purpose, Tally
from rebalancer.planning.shares.share import ModelShare


def moves_and_drains(scene: Scene[ModelShare], allocation: Allocation, nodes: NodePlan, tally: Tally) -> Moves:
    """The moves of the allocation as far as guards let them, then the doomed replicas whose time has come."""
    moves = judge_moves(scene, allocation, nodes, tally)
    for model in scene.models.values():
        if model.doomed:
            _drain(scene, moves, model, _beside(moves, model))
    return moves


def _beside(moves: Moves, model: ModelShare) -> dict[Key, list[PodView]]:
    """Note which doomed pods the coming replicas replace, those of their own target first.

    Returns by target the doomed pods that no replica replaces, this plan's coming replicas counted.
    """
    alone = {target.key: _unreplaced_pods(target) for target in model.targets}
    coming = [(target, moves.coming[target.key]) for target in model.targets if target.key in moves.coming]
    pairs = [(target, one, other) for target, one in coming for other in model.targets]
    for _, one, other in sorted(pairs, key=lambda pair: pair[0] is not pair[2]):
        while alone[other.key] and len(one.beside) < one.replicas:
            one.beside.append((other.pool, alone[other.key].pop(0)))
    return alone


def _drain(scene: Scene[ModelShare], moves: Moves, model: ModelShare, alone: dict[Key, list[PodView]]) -> None:
    """Ends the doomed replicas of one model whose time has come.

    `alone`: its doomed pods that nothing replaces, by target.

    Replaced pods go as long as the model stays at its floor, one for each replacement that is Ready; they go without
    one where the notice has a deadline. Pods without a replacement go at the deadline; of a notice that is not certain
    they stay. Who still serves a minute after the deadline goes for a Ready replacement only. Of a person's drain,
    which has no deadline, pods without a replacement wait while GPUs are being freed for the model. A target that grows
    in this plan is looked at in the next one: replacements come first.
    """
    notices = {notice.node: notice for notice in scene.snapshot.notices}
    replacements = model.ready_staying - (model.staying_replicas - sum(target.replaced for target in model.targets))
    expected = len(moves.waiting.get(model.entry.id, ()))
    name = model.entry.id
    above = sum(target.sure - target.settle for target in model.targets) - moves.tally.taken[name] - model.floor
    for target in model.targets:
        if target.stuck is not None or target.key in moves.coming:
            continue
        going = moves.going.get(target.key)
        left = _Left(target, going or Going())
        counted = target.staying_replicas + target.unreplaced
        beside = max(0, min(above, target.desired_replicas - target.settle - max(target.least, counted)))
        state = scene.pools.get(target.pool)
        if state is None or state.budget is None:
            beside = 0  # its nodes are not seen: the guard empty speaks for the others
        spare = max(0, counted - target.least - (len(going.pods) if going else 0))
        for pod, notice in _noticed(_replaced_pods(target)[:beside], notices):
            leaves = _leaves(scene, notice, target) and not notice.karpenter
            waits = _open(notice) or outlasts(notice, pod, scene.now)
            if leaves and (replacements > 0 or not waits) and _goes(scene, moves, target, pod, notice, left):
                replacements -= 1
                above -= 1
                left.end(pod)
                moves.going.setdefault(target.key, Going()).ended.append(pod)
        for pod, notice in _noticed(alone[target.key][:spare], notices):
            if _open(notice) and expected > 0:
                expected -= 1
                continue
            leaves = _sure(notice) and _leaves(scene, notice, target) and not outlasts(notice, pod, scene.now)
            leaves = leaves and _goes(scene, moves, target, pod, notice, left)
            if leaves and release(scene, moves, Victim(target, pod, Purpose.DRAIN), None):
                left.end(pod)


def _noticed(pods: list[PodView], notices: Mapping[str, NoticeView]) -> Iterator[tuple[PodView, NoticeView]]:
    """Each pod with its node's notice; a pod whose node has none is left out, because Kubernetes evicts it."""
    for pod in pods:
        of_pod = [notices[node] for node in pod.nodes if node in notices]
        if of_pod:
            yield pod, min(of_pod, key=lambda notice: notice.deadline)


class _Left:
    """The classes of a target's replicas that do not go in this plan, counted off one by one.

    Of 2,000 replicas on nodes that go at once each had looked at all others, for a second.
    """

    def __init__(self, target: TargetFacts, going: Going) -> None:
        gone = {pod.uid for pod in (*going.pods, *going.ended)}
        self.staying = {out_class(pod) for pod in target.staying_pods if pod.uid not in gone}
        self._doomed = Counter(out_class(pod) for pod in target.doomed if pod.uid not in gone)
        self._rising = sorted(self.staying | self._doomed.keys())

    @property
    def highest(self) -> int:
        """The highest of them; below all classes where none is left."""
        while self._rising and self._rising[-1] not in self.staying and not self._doomed[self._rising[-1]]:
            self._rising.pop()
        return self._rising[-1] if self._rising else -1

    def end(self, pod: PodView) -> None:
        """Counts a doomed one off."""
        self._doomed[out_class(pod)] -= 1


def _goes(  # noqa: PLR0913  # who goes, from where and why, and who is left
    scene: Scene[ModelShare], moves: Moves, target: TargetFacts, pod: PodView, notice: NoticeView, left: _Left
) -> bool:
    """Whether a decrease by one replica would end this very pod; one refusal a model where its mark is missing."""
    if not ends_just(pod, left.staying, left.highest, marked=True):
        if pod.ordinal is not None:
            _refuse_once(moves, _numbered(scene, target, pod, notice))
        return False
    if scene.snapshot.marks_victims or ends_just(pod, left.staying, left.highest, marked=False):
        return True
    _refuse_once(moves, _unmarked(scene, target, pod, notice))
    return False


def _refuse_once(moves: Moves, refusal: Refusal) -> None:
    if not any(each.guard == "marks" and each.subject == refusal.subject for each in moves.refusals):
        moves.refuse(refusal, None)


def _numbered(scene: Scene[ModelShare], target: TargetFacts, pod: PodView, notice: NoticeView) -> Refusal:
    why = f"{target.view.kind} {target.view.name} ends its highest number first, and {pod.name} is not it"
    return _by_marks(scene, target, f"{why}; {_instead(scene, target, pod, notice)}")


def _unmarked(scene: Scene[ModelShare], target: TargetFacts, pod: PodView, notice: NoticeView) -> Refusal:
    why = (
        f"Kubernetes might end another replica than {pod.name} on {pod.node}, since pods are not marked where "
        "actuation.deletionCost is off"
    )
    return _by_marks(scene, target, f"{why}; {_instead(scene, target, pod, notice)}")


def _by_marks(scene: Scene[ModelShare], target: TargetFacts, why: str) -> Refusal:
    has = scene.models[target.model].committed_replicas
    return Refusal(guard="marks", subject=target.model, replicas_from=has, replicas_to=has - 1, why=why)


def _instead(scene: Scene[ModelShare], target: TargetFacts, pod: PodView, notice: NoticeView) -> str:
    """How a doomed replica ends that no number ends."""
    drained = drains(scene, target.pool, notice)
    if drained and dated(notice):
        return "it is evicted before its node goes"
    if drained and (pod in target.beside or was_there(notice, pod)):
        return "it is evicted once as many as are needed are Ready elsewhere"
    return "it goes with its node, or by kubectl drain"


def _replaced_pods(target: TargetFacts) -> list[PodView]:
    """Doomed pods with a replacement asked beside them, in a stable order."""
    return sorted(target.beside, key=_goes_first)


def _unreplaced_pods(target: TargetFacts) -> list[PodView]:
    """Doomed pods without a replacement beside them, in a stable order."""
    beside = {pod.uid for pod in target.beside}
    return sorted((pod for pod in target.doomed if pod.uid not in beside), key=_goes_first)


def _goes_first(pod: PodView) -> tuple[int, str]:
    return -out_class(pod), pod.uid


def _leaves(scene: Scene[ModelShare], notice: NoticeView, target: TargetFacts) -> bool:
    """Whether a doomed pod is to be released now, which nobody knows by a clock that is off.

    Karpenter moves voluntary ones by itself; what may go stays.
    """
    if notice.voluntary or notice.confidence == "possible" or scene.snapshot.sync.clock_is_off:
        return False
    return notice.karpenter or scene.now >= ends_at(scene, target, notice)


def _open(notice: NoticeView) -> bool:
    """A person's drain has no deadline, a fault none that is certain: replicas serve until their replacements do."""
    return not _sure(notice) or (notice.kind == "drain" and not notice.karpenter)


def _sure(notice: NoticeView) -> bool:
    """Its pods go whether replaced or not: its deadline is certain, or Karpenter drains the node already."""
    return notice.confidence == "certain" or notice.karpenter
