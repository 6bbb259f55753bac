"""The last stage: every model's demand, allocation and grant in numbers, every pool's arithmetic, and what is unmet."""

from collections import Counter

from msgspec.structs import replace

from rebalancer.domain.memory import Loan, ModelMemory
from rebalancer.domain.plan import ModelDecision, PoolDecision, Refusal, Unmet
from rebalancer.domain.words import gpus, listed, replicas
from rebalancer.planning.actions.moves import Moves
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.demand.at_work import at_work
from rebalancer.planning.explanation.steps import Told, steps_of
from rebalancer.planning.facts.scene import PoolFacts, Scene
from rebalancer.planning.guards.foreign import STANDS_DOWN, keeps_borrowed, standing
from rebalancer.planning.guards.guards import stopped_by
from rebalancer.planning.overrides.rulings import NO_RULING
from rebalancer.planning.shares.share import ModelShare

_FOR_WANT_OF_GPUS = frozenset({"budget", "fit", STANDS_DOWN})


def merged(refusals: list[Refusal]) -> tuple[Refusal, ...]:
    """One refusal per guard and subject: replicas refused one by one are one move refused."""
    found: dict[tuple[str, str], Refusal] = {}
    for refusal in refusals:
        key = (refusal.guard, refusal.subject)
        known = found.get(key)
        found[key] = refusal if known is None else _together(known, refusal)
    return tuple(found[key] for key in sorted(found))


def _together(one: Refusal, more: Refusal) -> Refusal:
    """Two refusals as one: a refused replica is not gone, so of refusals from the same number the moves add up."""
    to = min(one.replicas_to, more.replicas_to)
    if one.replicas_from == more.replicas_from:
        to = one.replicas_to + more.replicas_to - more.replicas_from
    return replace(one, replicas_from=max(one.replicas_from, more.replicas_from), replicas_to=max(0, to))


def allocated(scene: Scene[ModelShare], found: Allocation) -> dict[str, int]:
    """Undoomed replicas per model as allocation wants it, before guards."""
    counts = {name: model.staying_replicas for name, model in scene.models.items()}
    for unit in found.units:
        counts[unit.target.model] += 1
        for victim in unit.victims:
            counts[victim.target.model] -= 1
    for victim in found.releases:
        counts[victim.target.model] -= 1
    return counts


def _by_model(
    loans: tuple[Loan, ...],
) -> tuple[Counter[str | None], dict[str | None, tuple[tuple[str, int], ...]], Counter[str]]:
    """Replicas lent by owner, GPUs lent by owner to whom, and replicas borrowed by borrower."""
    gpus_to: dict[str | None, Counter[str]] = {}
    for loan in loans:
        gpus_to.setdefault(loan.owner, Counter())[loan.borrower] += loan.gpus
    lent = {owner: tuple(sorted(counts.items())) for owner, counts in gpus_to.items()}
    return Counter([loan.owner for loan in loans]), lent, Counter([loan.borrower for loan in loans])


def explain_models(  # noqa: PLR0913  # every stage's result is shown
    scene: Scene[ModelShare],
    found: Allocation,
    moves: Moves,
    loans: tuple[Loan, ...],
    after: dict[str, int],
    refusals: tuple[Refusal, ...],
    needs: tuple[Unmet, ...],
) -> tuple[ModelDecision, ...]:
    """One decision per model, sorted by id, each stage a step with its numbers."""
    wanted = allocated(scene, found)
    lent, gpus_lent, borrowed = scene.memo.of("", _by_model, loans)
    short = {row.model: row for row in needs}
    by_subject: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        by_subject.setdefault(refusal.subject, []).append(refusal)
    decisions = []
    for name in sorted(scene.models):
        model = scene.models[name]
        own, lends = by_subject.get(name, []), lent.get(name, 0)
        told = Told(wanted[name], after[name], moves.waiting.get(name, ()))
        decisions.append(
            ModelDecision(
                model=name,
                demand=None if model.demand.unknown else model.needed,
                allocation=told.allocation,
                granted=told.after,
                ready=model.ready_staying + _unsettled(model, scene.doomed),
                loading=model.loading_staying,
                doomed=model.doomed,
                floor=model.entry.min_replicas,
                surge=model.demand.surge,
                lent=lends,
                borrowed=borrowed.get(name, 0),
                why=_headline(model, short.get(name), own, gpus_lent.get(name, ()), _given(model, moves)),
                steps=steps_of(model, told, own, scene),
            )
        )
    return tuple(decisions)


def _unsettled(model: ModelShare, doomed: frozenset[str]) -> int:
    """Ready replicas that go once a number comes back; they serve until that is written, which may be refused for long.

    Need is met without them, therefore `ModelShare.ready_staying` is.
    """
    going = [pod for target in model.targets for pod in target.leaving_pods[: target.settle]]
    return len([pod for pod in going if pod.phase == "ready" and not pod.on(doomed)])


def _given(model: ModelShare, moves: Moves) -> tuple[int, tuple[str, ...]]:
    """How many of the model's replicas this plan lets go, and for whom."""
    going = [moves.going[target.key] for target in model.targets if target.key in moves.going]
    names = sorted({name for one in going for name in one.recipients})
    return sum(len(one.pods) for one in going), tuple(names)


def _headline(
    model: ModelShare,
    short: Unmet | None,
    refusals: list[Refusal],
    lent: tuple[tuple[str, int], ...],
    given: tuple[int, tuple[str, ...]],
) -> str:
    """The one thing to know about the model, as a sentence without its subject."""
    if short is not None:
        return f"is short of {replicas(short.replicas)}: {short.why}"
    if refusals:
        return refusals[0].said
    if model.demand.unknown:
        return model.demand.why
    count, recipients = given
    if count:
        to = f"gives {replicas(count)} to {listed(recipients)}" if recipients else f"gives up {replicas(count)}"
        return f"{to}; has {at_work(model)}"
    lends = f"lends {listed([f'{gpus(count)} to {name}' for name, count in lent])}; " if lent else ""
    return model.demand.why if not lends and model.ruling is not NO_RULING else f"{lends}has {at_work(model)}"


def explain_pools(scene: Scene[ModelShare], loans: tuple[Loan, ...]) -> tuple[PoolDecision, ...]:
    """The arithmetic of each pool: owned + lent + loading + doomed + foreign + free, and what is promised of what."""
    lent: Counter[str] = Counter()
    for loan in loans:
        lent[loan.pool] += loan.gpus
    return tuple(_pool(scene, scene.pools[name], lent[name]) for name in sorted(scene.pools))


def _pool(scene: Scene[ModelShare], state: PoolFacts, lent: int) -> PoolDecision:
    ready = loading = doomed = 0
    for node in state.view.nodes:
        taken = state.taken.get(node.name)
        if taken is not None and node.name in scene.doomed:
            doomed += taken.gpus
        elif taken is not None:
            ready += taken.ready
            loading += taken.gpus - taken.ready
    total = sum(node.gpus for node in state.view.nodes)
    foreign = sum(node.foreign_gpus for node in state.view.nodes)
    lent = min(ready, lent)
    return PoolDecision(
        pool=state.pool.name,
        budget=state.budget,
        promised=state.promised,
        owned=ready - lent,
        lent=lent,
        loading=loading,
        doomed=doomed,
        foreign=foreign,
        free=max(0, total - foreign - ready - loading - doomed),
    )


def unmet(
    scene: Scene[ModelShare],
    found: Allocation,
    moves: Moves,
    granted: dict[str, int],
    stop: str | None,
) -> tuple[tuple[Unmet, ...], dict[str, ModelMemory]]:
    """Needs that stay open with their binding constraint, and memory of since when. `stop`: nothing is written."""
    rows = []
    kept = {name: model.remembered for name, model in scene.models.items()}
    wanted = allocated(scene, found)
    with_nodes = {name for (name, _), one in moves.coming.items() if one.grant}
    for name in sorted(scene.models):
        model = scene.models[name]
        memory = model.remembered
        since = (memory.unmet_since if memory.unmet_since is not None else scene.now) if model.short else None
        if since != memory.unmet_since:
            kept[name] = replace(memory, unmet_since=since)
        if since is not None:
            brought = granted[name] if name in with_nodes else 0
            constraint, why = _binding(model, found, moves, declined=wanted[name] < model.needed, brought=brought)
            others = _written_by_others(model, scene) if constraint in _FOR_WANT_OF_GPUS else ""
            if others:
                constraint, why = STANDS_DOWN, others
            if stop is not None and model.needed > model.staying_replicas:
                constraint, why = stopped_by(scene), stop
            rows.append(Unmet(model=name, replicas=model.short, constraint=constraint, why=why, since=since))
    return tuple(rows), kept


def _written_by_others(model: ModelShare, scene: Scene[ModelShare]) -> str:
    """Why there are no GPUs for a model: we stand down on it, or on somebody who keeps GPUs that are its own."""
    if all(target.stuck == STANDS_DOWN for target in model.targets):
        return standing(model, scene)
    return keeps_borrowed(model, scene) if model.staying_replicas < min(model.needed, model.entry.entitlement) else ""


def _binding(model: ModelShare, found: Allocation, moves: Moves, *, declined: bool, brought: int) -> tuple[str, str]:
    """The constraint that a model's need waits for (a person, a guard, GPUs, or time), and a sentence about it.

    `brought`: replicas that it is granted, where a node comes for some of them.
    """
    name, ruling = model.entry.id, model.ruling
    person = ruling.paused or ruling.frozen
    if person is not None:
        return person.kind, f"{person.kind} by override {person.name} leaves it as it is"
    if moves.blocked.get(name):
        refusal = moves.blocked[name][0]
        return refusal.guard, str(refusal)
    if name in found.short and brought < model.needed:
        _, constraint, why = found.short[name]
        return constraint, f"{brought} granted, on a node that comes; beyond that {why}" if brought else why
    if model.share is not None and declined:
        pools = ", ".join(target.pool for target in model.targets)
        share = f"its share of {pools} is {replicas(model.share)}"
        return "budget", f"{share}, since the other GPUs there keep more requests from being late elsewhere"
    if moves.waiting.get(name):
        return "waiting", f"it waits for {listed(sorted(set(moves.waiting[name])))}"
    return "waiting", "granted, its pods are on their way"
