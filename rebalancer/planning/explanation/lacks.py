"""Models that lack replicas, what each waits for (a person, a guard, GPUs, or time), and which of them are short."""

from collections import Counter
from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.couples import Couple, couples
from rebalancer.domain.instant import when
from rebalancer.domain.memory import Loan, ModelMemory
from rebalancer.domain.plan import Unmet
from rebalancer.domain.quota_view import holding
from rebalancer.domain.words import counted, gpus, listed, replicas, sentences
from rebalancer.planning.actions.bringers import NODES
from rebalancer.planning.actions.moves import Moves
from rebalancer.planning.actions.planned_writes import PlannedWrites
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.allocation.roles import RATIO
from rebalancer.planning.demand.votes import UNTIL_LEARNT
from rebalancer.planning.explanation.lateness import has_now, lateness, short_of
from rebalancer.planning.explanation.patience import patience_words
from rebalancer.planning.explanation.unclaimed import unclaimed
from rebalancer.planning.facts.holdings import is_unseen
from rebalancer.planning.facts.limits import too_low
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.guards.foreign import STANDS_DOWN, keeps_borrowed, standing
from rebalancer.planning.guards.guards import stopped_by
from rebalancer.planning.shares.quotas import QUOTA
from rebalancer.planning.shares.share import ModelShare

_FOR_WANT_OF_GPUS = frozenset({"budget", "fit", NODES, STANDS_DOWN})
BY_PERSON = frozenset({"pause", "freeze", "override"})  # constraints: a person keeps the number where it is
MAXIMUM = "maximum"  # constraint: it has all that its maxReplicas allows


class Lack(NamedTuple):
    """Replicas that a model would use and has not, and why not; `short`: None while its requests are in time."""

    replicas: int
    why: str
    short: Unmet | None


def allocated(scene: Scene[ModelShare], allocation: Allocation) -> dict[str, int]:
    """Undoomed replicas per model as allocation wants it, before guards."""
    counts = {name: model.staying_replicas for name, model in scene.models.items()}
    for unit in allocation.units:
        counts[unit.target.model] += 1
        for victim in unit.victims:
            counts[victim.target.model] -= 1
    for victim in allocation.releases:
        counts[victim.target.model] -= 1
    return counts


def by_model(
    loans: tuple[Loan, ...],
) -> tuple[Counter[str | None], dict[str | None, tuple[tuple[str, int], ...]], Counter[str]]:
    """Replicas lent by owner, GPUs lent by owner to whom, and replicas borrowed by borrower."""
    gpus_to: dict[str | None, Counter[str]] = {}
    for loan in loans:
        gpus_to.setdefault(loan.owner, Counter())[loan.borrower] += loan.gpus
    lent = {owner: tuple(sorted(counts.items())) for owner, counts in gpus_to.items()}
    return Counter([loan.owner for loan in loans]), lent, Counter([loan.borrower for loan in loans])


def lends_words(lent: tuple[tuple[str, int], ...]) -> str:
    """`lends 2 GPUs to code`, "" where nothing is lent."""
    return f"lends {listed([f'{gpus(count)} to {name}' for name, count in lent])}" if lent else ""


def lacking(
    scene: Scene[ModelShare], allocation: Allocation, moves: Moves, loans: tuple[Loan, ...], writes: PlannedWrites
) -> tuple[dict[str, Lack], dict[str, ModelMemory]]:
    """The models that lack replicas, each with its constraint, and memory of since when."""
    lacks = {}
    memories = {name: model.remembered for name, model in scene.models.items()}
    wanted, granted, none_come = allocated(scene, allocation), writes.changes.granted, writes.nodes.none_come
    _, lent, _ = scene.memo.of("", by_model, loans)
    on_new_nodes = _on_new_nodes(moves)
    coupled, beside, holders = scene.memo.of("", couples, scene.policy), _beside(scene), _holders(scene)
    for name in sorted(scene.models):
        model = _without_homeless(scene.models[name], allocation)
        memory, short = model.remembered, short_of(model)
        since = (memory.unmet_since if memory.unmet_since is not None else scene.now) if short else None
        if since != memory.unmet_since:
            memories[name] = replace(memory, unmet_since=since)
        if since is None and not model.lacks:
            continue
        brought, enough = on_new_nodes[name], granted[name] >= model.needed
        declined = wanted[name] < model.needed
        constraint, why = _binding(model, holders, allocation, moves, declined=declined, brought=brought, enough=enough)
        if short and not model.lacks:
            constraint, why = _beyond_need(model)
        couple = coupled.get(name)
        if (
            couple
            and constraint in {"budget", "waiting"}
            and (unborne := _unborne(couple, model, scene, at=wanted[name]))
        ):
            constraint, why = RATIO, unborne
        if constraint in {"budget", "fit"}:
            outsiders = (beside[pool] for pool in sorted({target.pool for target in model.targets} & beside.keys()))
            none = none_come.get(name, "") or _limited(name, scene)
            constraint, why = NODES if none else constraint, sentences(none, why, *outsiders)
        others = _written_by_others(model, scene) if constraint in _FOR_WANT_OF_GPUS else ""
        if others:
            constraint, why = STANDS_DOWN, others
        if writes.stop is not None and model.needed > model.staying_replicas:
            constraint, why = stopped_by(scene), writes.stop
        row = None
        if since is not None:
            why = sentences(why, _while_it_lends(model, lent.get(name, ()), constraint, scene))
            row = Unmet(name, short, constraint, why, since, lateness(model, has_now(model)))
        lacks[name] = Lack(model.lacks, why, row)
    return lacks, memories


def _on_new_nodes(moves: Moves) -> Counter[str]:
    """Replicas granted onto nodes to come, by model."""
    counts: Counter[str] = Counter()
    for (name, _), coming in moves.coming.items():
        counts[name] += coming.on_new_nodes
    return counts


def _limited(name: str, scene: Scene[ModelShare]) -> str:
    """Why no node comes for node grants of the model: limits of NodePools that are too low; "" where none is."""
    whys = [too_low(scene, grant) for grant in scene.memory.node_grants if grant.model == name]
    return sentences(*dict.fromkeys(whys))


def _without_homeless(model: ModelShare, allocation: Allocation) -> ModelShare:
    """The model without the replicas that load nowhere: their pods fit on no node, and none comes for them."""
    homeless = min(allocation.homeless.get(model.entry.id, (0,))[0], model.loading_staying)
    if not homeless:
        return model
    loading = model.loading_staying - homeless
    lacks = max(0, max(model.needed, model.unruled) - model.ready_staying - loading)
    return replace(model, loading_staying=loading, lacks=lacks)


def _beside(scene: Scene[ModelShare]) -> dict[str, str]:
    """Who holds GPUs besides the models, and until when, by pool; none where nobody does."""
    held = {name: pool.view.others for name, pool in scene.pools.items() if pool.view.others}
    return {pool: f"besides models GPUs of {pool} are held by {holding(others)}" for pool, others in held.items()}


def _beyond_need(model: ModelShare) -> tuple[str, str]:
    """The constraint of who is short and has all that it needs by now: its votes do not count yet, or its maximum."""
    wait = unclaimed(model)
    if wait is not None:
        return "waiting", wait.clause
    return MAXIMUM, f"its policy allows {replicas(model.entry.max_replicas)} at most (maxReplicas)"


def _while_it_lends(
    model: ModelShare, lent: tuple[tuple[str, int], ...], constraint: str, scene: Scene[ModelShare]
) -> str:
    """Why an owner that is short lends all the same; "" where it does not, or `constraint` says it."""
    if not lent or constraint == STANDS_DOWN:  # who keeps what it lent is said there already
        return ""
    own, owed, wait = model.entry.entitlement, model.demand.owed, unclaimed(model)
    if wait is not None and not model.lacks:
        why = f"its work and its votes claim {owed} of the {own} that it owns by now"
    elif constraint == "waiting":
        why = "those come home"
    elif constraint in BY_PERSON or constraint == "schedule":
        why = "those come home when that ends"
    elif wait is not None:
        why = f"its work and its votes claim {owed} of its own by now; {wait.clause}"
    elif owed < own:
        why = f"its work and its votes claim {owed} of the {own} that it owns, and what nobody claims goes by worth"
    else:
        borrowers = [scene.models[name] for name, _ in lent if name in scene.models]
        waits = [words for borrower in borrowers if (words := _not_there(model, borrower, scene.now))]
        why = "; ".join(waits) or "those come home as soon as that allows"
    return f"{lends_words(lent)}: {why}"


def _not_there(owner: ModelShare, borrower: ModelShare, now: float) -> str:
    """For which pods on other pools a borrower keeps what serves (`donors._instead`), and who says why; "" for none."""
    name, namespace = borrower.entry.id, borrower.entry.namespace
    lent_on = {target.pool for target in owner.targets}  # where what waits goes before what serves
    for target in (each for each in borrower.targets if each.pool not in lent_on):
        waiting = [pod for pod in target.staying_pods if pod.node is None]
        if not waiting:
            continue
        one, until = len(waiting) == 1, f"{name} keeps what serves there until {counted(len(waiting), 'pod')} of it on"
        made = [(pod.created_at, pod.name) for pod in waiting if not is_unseen(pod)]
        if not made:
            return f"{until} {target.pool} {'is' if one else 'are'} made"
        since, pod_name = min(made)
        none = f"{'has' if one else 'have'} a node: none since {when(since, now)}"
        return f"{until} {target.pool} {none}, and kubectl --namespace {namespace} describe pod {pod_name} says why"
    return ""


def _written_by_others(model: ModelShare, scene: Scene[ModelShare]) -> str:
    """Why there are no GPUs for a model: we stand down on it, or on somebody who keeps GPUs that are its own."""
    if all(target.stuck == STANDS_DOWN for target in model.targets):
        return standing(model, scene)
    return keeps_borrowed(model, scene) if model.staying_replicas < min(model.needed, model.entry.entitlement) else ""


def _unborne(couple: Couple, model: ModelShare, scene: Scene[ModelShare], at: int) -> str:
    """Why a role goes no further than to `at` replicas, which is all that the other one bears; "" where it is not."""
    if at >= model.needed:
        return ""
    other = scene.models[couple.other(model.entry.id)]
    borne = couple.span(model.entry.id, other.aim)[1]
    return couple.words(model.entry.id, other.staying_replicas) if at >= borne else ""


Holders = dict[str, dict[str, str]]
"""Who has GPUs of a pool whatever they are worth there, by pool and model, as a clause."""


def _holders(scene: Scene[ModelShare]) -> Holders:
    """By model once for all who lack: at 1,000 models each would look at all."""
    held: Holders = {}
    for name, model in scene.models.items():
        if clause := _holds(model):
            for target in model.targets:
                held.setdefault(target.pool, {})[name] = clause
    return held


def _holds(model: ModelShare) -> str:
    """By a person's word, a schedule, as an owner, or since nobody knows what it needs; "" where worth decides."""
    name, own, keeps = model.entry.id, model.entry.entitlement, min(model.staying_replicas, model.aim)
    person, ruled = model.ruling.paused or model.ruling.frozen, model.ruling.words(model.entry, model.unruled)
    if person is not None and model.staying_replicas:
        return f"{person.kind} by override {person.name} keeps {name} at {model.staying_replicas}"
    if ruled and model.unruled < model.demand.replicas and model.aim <= model.demand.replicas:
        return f"{ruled} keeps {name} at {model.aim}"
    if model.share is not None:
        claims = 0 < model.share <= min(model.demand.owed, own)
        return f"{name} claims {model.share} of the {own} that it owns" if claims else ""
    if model.ballot.unlearnt and keeps > model.floor:
        return f"{name} keeps its {keeps} {UNTIL_LEARNT}"
    return f"{name} keeps its {keeps}, since {model.demand.why}" if model.demand.unknown and keeps > model.floor else ""


def _held_beside(model: ModelShare, holders: Holders) -> list[str]:
    """The clauses of the others in its pools."""
    held: dict[str, str] = {}
    for target in model.targets:
        held |= holders.get(target.pool, {})
    held.pop(model.entry.id, None)
    return [*held.values()]


def _binding(  # noqa: PLR0911, PLR0913  # one per kind of constraint, one thing each
    model: ModelShare,
    holders: Holders,
    allocation: Allocation,
    moves: Moves,
    *,
    declined: bool,
    brought: int,
    enough: bool,
) -> tuple[str, str]:
    """The constraint that a model's need waits for (a person, a guard, GPUs, or time), and a sentence about it.

    `brought`: replicas that it is granted onto nodes to come. `enough`: whether it has all that it needs with these.
    """
    name, ruling = model.entry.id, model.ruling
    person = ruling.paused or ruling.frozen
    if person is not None:
        return person.kind, f"{person.kind} by override {person.name} leaves it as it is"
    if model.needed <= model.staying_replicas and model.demand.replicas < model.unruled:
        kept_by = "override" if ruling.decides is not None else "schedule"
        return kept_by, f"{ruling.words(model.entry, model.unruled)} keeps it at {model.demand.replicas}"
    if moves.blocked.get(name):
        refusal = moves.blocked[name][0]
        return refusal.guard, str(refusal)
    full = moves.quotas.refusing(model.targets, more=declined)
    if full:
        return QUOTA, full
    if name in allocation.short and not (brought and enough):
        _, constraint, why = allocation.short[name]
        why = sentences(why, patience_words(model))
        return constraint, f"{brought} granted, on a node that comes; beyond that {why}" if brought else why
    if model.share is not None and declined:
        pools = ", ".join(target.pool for target in model.targets)
        share = f"its share of {pools} is {replicas(model.share)}"
        if held := _held_beside(model, holders):
            return (
                "budget",
                f"{share}: {listed(held)}, and each GPU left goes to the model where it saves the most late requests",
            )
        return "budget", f"{share}, since the other GPUs there keep more requests from being late elsewhere"
    if name in allocation.homeless:
        count, constraint, why = allocation.homeless[name]
        return constraint, f"{replicas(count)} of it {'has' if count == 1 else 'have'} no node to start on: {why}"
    if moves.waiting.get(name):
        return "waiting", f"it waits for {listed(sorted(set(moves.waiting[name])))}"
    return "waiting", _coming(model)


def _coming(model: ModelShare) -> str:
    if model.staying_replicas < model.needed:
        return "this plan asks for them"  # in shadow each plan does, and nothing is written
    gated = sum(pod.gated is True for target in model.targets for pod in target.staying_pods)
    admitted = f"; {counted(gated, 'pod')} wait for an admission, as Kueue's" if gated else ""
    return f"granted, its pods are on their way{admitted}"
