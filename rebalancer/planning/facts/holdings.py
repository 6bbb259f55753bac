"""What each model holds: by target, with the replicas that stay, go, are doomed or still to come told apart."""

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from msgspec import UNSET

from rebalancer.domain.arithmetic import (
    assured,
    bounding,
    certain_pod_gpus,
    converging,
    gpus_differ,
    least_grant,
    pod_gpus,
    promised_replicas,
    ready_by,
    unreachable,
)
from rebalancer.domain.gpu_memory import GpuMemory, LoadedMemory
from rebalancer.domain.memory import Memory, Replaced
from rebalancer.domain.owners import refusing
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.snapshot import ModelView, Place, PodView, Snapshot, TargetView
from rebalancer.domain.victims import keep_order
from rebalancer.planning.facts.scene import (
    ROLLOUT,
    UNSEEN,
    Holding,
    NodeGpus,
    PodPlacement,
    TargetFacts,
)
from rebalancer.planning.memo import Memo
from rebalancer.planning.overrides.rulings import Ruling

NOTHING = NodeGpus(0, 0, 0, 0, 0)
HANGS_AFTER_STARTS = 2.0
NONE_HUNG = frozenset[str]()


def holdings_of(  # noqa: PLR0913  # what holdings are made from
    snapshot: Snapshot,
    policy: Policy,
    memory: Memory,
    rulings: Mapping[str, Ruling],
    doomed: frozenset[str],
    memo: Memo,
) -> dict[str, Holding]:
    """What each model of the policy holds, by its id."""
    views = {view.id: view for view in snapshot.models}
    resources = memo.of("", _resources, policy)
    holdings: dict[str, Holding] = {}
    for model in policy.models:
        name = model.id
        remembered, ruling = memory.models.get(name), rulings.get(name)
        replaced = remembered.replaced if remembered is not None else ()
        floor = model.min_replicas if ruling is None else ruling.floor_of(model)
        needed = remembered.demand or 0 if remembered is not None and replaced else 0
        paused = ruling is not None and ruling.paused is not None
        view = views.get(name)
        hung = NONE_HUNG if view is None else _hung(model, view, snapshot.at)
        holdings[name] = memo.of(name, holding, model, view, replaced, floor, needed, paused, doomed, resources, hung)
    return holdings


def _hung(model: Model, view: ModelView, at: float) -> frozenset[str]:
    """Pools in which a rollout has hung though by its counts it is over: its old pods have died with their nodes.

    None of the new pods is Ready, none ever was for all that the target says, and one has loaded for twice as long as
    starts take. Until then it is a start like any other.
    """
    if all(target.unproven is UNSET for target in view.targets):
        return NONE_HUNG
    load_seconds = model.load_seconds if view.slow_load_seconds is None else view.slow_load_seconds
    return frozenset(
        target.pool
        for target in view.targets
        if target.unproven is not UNSET
        and any(
            pod.phase == "loading" and ready_by(pod, HANGS_AFTER_STARTS * load_seconds) <= at for pod in target.pods
        )
    )


def _resources(policy: Policy) -> dict[str, str]:
    """What counts as one GPU, by pool."""
    return {pool.name: pool.resource for pool in policy.pools}


def holding(  # noqa: PLR0913  # what it is made from
    model: Model,
    view: ModelView | None,
    replaced: tuple[str, ...],
    floor: int,
    needed: int,
    paused: bool,  # noqa: FBT001  # one of the values it is made from
    doomed: frozenset[str],
    resources: Mapping[str, str],
    hung: frozenset[str],
) -> Holding:
    """The holding of `model`. `replaced`, `needed`: as its memory has them; `floor`: as rulings leave it.

    `resources`: what counts as one GPU, by pool; `hung`: pools in which a rollout of it has hung though it seems over.
    """
    seen = {target.pool: target for target in (view.targets if view else ())}
    views = [seen[spec.pool] for spec in model.targets if spec.pool in seen]
    targets = _targets(model, views, _Basis(replaced, floor, needed, paused, doomed, hung, needed_memory(model, view)))
    steady = [target.ready_staying for target in targets]
    return Holding(
        targets=targets,
        floor=floor,
        staying_replicas=sum(target.staying_replicas for target in targets),
        committed_replicas=sum(target.staying_replicas + target.unreplaced for target in targets),
        serving_replicas=sum(pod.phase == "ready" for view in views for pod in view.pods),
        ready_staying=sum(steady),
        loading_staying=sum(len(target.staying_pods) - target.unseen_pods for target in targets) - sum(steady),
        doomed=sum(len(target.doomed) for target in targets),
        quiet=all(target.settle == 0 and bounding(target.view) is None for target in targets),
        contested=any(target.view.foreign or other_on(target.view) for target in targets),
        promised=tuple(
            (target.pool, promised_replicas(target.view, doomed) * target.gpus)
            for target in targets
            if not target.view.missing
        ),
        nodes=_nodes(targets, resources),
    )


def needed_memory(model: Model, view: ModelView | None) -> GpuMemory | LoadedMemory | None:
    """GPU memory that a replica of the model needs: the policy's sum, else what was measured; None: nobody knows."""
    return model.gpu_memory or (view.loaded if view is not None else None)


class _Basis(NamedTuple):
    """Facts by which a model's targets are judged, besides the snapshot.

    replaced: entries of memory about replaced pods.
    floor: replicas below which it is never taken.
    needed: replicas that it needed by the plan before; what is more may go for a number that comes back.
    paused: whether a person paused it.
    doomed: names of doomed nodes.
    hung: pools in which its rollout has hung though it seems over.
    memory: GPU memory that a replica needs, None where nobody knows.
    """

    replaced: tuple[str, ...]
    floor: int
    needed: int
    paused: bool
    doomed: frozenset[str]
    hung: frozenset[str]
    memory: GpuMemory | LoadedMemory | None


class _Above(NamedTuple):
    """Replicas of a model above its floor, each at least 0: asked for, assured of; and serving above its need."""

    desired: int
    assured: int
    serving: int

    @classmethod
    def of(cls, targets: list[TargetView], basis: _Basis) -> "_Above":
        there = [target for target in targets if not target.missing]
        pods = [pod for target in targets for pod in target.pods]
        serve = sum(1 for pod in pods if pod.phase == "ready" and not pod.on(basis.doomed))
        desired, sure = sum(converging(each) for each in there), sum(assured(each) for each in there)
        least = (desired - basis.floor, sure - basis.floor, serve - max(basis.floor, basis.needed))
        return cls(*(max(0, each) for each in least))

    def less(self, target: TargetFacts) -> "_Above":
        """The counts once `target.settle` replicas were taken back, in the worst case serving ones."""
        return _Above(*(max(0, each - target.settle) for each in self))


class _Replaced(NamedTuple):
    """Doomed pods of a target with replacements asked beside them: those there, gone, and those that say nothing more.

    The latter two as memory has them. `spared`: under no notice any more, or not to be believed (`Replaced`).
    """

    there: tuple[PodView, ...] = ()
    gone: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: TargetView, alive: list[PodView], basis: _Basis, wanted: int) -> "_Replaced":
        living = {pod.uid: pod for pod in alive}
        there, gone, spared = set(), [], []
        for entry in basis.replaced:
            one = Replaced.of(entry)
            if one.pool != target.pool:
                continue
            if (one.target, one.replicas) != (target.uid, wanted):
                spared.append(entry)
            elif one.pod not in living:
                gone.append(entry)
            elif living[one.pod].on(basis.doomed):
                there.add(one.pod)
            else:
                spared.append(entry)
        return cls(tuple(pod for pod in alive if pod.uid in there), tuple(gone), tuple(spared))


NONE_REPLACED = _Replaced()


def _targets(model: Model, views: list[TargetView], basis: _Basis) -> tuple[TargetFacts, ...]:
    """The facts of each target; replaced numbers come back only as far as the model is above its floor."""
    above, facts = _Above.of(views, basis), []
    for view in views:
        target = _target(model, view, basis, above)
        above = above.less(target)
        facts.append(target)
    return tuple(facts)


def _target(model: Model, target: TargetView, basis: _Basis, above: _Above) -> TargetFacts:
    """The facts of `target`, in which replacements and the replicas they stand beside are told apart.

    Of replaced ones that are gone the number comes back once the autoscalers of their replacements have followed; where
    a ReplicaSet had made new ones by then, and those serve, it stays for the floor and for what the model needs, which
    would be granted again at once. Of numbered ones it comes back once those that go by it are not needed.
    """
    doomed = basis.doomed
    wanted = 0 if target.missing else converging(target)
    alive = [pod for pod in target.pods if pod.phase != "terminating"]
    numbered = target.victims == "ordinal" and countable(target)
    if numbered:
        alive += _not_there(alive, wanted)
    alive.sort(key=partial(keep_order, doomed=doomed))
    replaced = _Replaced.of(target, alive, basis, wanted) if basis.replaced else NONE_REPLACED
    others = [pod for pod in alive if pod not in replaced.there] if replaced.there else alive
    number = max(0, wanted - len(replaced.there))
    most = min(above.desired, max(0, number - least_grant(target)))
    if numbered:  # its number goes to who is made anew, and may come back once that one serves
        now = min(above.assured, _last_at_no_loss(others[:number], above.serving))
    else:
        now = above.assured
        most = min(most, number - sum(1 for pod in others[:number] if pod.phase == "ready") + above.serving)
    settle = min(len(replaced.gone), most, now)
    base = number - settle
    staying = others[:base]
    alone = [pod for pod in staying if pod.on(doomed)] if doomed else []
    undoomed = [pod for pod in staying if not pod.on(doomed)] if doomed else staying
    undoomed_replicas = base - len(alone)
    there = (*undoomed, *_unseen(undoomed_replicas - len(undoomed)))
    return TargetFacts(
        model=model.id,
        pool=target.pool,
        gpus=pod_gpus(target, model.gpus_per_pod) * target.pods_per_replica,
        certain_gpus=certain_pod_gpus(target, model.gpus_per_pod) * target.pods_per_replica,
        view=target,
        placement=PodPlacement(
            target.pool,
            tuple(sorted(target.node_selector.items())),
            target.tolerations,
            target.placement.terms,
            basis.memory,
            0 if basis.memory is None else model.gpus_per_replica,
        ),
        desired_replicas=wanted,
        doomed=(*replaced.there, *alone),
        beside=replaced.there,
        settle=settle,
        settled=replaced.gone[:settle],
        void=(*replaced.gone[most:], *replaced.spared),
        staying_replicas=undoomed_replicas,
        staying_pods=there,
        leaving_pods=tuple(others[base:]),
        unseen_pods=undoomed_replicas
        - (len(undoomed) if not numbered else sum(not is_unseen(pod) for pod in undoomed)),
        unplaced=tuple(pod for pod in there if pod.node is None),
        sure=0 if target.missing else assured(target),
        stuck=_stuck(model, target, basis),
        pods=target.pods_per_replica,
    )


def _unseen(count: int) -> tuple[PodView, ...]:
    """Stand-ins for replicas asked for that are no pods yet: last to be kept, first to go."""
    return tuple(
        PodView(uid=f"{UNSEEN}{index}", name="", node=None, phase="pending", since=math.inf, created_at=math.inf)
        for index in range(count)
    )


def _not_there(alive: list[PodView], wanted: int) -> tuple[PodView, ...]:
    """Stand-ins for numbers of a target that are no pods yet, which may be among those that are: they go in their turn.

    A StatefulSet makes pod 1 again, which was evicted, while pod 2 serves; asked for one less it ends pod 2.
    """
    there = {pod.ordinal for pod in alive}
    return tuple(
        PodView(f"{UNSEEN}{one}", "", None, "pending", math.inf, math.inf, place=Place(one))
        for one in range(wanted)
        if one not in there
    )


def countable(target: TargetView) -> bool:
    """Whether it is known which of its replicas go first: where numbers say so, each has a number of its own."""
    numbers = [pod.ordinal for pod in target.pods if pod.phase != "terminating"]
    return target.victims != "ordinal" or (None not in numbers and len({*numbers}) == len(numbers))


def is_unseen(pod: PodView) -> bool:
    """Whether it stands in for a replica that is no pod yet."""
    return pod.uid.startswith(UNSEEN)


def _last_at_no_loss(pods: list[PodView], serving: int) -> int:
    """How many of numbered pods can go, the last first, with no more than `serving` Ready ones among them."""
    count = 0
    for pod in reversed(pods):
        serving -= pod.phase == "ready"
        if serving < 0:
            break
        count += 1
    return count


def other_on(target: TargetView) -> str:
    """The installation of the rebalancer that writes to the target's autoscaler, where it is another one."""
    return "" if target.autoscaler is None else target.autoscaler.other


def _stuck(model: Model, target: TargetView, basis: _Basis) -> str | None:
    """The first of the reasons for which the target is left alone, in the words of `Unmet.constraint`."""
    autoscaler = target.autoscaler
    owned = autoscaler is not None and not autoscaler.paused and model.actuation == "scale"
    claimed = refusing(target) is not None
    theirs = owned or other_on(target) != "" or claimed
    differ = gpus_differ(target, model.gpus_per_pod, model.pods_per_replica) is not None
    hung = target.pool in basis.hung and not differ  # over by its counts: what differs is not on its way out
    reasons = {
        "missing": target.missing,
        "paused": basis.paused,
        ROLLOUT: (target.rolling or hung) and not theirs,
        "owner": claimed,
        "gpus": differ,
        "victims": not target.missing and not (target.victims and countable(target)),
        "autoscaler-paused": autoscaler is not None and autoscaler.paused and model.actuation != "scale",
        "foreign": theirs,
        "idle": not owned and unreachable(target) is not None,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _nodes(targets: tuple[TargetFacts, ...], resources: Mapping[str, str]) -> dict[str, dict[str, NodeGpus]]:
    by_resource: dict[str, dict[str, NodeGpus]] = {}
    for target in targets:
        by_node = by_resource.setdefault(resources[target.pool], {})
        gpus, certain = target.pod_gpus, target.certain_gpus // target.pods
        going = {pod.uid for pod in target.leaving_pods}
        staying_uids = {pod.uid for pod in target.staying_pods}
        for pod in target.view.pods:
            for node in pod.nodes:
                of_all, at_least, staying, ready, stay = by_node.get(node, NOTHING)
                by_node[node] = NodeGpus(
                    of_all + gpus,
                    at_least + certain,
                    staying + gpus * (pod.phase != "terminating" and pod.uid not in going),
                    ready + gpus * (pod.phase == "ready"),
                    stay + gpus * (pod.uid in staying_uids),
                )
    return by_resource
