"""Moves become changes: per target one number to ask for, its bounds, and words with the numbers behind it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rebalancer.domain.arithmetic import figure
from rebalancer.domain.cluster import Override
from rebalancer.domain.memory import NodeGrant, Replaced
from rebalancer.domain.plan import Change
from rebalancer.domain.snapshot import AutoscalerView, PodView
from rebalancer.planning.given.bounds import After, kept_minimum, lower, wanted_minimums
from rebalancer.planning.given.moves import Coming, Going, Moves
from rebalancer.planning.given.nodes import NodePlan
from rebalancer.planning.guarded.release import Purpose
from rebalancer.planning.seen.scene import UNSEEN, Holder, Part, Scene
from rebalancer.planning.shared.shares import kept_by_one

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Withdrawal:
    """Replicas of a node grant that brought nothing."""

    grant: NodeGrant
    replicas: int
    why: str


@dataclass(slots=True)
class Changes:
    """What is to be written: decreases before raises and bounds, each in the policy's order of models and pools.

    granted: undoomed replicas per model once it is.
    """

    down: list[Change]
    up: list[Change]
    granted: dict[str, int]


def changes_of(scene: Scene, moves: Moves, nodes: NodePlan) -> Changes:
    """One change per target that is to be written. Refusals of lower minimums are added to `moves`."""
    found = Changes([], [], {})
    withdrawn = {part.key: _Withdrawal(grant, count, why) for grant, part, count, why in nodes.withdrawn if count > 0}
    touched = {model for model, _ in (*moves.going, *moves.coming, *withdrawn)}
    for holder in scene.holders.values():
        if holder.quiet and holder.model.id not in touched:
            found.granted[holder.model.id] = holder.held
            continue
        after = {part.key: _after(part, moves, withdrawn.get(part.key)) for part in holder.parts}
        found.granted[holder.model.id] = sum(each.undoomed for each in after.values())
        minimums = wanted_minimums(scene, holder, after)
        for part in holder.parts:
            if part.stuck is not None and part.key not in moves.coming:
                continue
            then = after[part.key]
            wanted = minimums.get(part.key, then.asked)
            if then.asked < part.asked:
                kept = kept_minimum(part, then, wanted)
                found.down.append(_decrease(scene, holder, part, then, kept, moves, withdrawn.get(part.key)))
            elif then.asked > part.asked:
                kept = kept_minimum(part, then, wanted)
                found.up.append(_increase(scene, holder, part, moves.coming[part.key], kept, after))
            elif part.owner is not None:
                found.up += _bounds(scene, part, wanted, moves)
    return found


def _after(part: Part, moves: Moves, withdrawn: _Withdrawal | None) -> After:
    """The part once this plan is written."""
    going, coming = moves.going.get(part.key), moves.coming.get(part.key)
    doomed = {pod.uid for pod in part.doomed}
    released = [pod.uid in doomed for pod in going.pods] if going else []
    undoomed = released.count(False)
    if going is None and withdrawn is not None:
        undoomed = withdrawn.replicas
    gone = part.settle + released.count(True) + (len(going.ended) if going else 0)
    more = coming.replicas if coming else 0
    return After(part.asked - gone - undoomed + more, part.held - undoomed + more, gone)


def _decrease(  # noqa: PLR0913  # what goes, down to where, and why
    scene: Scene, holder: Holder, part: Part, then: After, minimum: int, moves: Moves, withdrawn: _Withdrawal | None
) -> Change:
    going = moves.going.get(part.key)
    if going is None and withdrawn is not None:
        return _withdrawal(scene, part, then, minimum, withdrawn)
    going = going or Going()
    pods = [pod for pod in (*going.ended, *going.pods) if not pod.uid.startswith(UNSEEN)]
    return Change(
        id=f"{scene.snapshot.cycle}-{part.model}-{part.pool}",
        kind="release" if going.pods or going.ended else "settle",
        model=part.model,
        target=part.target,
        replicas_from=part.asked,
        replicas_to=then.asked,
        minimum=minimum,
        reason=_why_down(holder, part, going, scene),
        shift=going.shift,
        victims=tuple(pod.uid for pod in pods),
        victim_names=tuple(pod.name for pod in pods),
        passes=_passes(going, holder),
        counts=going.counts if going.pods else None,
        counted=sum(going.counted.values()) - going.counted["exempt"],
        recipients=tuple(going.recipients),
        replaces=(*part.settled, *(_spelled(part, then, pod) for pod in going.ended)),
        floor=holder.floor,
    )


def _passes(going: Going, holder: Holder) -> str | None:
    """Named only when every replica that goes passes; first what the gate hurries least for: a reclaim."""
    words = {
        Purpose.RECLAIM: "reclaim",
        Purpose.DRAIN: "drain",
        Purpose.OVERRIDE: _override_words(holder.ruling.decides),
    }
    purposes = {*going.purposes, *((Purpose.DRAIN,) if going.ended else ())}
    if not purposes <= words.keys():
        return None
    return ", ".join(said for purpose, said in words.items() if purpose in purposes) or None


def _override_words(one: Override | None) -> str:
    below = " allowBelowFloor" if one is not None and one.allow_below_floor else ""
    return f"override {one.name}{below}" if one is not None else "override"


def _why_down(holder: Holder, part: Part, going: Going, scene: Scene) -> str:
    if not going.pods and not going.ended:
        return "doomed pods have gone; their replacements stay"
    words = []
    if Purpose.DRAIN in going.purposes or going.ended:
        words.append("drain " + ", ".join(sorted({pod.node or "?" for pod in part.doomed})))
    if Purpose.OVERRIDE in going.purposes:
        words.append(_override_words(holder.ruling.decides))
    if going.recipients:
        home = "goes home to" if Purpose.RECLAIM in going.purposes else "for"
        worth = _worth(holder, going.recipients, scene) if Purpose.SHIFT in going.purposes else ""
        words.append(f"{home} {', '.join(going.recipients)}{worth}")
    if Purpose.BUDGET in going.purposes:
        state = scene.pools[part.pool]
        words.append(f"pool {part.pool} has a budget of {state.budget} GPUs, {state.promised} are promised")
    if Purpose.SURPLUS in going.purposes:
        words.append("surplus")
    words.append(holder.demand.why)
    return ", ".join(words)


def _worth(holder: Holder, recipients: Iterable[str], scene: Scene) -> str:
    """What a replica keeps from being late where it goes, and where it was; "" where no look-ahead says."""
    here, outlook = kept_by_one(holder), holder.load.outlook
    there = [kept for kept in (kept_by_one(scene.holders[name]) for name in recipients) if kept is not None]
    if here is None or outlook is None or not there:
        return ""
    late = f"{'seconds' if outlook.by_minute else 'requests'} from being late in {outlook.horizon_seconds} s"
    return f" (each keeps {figure(max(there))} {late} there, {figure(here)} here)"


def _withdrawal(scene: Scene, part: Part, then: After, minimum: int, withdrawn: _Withdrawal) -> Change:
    return Change(
        id=f"{scene.snapshot.cycle}-{part.model}-{part.pool}",
        kind="withdraw",
        model=part.model,
        target=part.target,
        replicas_from=part.asked,
        replicas_to=then.asked,
        minimum=minimum,
        reason=f"node grant {withdrawn.grant.id} ended: {withdrawn.why}",
        passes="withdraw: only pods without a node go",
        replaces=part.settled,
        grant=withdrawn.grant.id,
        node_pool=withdrawn.grant.node_pool,
        floor=scene.holders[part.model].floor,
    )


def _increase(  # noqa: PLR0913  # what comes, up to where, and beside whom
    scene: Scene, holder: Holder, part: Part, coming: Coming, minimum: int, after: Mapping[Key, After]
) -> Change:
    parts = {each.pool: each for each in holder.parts}
    ruled = holder.ruling.pin or holder.ruling.floor
    return Change(
        id=f"{scene.snapshot.cycle}-{part.model}-{part.pool}",
        kind="replace" if coming.beside else "grant",
        model=part.model,
        target=part.target,
        replicas_from=part.asked,
        replicas_to=part.asked + coming.replicas,
        minimum=minimum,
        reason=_why_up(holder, coming),
        shift=_open_shift(scene, part),
        nodes=tuple(sorted(set(coming.nodes))),
        passes=_override_words(ruled) if ruled is not None else None,
        replaces=tuple(_spelled(parts[pool], after[part.model, pool], pod) for pool, pod in coming.beside),
        grant=coming.grant,
        node_pool=coming.node_pool,
        floor=holder.floor,
    )


def _spelled(part: Part, then: After, pod: PodView) -> str:
    """A replaced pod of `part`, which stands while its target is asked for what this plan leaves it."""
    return str(Replaced(part.pool, part.target.uid, then.asked, pod.uid))


def _open_shift(scene: Scene, part: Part) -> str | None:
    """The oldest shift that has freed GPUs for the part and granted none yet."""
    mine = [one for one in scene.memory.shifts if one.recipient == part.model and one.pool == part.pool]
    return next((one.id for one in mine if one.granted_at is None), mine[0].id if mine else None)


def _why_up(holder: Holder, coming: Coming) -> str:
    words = [holder.demand.why]
    if coming.beside:
        nodes = ", ".join(sorted({pod.node or "?" for _, pod in coming.beside}))
        words.insert(0, f"replaces {len(coming.beside)} on {nodes}")
    if coming.nodes:
        words.append("on " + ", ".join(sorted(set(coming.nodes))))
    if coming.grant is not None:
        words.append(f"node grant {coming.grant} in nodepool {coming.node_pool}")
    return ", ".join(words)


def _most_minimum(scene: Scene, part: Part, owner: AutoscalerView) -> int:
    """The highest minimum that a bounds change may set: what was asked for; in a pool that is over, what runs.

    An autoscaler that somebody let go down runs less than we asked for, and its GPUs may be another's by now.
    """
    state = scene.pools.get(part.pool)
    known = state is not None and state.budget is not None and state.promised <= state.budget
    return part.asked if known else max(owner.minimum, min(part.asked, part.target.replicas))


def _bounds(scene: Scene, part: Part, wanted: int, moves: Moves) -> list[Change]:
    """New bounds for an unchanged number: taking an autoscaler over, or a minimum that follows demand.

    An idle one is not taken over: its maximum would be 1, a grant that nobody asked for. Nor is one on its way up to
    its own minimum.
    """
    owner, ours = part.owner, part.owner is not None and part.owner.originals is not None
    if owner is None or part.target.asked is not None or part.asked < part.least:
        return []
    if not ours and owner.minimum > part.asked:
        return []
    wanted = min(wanted, _most_minimum(scene, part, owner))
    lowered = lower(scene, moves.tally, part, max(wanted, min(part.asked, owner.minimum)), wanted)
    minimum = lowered.minimum
    if lowered.refusal is not None:
        moves.refuse(lowered.refusal, None)
    if ours and (owner.minimum, owner.maximum) == (minimum, part.asked):
        return []
    return [
        Change(
            id=f"{scene.snapshot.cycle}-{part.model}-{part.pool}",
            kind="bounds",
            model=part.model,
            target=part.target,
            replicas_from=part.asked,
            replicas_to=part.asked,
            minimum=minimum,
            reason=f"bounds {owner.minimum}-{owner.maximum} -> {minimum}-{part.asked}"
            + ("" if ours else f", taking {owner.kind} {owner.name} over"),
            counts=lowered.counts,
            counted=lowered.counted,
            floor=scene.holders[part.model].floor,
        )
    ]
