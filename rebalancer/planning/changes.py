"""Moves become changes: per target one number to ask for, its bounds, and words with the numbers behind it."""

from rebalancer.domain.cluster import Override
from rebalancer.domain.plan import Change
from rebalancer.planning.guards import Purpose, Release, Tally, judge
from rebalancer.planning.moves import Coming, Going, Moves, unreplaced_pods
from rebalancer.planning.nodes import NodePlan
from rebalancer.planning.scene import UNSEEN, Holder, Part, Scene


def changes_of(
    scene: Scene, moves: Moves, nodes: NodePlan, granted: dict[str, int]
) -> tuple[list[Change], list[Change]]:
    """(decreases, raises and bounds), each sorted by model and pool. `granted`: replicas per model after this plan."""
    down: list[Change] = []
    up: list[Change] = []
    withdrawn = {
        part.key: (grant.id, grant.node_pool, count, why) for grant, part, count, why in nodes.withdrawn if count > 0
    }
    for holder in scene.holders.values():
        for part in holder.parts:
            if part.stuck is not None:
                continue
            going, coming = moves.going.get(part.key), moves.coming.get(part.key)
            if part.key in withdrawn and going is None:
                down.append(_withdrawal(scene, holder, part, *withdrawn[part.key], granted))
            elif going is not None or part.settle > 0:
                down.append(_decrease(scene, holder, part, going or Going(), granted))
            elif coming is not None:
                up.append(_increase(scene, holder, part, coming, granted))
            else:
                up += _bounds(scene, holder, part, granted)
    return down, up


def _minimum(scene: Scene, holder: Holder, part: Part, replicas: int, granted: dict[str, int]) -> int:
    """The lower bound to write beside `replicas`: the grant where the budget is fixed, else the guarded demand.

    Position must not be given away by an HPA that sees less. Lowering the minimum of an autoscaler that is ours is a
    decrease for every guard; while one forbids it, the minimum stays.
    """
    state = scene.pools.get(part.pool)
    owner = part.target.autoscaler
    if state is None or not state.grows or owner is None:
        return max(part.least, replicas)
    stays = min(replicas, max(part.least, owner.minimum))
    if holder.demand.unknown:
        return stays
    elsewhere = granted[holder.model.id] - part.held
    wanted = max(holder.demand.replicas, holder.floor) - max(0, elsewhere) + len(part.doomed)
    minimum = max(part.least, min(replicas, wanted))
    ours = owner.originals is not None
    return stays if ours and minimum < stays and not _may_lower(scene, holder, stays - minimum) else minimum


def _decrease(scene: Scene, holder: Holder, part: Part, going: Going, granted: dict[str, int]) -> Change:
    gone = len(going.pods)
    to = part.asked - part.settle - gone
    real = [pod for pod in going.pods if not pod.uid.startswith(UNSEEN)]
    purposes = set(going.purposes)
    return Change(
        id=f"{scene.snapshot.cycle}-{part.model}-{part.pool}",
        kind="release" if gone else "settle",
        model=part.model,
        target=part.target,
        replicas_from=part.asked,
        replicas_to=to,
        minimum=_minimum(scene, holder, part, to, granted),
        reason=_why_down(holder, part, going, scene),
        shift=going.shift,
        victims=tuple(pod.uid for pod in real),
        victim_names=tuple(pod.name for pod in real),
        passes=_passes(purposes, holder),
        counts=going.counts if gone else None,
        recipients=tuple(going.recipients),
        replaces=part.settled,
    )


def _passes(purposes: set[Purpose], holder: Holder) -> str | None:
    """Named only when every replica that goes passes for the same reason."""
    if purposes == {Purpose.DRAIN}:
        return "drain"
    if purposes == {Purpose.OVERRIDE}:
        return _override_words(holder.ruling.decides)
    if purposes == {Purpose.RECLAIM}:
        return "reclaim"
    return None


def _override_words(one: Override | None) -> str:
    below = " allowBelowFloor" if one is not None and one.allow_below_floor else ""
    return f"override {one.name}{below}" if one is not None else "override"


def _why_down(holder: Holder, part: Part, going: Going, scene: Scene) -> str:
    if not going.pods:
        return "doomed pods have gone; their replacements stay"
    words = []
    if Purpose.DRAIN in going.purposes:
        words.append("drain " + ", ".join(sorted({pod.node or "?" for pod in part.doomed})))
    if Purpose.OVERRIDE in going.purposes:
        words.append(_override_words(holder.ruling.decides))
    if going.recipients:
        home = "goes home to" if Purpose.RECLAIM in going.purposes else "for"
        words.append(f"{home} {', '.join(going.recipients)}")
    if Purpose.BUDGET in going.purposes:
        state = scene.pools[part.pool]
        words.append(f"pool {part.pool} has a budget of {state.budget} GPUs, {state.promised} are promised")
    if Purpose.SURPLUS in going.purposes:
        words.append("surplus")
    words.append(holder.demand.why)
    return ", ".join(words)


def _withdrawal(  # noqa: PLR0913  # the grant's own fields
    scene: Scene, holder: Holder, part: Part, grant: str, node_pool: str, count: int, why: str, granted: dict[str, int]
) -> Change:
    to = part.asked - count
    return Change(
        id=f"{scene.snapshot.cycle}-{part.model}-{part.pool}",
        kind="withdraw",
        model=part.model,
        target=part.target,
        replicas_from=part.asked,
        replicas_to=to,
        minimum=_minimum(scene, holder, part, to, granted),
        reason=f"node grant {grant} ended: {why}",
        passes="withdraw: only pods without a node go",
        grant=grant,
        node_pool=node_pool,
    )


def _increase(scene: Scene, holder: Holder, part: Part, coming: Coming, granted: dict[str, int]) -> Change:
    to = part.asked + coming.replicas
    replaced = unreplaced_pods(part, holder)[: coming.replicas]
    shift = next((one.id for one in scene.memory.shifts if one.recipient == part.model and one.pool == part.pool), None)
    ruled = holder.ruling.pin or holder.ruling.floor
    return Change(
        id=f"{scene.snapshot.cycle}-{part.model}-{part.pool}",
        kind="replace" if replaced else "grant",
        model=part.model,
        target=part.target,
        replicas_from=part.asked,
        replicas_to=to,
        minimum=_minimum(scene, holder, part, to, granted),
        reason=_why_up(holder, part, coming, len(replaced)),
        shift=shift,
        nodes=tuple(sorted(set(coming.nodes))),
        passes=_override_words(ruled) if ruled is not None else None,
        replaces=tuple(f"{part.pool}/{pod.uid}" for pod in replaced),
        grant=coming.grant,
        node_pool=coming.node_pool,
    )


def _why_up(holder: Holder, part: Part, coming: Coming, replaced: int) -> str:
    words = [holder.demand.why]
    if replaced:
        doomed = ", ".join(sorted({pod.node or "?" for pod in part.doomed}))
        words.insert(0, f"replaces {replaced} on {doomed}")
    if coming.nodes:
        words.append("on " + ", ".join(sorted(set(coming.nodes))))
    if coming.grant is not None:
        words.append(f"node grant {coming.grant} in nodepool {coming.node_pool}")
    return ", ".join(words)


def _bounds(scene: Scene, holder: Holder, part: Part, granted: dict[str, int]) -> list[Change]:
    """New bounds for an unchanged number: taking an autoscaler over, or a minimum that follows demand."""
    owner = part.target.autoscaler
    if owner is None or part.target.asked is not None or part.settle > 0:
        return []
    replicas = max(part.least, part.asked)
    minimum = _minimum(scene, holder, part, replicas, granted)
    taken_over = owner.originals is not None
    lower = taken_over and minimum < owner.minimum
    if taken_over and (owner.minimum, owner.maximum) == (minimum, replicas):
        return []
    return [
        Change(
            id=f"{scene.snapshot.cycle}-{part.model}-{part.pool}",
            kind="bounds",
            model=part.model,
            target=part.target,
            replicas_from=part.asked,
            replicas_to=replicas,
            minimum=minimum,
            reason=f"bounds {owner.minimum}-{owner.maximum} -> {minimum}-{replicas}"
            + ("" if taken_over else f", taking {owner.kind} {owner.name} over"),
            counts="step" if lower else None,
        )
    ]


def _may_lower(scene: Scene, holder: Holder, by: int) -> bool:
    """Lowering a minimum is a decrease for every guard: the HPA may take what it no longer has to keep."""
    tally = Tally.of(scene)
    for _ in range(by):
        release = Release(scene, tally, holder, Purpose.SURPLUS)
        if judge(release) is not None:
            return False
        tally.book(release)
    return True
