"""Stage 0: what became of our writes, folded into memory; windows pruned, loans and node grants brought up to date.

Only writes that happened count (`Outcome.happened`): a shadow plan or a refused write leaves no trace, so the same
plan is made again until it goes through.
"""

from msgspec.structs import replace

from rebalancer.domain.memory import GrantFailure, Loss, Memory, ModelMemory, NodeGrant, Shift
from rebalancer.domain.outcome import Intent, Outcome
from rebalancer.domain.policy import Policy

RAISES = frozenset({"grant", "replace"})
MOVES = frozenset({"release", "grant", "replace", "withdraw", "settle", "bounds"})


def recall(memory: Memory, outcomes: tuple[Outcome, ...], policy: Policy, now: float) -> Memory:
    """Memory after `outcomes`, without what no window needs any more at `now`."""
    models = dict(memory.models)
    shifts = {shift.id: shift for shift in memory.shifts}
    grants = list(memory.node_grants)
    failures = [failure for failure in memory.grant_failures if failure.until > now]
    for outcome in outcomes:
        if not outcome.happened:
            continue
        intent = outcome.intent
        if intent.kind in MOVES:
            models[intent.subject] = _after_move(models.get(intent.subject, ModelMemory()), intent, outcome.at)
        if intent.kind in RAISES and intent.grant is not None and intent.node_pool is not None:
            grants.append(_node_grant(intent, policy, outcome.at))
        if intent.kind == "withdraw" and intent.grant is not None:
            grants, failures = _withdrawn(grants, failures, intent, policy, outcome.at)
        _note_shift(shifts, intent, outcome.at)
    known = {model.id for model in policy.models}
    return Memory(
        models={name: _pruned(kept, policy, now) for name, kept in sorted(models.items()) if name in known},
        loans=tuple(loan for loan in memory.loans if loan.borrower in known),
        shifts=tuple(sorted(shifts.values(), key=lambda shift: (shift.opened_at, shift.id))),
        node_grants=tuple(grants),
        grant_failures=tuple(failures),
        overrides=memory.overrides,
        outage=memory.outage,
    )


def _after_move(kept: ModelMemory, intent: Intent, at: float) -> ModelMemory:
    """A model's memory after one of its targets was asked for another number."""
    replaced = set(kept.replaced)
    settled = replaced & set(intent.replaces) if intent.kind in {"release", "settle"} else set()
    replaced = replaced - settled if intent.kind in {"release", "settle"} else replaced | set(intent.replaces)
    losses = kept.losses
    if intent.counts is not None and intent.counted > 0:
        losses = (*losses, Loss(at=at, replicas=intent.counted, counts=intent.counts))
    moved = at if intent.kind in {"release", *RAISES} else kept.last_move_at
    return replace(kept, losses=losses, replaced=tuple(sorted(replaced)), last_move_at=moved)


def _node_grant(intent: Intent, policy: Policy, at: float) -> NodeGrant:
    gpus = next(model.gpus_per_replica for model in policy.models if model.id == intent.subject)
    replicas = intent.replicas_to - intent.replicas_from
    return NodeGrant(
        id=intent.grant or "",
        model=intent.subject,
        pool=intent.pool,
        node_pool=intent.node_pool or "",
        replicas=replicas,
        gpus=replicas * gpus,
        asked_at=at,
        until=at + policy.nodes.node_timeout_seconds,
    )


def _withdrawn(
    grants: list[NodeGrant], failures: list[GrantFailure], intent: Intent, policy: Policy, at: float
) -> tuple[list[NodeGrant], list[GrantFailure]]:
    """What was withdrawn of a grant ends; its NodePool is left alone for one more time-out."""
    until = at + policy.nodes.node_timeout_seconds
    left = []
    for grant in grants:
        replicas = grant.replicas
        if grant.id == intent.grant:
            replicas -= intent.replicas_from - intent.replicas_to
            grant = replace(grant, replicas=replicas, until=until)  # noqa: PLW2901  # what is left of it
        if replicas > 0:
            left.append(grant)
    return left, [*failures, GrantFailure(node_pool=intent.node_pool or "", until=until, why=intent.reason)]


def _note_shift(shifts: dict[str, Shift], intent: Intent, at: float) -> None:
    """Open a shift per recipient at its first release; a recipient's raise grants those that are open in its pool."""
    if intent.kind == "release":
        for recipient in intent.recipients:
            name = f"s{intent.cycle}-{recipient}-{intent.pool}"
            opened = Shift(name, intent.pool, recipient, donors=(), replicas=0, opened_at=at, released_at=at)
            shift = shifts.get(name, opened)
            donors = tuple(sorted({*shift.donors, intent.subject}))
            lost = intent.replicas_from - intent.replicas_to
            shifts[name] = replace(shift, donors=donors, replicas=shift.replicas + lost)
    elif intent.kind in RAISES:
        for shift in list(shifts.values()):
            if (shift.recipient, shift.pool) == (intent.subject, intent.pool) and shift.granted_at is None:
                shifts[shift.id] = replace(shift, granted_at=at)


def _pruned(kept: ModelMemory, policy: Policy, now: float) -> ModelMemory:
    """Losses older than every window are forgotten."""
    guards = policy.guards
    longest = max(guards.step.window_seconds, guards.fleet.window_seconds, guards.shift.window_seconds)
    losses = tuple(loss for loss in kept.losses if now - loss.at < longest)
    return kept if len(losses) == len(kept.losses) else replace(kept, losses=losses)
