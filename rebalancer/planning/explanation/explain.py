"""The last stage: every model's demand, allocation and grant in numbers, every pool's arithmetic, and who is short."""

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from rebalancer.domain.arithmetic import uncounted
from rebalancer.domain.memory import Loan
from rebalancer.domain.plan import ModelDecision, PoolDecision, Refusal
from rebalancer.domain.words import listed, replicas, sentences
from rebalancer.planning.actions.changes import borrowed_of
from rebalancer.planning.actions.moves import Moves
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.demand.at_work import at_work
from rebalancer.planning.explanation.lacks import Lack, allocated, by_model, lends_words
from rebalancer.planning.explanation.lateness import in_time, late_now
from rebalancer.planning.explanation.node_words import node_words
from rebalancer.planning.explanation.steps import StepResults, steps_of
from rebalancer.planning.explanation.unclaimed import unclaimed
from rebalancer.planning.facts.scene import PoolFacts, Scene
from rebalancer.planning.overrides.rulings import NO_RULING
from rebalancer.planning.shares.share import ModelShare


def merged(refusals: list[Refusal]) -> tuple[Refusal, ...]:
    """One refusal per guard and subject: replicas refused one by one are one move refused."""
    by_subject: dict[tuple[str, str], Refusal] = {}
    for refusal in refusals:
        key = (refusal.guard, refusal.subject)
        known = by_subject.get(key)
        by_subject[key] = refusal if known is None else _together(known, refusal)
    return tuple(by_subject[key] for key in sorted(by_subject))


def _together(one: Refusal, more: Refusal) -> Refusal:
    """Two refusals as one: a refused replica is not gone, so of refusals from the same number the moves add up."""
    to = min(one.replicas_to, more.replicas_to)
    if one.replicas_from == more.replicas_from:
        to = one.replicas_to + more.replicas_to - more.replicas_from
    return replace(one, replicas_from=max(one.replicas_from, more.replicas_from), replicas_to=max(0, to))


def explain_models(  # noqa: PLR0913  # every stage's result is shown
    scene: Scene[ModelShare],
    allocation: Allocation,
    moves: Moves,
    loans: tuple[Loan, ...],
    after: dict[str, int],
    refusals: tuple[Refusal, ...],
    lacks: Mapping[str, Lack],
) -> tuple[tuple[ModelDecision, ...], list[Exception]]:
    """One decision per model, sorted by id, each stage a step with its numbers; and what making their sentences raised.

    A model for which that fails has its numbers, and the error in place of the sentences: what was decided is written
    by then, and the others are to be told of.
    """
    wanted = allocated(scene, allocation)
    lent, gpus_lent, borrowed = scene.memo.of("", by_model, loans)
    unowned = Counter(loan.borrower for loan in loans if loan.owner is None)
    by_subject: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        by_subject.setdefault(refusal.subject, []).append(refusal)
    decisions, failures = [], list[Exception]()
    for name in sorted(scene.models):
        model = scene.models[name]
        own, lends, lack = by_subject.get(name, []), lent.get(name, 0), lacks.get(name)
        results = StepResults(wanted[name], after[name], moves.waiting.get(name, ()))
        decision = ModelDecision(
            model=name,
            demand=None if model.demand.unknown else model.needed,
            allocation=results.allocation,
            granted=results.after,
            ready=model.ready_staying + _unsettled(model, scene.doomed),
            loading=model.loading_staying,
            doomed=model.doomed,
            floor=model.entry.min_replicas,
            surge=model.demand.surge,
            lent=lends,
            borrowed=borrowed.get(name, 0),
            why="",
            headroom=0 if lack is None or lack.short else lack.replicas,
            unowned=unowned[name],
        )
        try:
            why = _headline(model, lack, own, gpus_lent.get(name, ()), _given(model, moves, scene))
            decisions.append(replace(decision, why=why, steps=steps_of(model, results, own, scene)))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this model's, and it is told
            decisions.append(replace(decision, why=_unexplained(error)))
            failures.append(error)
    return tuple(decisions), failures


def _unsettled(model: ModelShare, doomed: frozenset[str]) -> int:
    """Ready replicas that go once a number comes back; they serve until that is written, which may be refused for long.

    Need is met without them, therefore `ModelShare.ready_staying` is.
    """
    going = [pod for target in model.targets for pod in target.leaving_pods[: target.settle]]
    return len([pod for pod in going if pod.phase == "ready" and not pod.on(doomed)])


def _given(model: ModelShare, moves: Moves, scene: Scene[ModelShare]) -> str:
    """How many of the model's replicas this plan lets go, and for whom; "" where it lets none go."""
    going = [moves.going[target.key] for target in model.targets if target.key in moves.going]
    names, count = sorted({name for one in going for name in one.recipients}), sum(len(one.pods) for one in going)
    if not count:
        return ""
    verb = "returns" if count <= borrowed_of(model, names, scene) else "gives"
    return f"{verb} {replicas(count)} to {listed(names)}" if names else f"gives up {replicas(count)}"


def _headline(
    model: ModelShare,
    lack: Lack | None,
    refusals: list[Refusal],
    lent: tuple[tuple[str, int], ...],
    given: str,
) -> str:
    """The one thing to know about the model, as a sentence without its subject."""
    if lack is not None and lack.short is not None:
        return f"is short of {replicas(lack.short.replicas)}: {lack.short.why}"
    if refusals:
        return refusals[0].sentence
    if model.demand.unknown:
        return model.demand.why
    if given:
        return sentences(given, f"has {at_work(model)}", late_now(model))
    state = model.demand.why if not lent and model.ruling is not NO_RULING else f"has {at_work(model)}"
    wait = unclaimed(model)
    lacks = "" if wait is None else f"lacks {replicas(wait.lacks)}: {wait.clause}"
    return sentences(lends_words(lent), state, lacks, late_now(model), "" if lacks else _would_use(model, lack))


def _would_use(model: ModelShare, lack: Lack | None) -> str:
    """What a model that is not short would use as room for bursts, or what a ruling still has to bring."""
    if lack is None:
        return ""
    if model.demand.replicas > model.unruled:
        return f"waits for {lack.replicas} more: {lack.why}"
    fine = in_time(model)
    return f"would use {lack.replicas} more" + (f", and {fine}" if fine else "")


def explain_pools(
    scene: Scene[ModelShare], loans: tuple[Loan, ...]
) -> tuple[tuple[PoolDecision, ...], list[Exception]]:
    """The arithmetic of each pool: owned + lent + loading + doomed + foreign + free, and what is promised of what.

    And what making the sentences about its nodes raised, as of models.
    """
    lent: Counter[str] = Counter()
    for loan in loans:
        lent[loan.pool] += loan.gpus
    pools, failures = [], list[Exception]()
    for name in sorted(scene.pools):
        state = scene.pools[name]
        pool = _pool(state, scene.doomed, lent[name])
        try:
            pools.append(replace(pool, nodes=node_words(state, scene.now)))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this pool's, and it is told
            pools.append(replace(pool, nodes=(_unexplained(error),)))
            failures.append(error)
    return tuple(pools), failures


def _unexplained(error: Exception) -> str:
    """The sentence in place of those that could not be made."""
    return f"could not be explained: {type(error).__name__}: {error}"


def _pool(state: PoolFacts, doomed_nodes: frozenset[str], lent: int) -> PoolDecision:
    ready = loading = doomed = closed = 0
    for node in state.view.nodes:
        taken = state.taken.get(node.name)
        if node.name not in state.rooms:
            closed += max(0, node.gpus - node.foreign_gpus - (taken.gpus if taken is not None else 0))
        if taken is not None and node.name in doomed_nodes:
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
        free=max(0, total - foreign - ready - loading - doomed - closed),
        others=state.view.others,
        uncounted=uncounted(state.view),
        warm=sum(node.warm_gpus for node in state.view.nodes),
        preemptible=sum(node.preemptible_gpus for node in state.view.nodes),
        closed=closed,
    )
