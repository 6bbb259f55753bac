"""What each model holds: a part per target, with the replicas that stay, go, are doomed or still to come told apart."""

import math
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from rebalancer.domain.arithmetic import assured, converging, promised_replicas
from rebalancer.domain.policy import Model
from rebalancer.domain.snapshot import ModelView, PodView, TargetView
from rebalancer.planning.seen.scene import UNSEEN, OnNode, Part, least_of

NOTHING = OnNode(0, 0, 0, 0)
_PHASE_ORDER = {"ready": 0, "loading": 1, "pending": 2}


class Holding(NamedTuple):
    """One model's parts, in the policy's order of preference, and their sums (as in `Holder`).

    promised: GPUs by pool. nodes: what its pods hold of each node.
    """

    parts: tuple[Part, ...]
    held: int
    has: int
    ready: int
    steady: int
    loading: int
    doomed: int
    quiet: bool
    contested: bool
    promised: tuple[tuple[str, int], ...]
    nodes: dict[str, OnNode]


def holding(  # noqa: PLR0913  # what it is made from
    model: Model,
    view: ModelView | None,
    replaced: tuple[str, ...],
    floor: int,
    paused: bool,  # noqa: FBT001  # one of the values it is made from
    doomed: frozenset[str],
) -> Holding:
    """What `model` holds. `replaced`: as its memory has it; `floor`: as rulings leave it."""
    seen = {target.pool: target for target in (view.targets if view else ())}
    targets = [seen[spec.pool] for spec in model.targets if spec.pool in seen]
    parts = _parts(model, targets, _Told(replaced, floor, paused, doomed))
    steady = [part.steady for part in parts]
    return Holding(
        parts=parts,
        held=sum(part.held for part in parts),
        has=sum(part.held + part.unreplaced for part in parts),
        ready=sum(pod.phase == "ready" for target in targets for pod in target.pods),
        steady=sum(steady),
        loading=sum(len(part.kept) - part.unseen for part in parts) - sum(steady),
        doomed=sum(len(part.doomed) for part in parts),
        quiet=all(part.settle == 0 and part.target.autoscaler is None for part in parts),
        contested=any(part.target.foreign for part in parts),
        promised=tuple(
            (part.pool, promised_replicas(part.target, doomed) * part.gpus) for part in parts if not part.target.missing
        ),
        nodes=_nodes(parts),
    )


class _Told(NamedTuple):
    replaced: tuple[str, ...]
    floor: int
    paused: bool
    doomed: frozenset[str]


def _parts(model: Model, targets: list[TargetView], told: _Told) -> tuple[Part, ...]:
    """What each target holds. Numbers come back only as far as the model is asked for more than its floor.

    And not before its autoscalers assure more than that: those of the replacements may yet have to follow.
    """
    there = [target for target in targets if not target.missing]
    above = sum(converging(target) for target in there) - told.floor
    assured_above = sum(assured(target) for target in there) - told.floor
    parts = []
    for target in targets:
        part = _part(model, target, told, (max(0, above), max(0, assured_above)))
        above -= part.settle
        assured_above -= part.settle
        parts.append(part)
    return tuple(parts)


def _part(model: Model, target: TargetView, told: _Told, above_floor: tuple[int, int]) -> Part:
    """What `target` holds, with replacements told from the replicas they stand beside.

    `above_floor`: by how many the model is asked for more than its floor, and is assured of more.
    """
    doomed = told.doomed
    wanted = 0 if target.missing else converging(target)
    alive = [pod for pod in target.pods if pod.phase != "terminating"]
    alive.sort(key=partial(keep_order, doomed=doomed))
    entries = [entry for entry in told.replaced if entry.startswith(f"{target.pool}/")]
    replaced = [pod for pod in alive if pod.node in doomed and f"{target.pool}/{pod.uid}" in entries]
    beside = {f"{target.pool}/{pod.uid}" for pod in replaced}
    living = {f"{target.pool}/{pod.uid}" for pod in alive} if entries else beside
    gone = [entry for entry in entries if entry not in living]
    spared = [entry for entry in entries if entry in living - beside]  # nothing takes them away any more
    comes_back = min(len(gone), above_floor[0], max(0, wanted - len(replaced) - least_of(target)))
    settle = min(comes_back, above_floor[1])
    base = max(0, wanted - len(replaced) - settle)
    others = [pod for pod in alive if f"{target.pool}/{pod.uid}" not in beside] if beside else alive
    staying = others[:base]
    alone = [pod for pod in staying if pod.node in doomed] if doomed else []
    undoomed = [pod for pod in staying if pod.node not in doomed] if doomed else staying
    held = base - len(alone)
    return Part(
        model=model.id,
        pool=target.pool,
        gpus=model.gpus_per_pod,
        target=target,
        asked=wanted,
        doomed=(*replaced, *alone),
        replaced=len(replaced),
        settle=settle,
        settled=tuple(gone[:settle]),
        void=(*gone[comes_back:], *spared),
        held=held,
        kept=(*undoomed, *_unseen(held - len(undoomed))),
        going=tuple(others[base:]),
        unseen=held - len(undoomed),
        stuck=_stuck(model, target, paused=told.paused),
    )


def keep_order(pod: PodView, doomed: Collection[str] = ()) -> tuple[int, int, bool, float, str]:
    """Sort key, best first: the reverse of the order in which a ReplicaSet deletes.

    It deletes unassigned, then not ready, then lower deletion cost, then younger pods first; of equals in that the
    doomed are what we would rather lose.
    """
    return (_PHASE_ORDER.get(pod.phase, 3), -(pod.deletion_cost or 0), pod.node in doomed, pod.created_at, pod.uid)


def _unseen(count: int) -> tuple[PodView, ...]:
    """Stand-ins for replicas asked for that are no pods yet: last to be kept, first to go."""
    return tuple(
        PodView(uid=f"{UNSEEN}{index}", name="", node=None, phase="pending", since=math.inf, created_at=math.inf)
        for index in range(count)
    )


def _stuck(model: Model, target: TargetView, *, paused: bool) -> str | None:
    if target.missing:
        return "missing"
    if paused:
        return "paused"
    if target.rolling:
        return "rollout"
    if target.autoscaler is None or (target.autoscaler.paused and model.actuation == "scale"):
        return None
    if target.autoscaler.paused:
        return "autoscaler-paused"
    return "foreign" if model.actuation == "scale" else None


def _nodes(parts: tuple[Part, ...]) -> dict[str, OnNode]:
    found: dict[str, OnNode] = {}
    for part in parts:
        gpus, going = part.gpus, {pod.uid for pod in part.going}
        kept = {pod.uid for pod in part.kept}
        for pod in part.target.pods:
            if pod.node is not None:
                of_all, staying, ready, stay = found.get(pod.node, NOTHING)
                found[pod.node] = OnNode(
                    of_all + gpus,
                    staying + gpus * (pod.phase != "terminating" and pod.uid not in going),
                    ready + gpus * (pod.phase == "ready"),
                    stay + gpus * (pod.uid in kept),
                )
    return found
