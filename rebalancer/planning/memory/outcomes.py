"""Outcomes of our writes are folded into memory; losses older than every guard's window are forgotten. The first stage.

Only writes that happened count (`Outcome.happened`): a shadow plan or a refused write leaves no trace, so the same plan
is made again until it goes through. A NodePool's limit that was not raised is noted on the grants that wait for it,
since they open without it. An outcome that says nothing to the policy in force is skipped alone (`stranger`),
and memory of models and pools that left the policy is forgotten.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from msgspec.structs import replace

from rebalancer.domain.memory import GrantFailure, Loss, Memory, ModelMemory, NodeGrant, Replaced, Shift
from rebalancer.domain.outcome import FAILED, REFUSED, WRITTEN, Intent, Outcome
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot

RAISES = frozenset({"grant", "replace"})
MOVES = frozenset({"release", "grant", "replace", "withdraw", "settle", "bounds"})
KINDS = MOVES | {"limit", "restore-limit", "hold", "end-hold", "cordon", "uncordon", "evict", "delete"}
UNBELIEVED = -1  # replicas that nobody can have asked for
FIRST_REST_SECONDS = 60.0  # of a NodePool whose NodeClaim failed; a cloud's shortage of one type lasts minutes


def recall(memory: Memory, outcomes: tuple[Outcome, ...], policy: Policy, now: float) -> Memory:
    """Memory after `outcomes`, without what no window needs any more at `now`."""
    models = dict(memory.models)
    shifts = {(shift.id, shift.recipient): shift for shift in memory.shifts}
    grants = list(memory.node_grants)
    remembered = policy.nodes.node_timeout_seconds
    failures = [failure for failure in memory.grant_failures if failure.until + remembered > now]
    gpus = {model.id: model.gpus_per_replica for model in policy.models}
    going = _going(memory) if outcomes else frozenset()
    for outcome in outcomes:
        intent = outcome.intent
        if not outcome.happened or stranger(intent, gpus) is not None:
            continue
        if intent.kind in MOVES:
            before = models.get(intent.subject, ModelMemory())
            after = _after_move(before, intent, outcome.at)
            models[intent.subject] = _after_gift(after, intent, outcome.at, going, to_surge=_to_surge(models, intent))
        if intent.kind in RAISES and intent.grant is not None and intent.node_pool is not None:
            grants.append(_node_grant(intent, gpus[intent.subject], policy, outcome.at))
        if intent.kind == "withdraw" and intent.grant is not None:
            over = any(grant.id == intent.grant and outcome.at >= grant.until for grant in grants)
            failures = _failed(failures, intent.node_pool or "", intent.reason, policy, outcome.at, over=over)
            grants = _withdrawn(grants, intent, policy, outcome.at)
        _note_shift(shifts, intent, outcome.at)
    limits = {one.intent.subject: one for one in outcomes if one.intent.kind == "limit"}
    grants = [_with_limit(each, limits.get(each.node_pool)) for each in grants]
    pools, window_seconds = {pool.name for pool in policy.pools}, _longest_window(policy)
    return Memory(
        models={
            name: _pruned(each, window_seconds, now) if each.losses else each
            for name, each in sorted(models.items())
            if name in gpus
        },
        loans=tuple([loan for loan in memory.loans if loan.borrower in gpus and loan.pool in pools]),
        shifts=tuple(sorted(shifts.values(), key=lambda shift: (shift.opened_at, shift.id))),
        node_grants=tuple([grant for grant in _renamed(grants, policy) if grant.model in gpus and grant.pool in pools]),
        grant_failures=tuple(failures),
        overrides=memory.overrides,
        outages=memory.outages,
        accounts=memory.accounts,
        unknown_before=_within(memory.unknown_before, window_seconds, now),
        resumed_at=_within(memory.resumed_at, _longest_cooldown(policy), now),
    )


def _renamed(grants: Iterable[NodeGrant], policy: Policy) -> Iterator[NodeGrant]:
    """Each grant, by its pool's new name where that was renamed: the pool whose nodes its NodePool brings now."""
    pools = {pool.name for pool in policy.pools}
    brought = {name: pool.name for pool in policy.pools for name in pool.brings_nodes}
    for grant in grants:
        yield grant if grant.pool in pools else replace(grant, pool=brought.get(grant.node_pool, grant.pool))


def call_pools_as_now(memory: Memory, snapshot: Snapshot, policy: Policy) -> Memory:
    """Memory whose replaced pods are under their target's pool as the policy calls it now, without pools that left."""
    if not any(each.replaced for each in memory.models.values()):
        return memory
    pools = {pool.name for pool in policy.pools}
    pool_of = {target.uid: target.pool for model in snapshot.models for target in model.targets if target.uid}
    models = dict(memory.models)
    for name, each in memory.models.items():
        replaced = [(pool_of.get(one.target, one.pool), one) for one in map(Replaced.of, each.replaced)]
        if any(pool != one.pool or pool not in pools for pool, one in replaced):
            entries = sorted(str(one._replace(pool=pool)) for pool, one in replaced if pool in pools)
            models[name] = replace(each, replaced=tuple(entries))
    return replace(memory, models=models)


def stranger(intent: Intent, models: Container[str]) -> str | None:
    """Why an outcome of `intent` says nothing to who plans for `models`, in words; None when it does."""
    if intent.kind not in KINDS:
        return f"{intent.kind} is no kind of change that this version knows"
    if intent.kind in MOVES and intent.subject not in models:
        return f"{intent.subject} is no model of the policy any more"
    return None


def _after_move(memory: ModelMemory, intent: Intent, at: float) -> ModelMemory:
    """A model's memory after one of its targets was asked for another number."""
    losses = memory.losses
    if intent.counts is not None and intent.counted > 0:
        losses = (*losses, Loss(at=at, replicas=intent.counted, counts=intent.counts))
    moved = at if intent.kind in {"release", *RAISES} else memory.last_move_at
    return replace(memory, losses=losses, replaced=_replaced(memory.replaced, intent), last_move_at=moved)


def _after_gift(
    memory: ModelMemory, intent: Intent, at: float, going: Collection[str], *, to_surge: bool
) -> ModelMemory:
    """A model's memory with when it gave a replica, and how often it gave one that it had been granted since.

    What it lends to a surge, `to_surge`, is no swing of forecasts: it takes it back as soon as the surge is over.
    """
    if intent.kind == "grant" and memory.gave_at is not None and at > memory.gave_at:
        return replace(memory, got_again=True)
    if intent.kind != "release" or not _gives(intent, going):
        return memory
    if to_surge:
        return replace(memory, gave_at=None, got_again=False)
    return replace(memory, gave_at=at, got_again=False, swung=memory.swung + memory.got_again)


def _gives(intent: Intent, going: Collection[str]) -> bool:
    """Whether a release gives replicas away: none is a gift that stands replaced or goes with its node."""
    if intent.counts is None:  # nothing goes but what stands replaced
        return False
    return bool(intent.recipients) or not intent.victims or any(uid not in going for uid in intent.victims)


def _going(memory: Memory) -> frozenset[str]:
    """UIDs of the replicas on nodes that are certain to go."""
    certain = [account for account in memory.accounts if account.confidence == "certain" and not account.voluntary]
    return frozenset(replica.uid for account in certain for replica in account.replicas)


def _to_surge(models: Mapping[str, ModelMemory], intent: Intent) -> bool:
    """Whether a model for which it releases is in a surge."""
    return any(models[name].surge_since is not None for name in intent.recipients if name in models)


def _replaced(entries: tuple[str, ...], intent: Intent) -> tuple[str, ...]:
    """Replaced pods after `intent`: more where it asks for replacements, else less those whose number it takes back.

    The others of its target go on under the number that it asks for. If they stood under another one than it found,
    somebody has written in between, and whose numbers came back is unknown: none of them is believed any more.
    """
    named = [Replaced.of(entry) for entry in intent.replaces]
    known = {(one.pool, one.pod): one for one in map(Replaced.of, entries)}
    asks = intent.kind == "replace"  # the same plan's raise in another pool may have said before what this one asks for
    for one in known.values():
        if one.pool == intent.pool:
            stood = one.replicas == intent.replicas_from or (asks and one.replicas == intent.replicas_to)
            known[one.pool, one.pod] = one._replace(replicas=intent.replicas_to if stood else UNBELIEVED)
    for one in named:
        if asks:
            known[one.pool, one.pod] = one
        else:
            known.pop((one.pool, one.pod), None)
    return tuple(sorted(str(one) for one in known.values() if one.replicas != UNBELIEVED))


def _node_grant(intent: Intent, gpus: int, policy: Policy, at: float) -> NodeGrant:
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


def _with_limit(grant: NodeGrant, outcome: Outcome | None) -> NodeGrant:
    """The grant after the raise of its NodePool's limit ended so; None: none was asked for.

    A write that rests (`webhook`) is refused for what the server has answered before, which stays the reason.
    """
    if outcome is None:
        return grant
    written = outcome.status == WRITTEN
    answered = outcome.status == FAILED or (outcome.status == REFUSED and not outcome.detail.startswith("webhook: "))
    error = outcome.detail if answered else "" if written else grant.limit_error
    return replace(grant, limit_due=not written, limit_error=error)


def handed_on(
    memory: Memory,
    grants: Iterable[tuple[NodeGrant, str, str]],
    raised: Container[str],
    policy: Policy,
    at: float,
) -> Memory:
    """Memory once others are asked for the nodes of `grants`: each with who is asked now, and why the first one failed.

    What a grant still waits for stays; the time for it begins anew. `raised`: the NodePools whose limits are yet to be.
    """
    open_grants, failures = memory.node_grants, list(memory.grant_failures)
    until = at + policy.nodes.node_timeout_seconds
    for grant, name, why in grants:
        failures = _failed(failures, grant.node_pool, why, policy, at, over=at >= grant.until)
        on = replace(grant, node_pool=name, asked_at=at, until=until, limit_due=name in raised, limit_error="")
        open_grants = tuple(on if each.id == grant.id else each for each in open_grants)
    return replace(memory, node_grants=open_grants, grant_failures=tuple(failures))


def _failed(  # noqa: PLR0913  # who failed, why and when
    failures: list[GrantFailure], name: str, why: str, policy: Policy, at: float, *, over: bool
) -> list[GrantFailure]:
    """The failures with one of the NodePool `name`, which is left alone for a while.

    After a time-out (`over`) for as long again; after a failed NodeClaim for a minute, then for twice as long each
    time, at most a time-out. What fails while it rests is the same failure.
    """
    before = next((failure for failure in failures if failure.node_pool == name), None)
    longest = policy.nodes.node_timeout_seconds
    rest = FIRST_REST_SECONDS
    if over:
        rest = longest
    elif before is not None:
        rest = max(rest, before.rest_seconds * (1 if at < before.until else 2))
    rest = min(rest, longest)
    failure = GrantFailure(node_pool=name, until=at + rest, why=why, rest_seconds=rest)
    return [*(each for each in failures if each is not before), failure]


def _withdrawn(grants: list[NodeGrant], intent: Intent, policy: Policy, at: float) -> list[NodeGrant]:
    """The grants without the withdrawn replicas; the rest of a grant goes on for one more time-out."""
    until = at + policy.nodes.node_timeout_seconds
    left = []
    for grant in grants:
        replicas = grant.replicas
        if grant.id == intent.grant:
            replicas -= intent.replicas_from - intent.replicas_to
            grant = replace(grant, replicas=replicas, until=until)  # noqa: PLW2901  # what is left of it
        if replicas > 0:
            left.append(grant)
    return left


def _note_shift(shifts: dict[tuple[str, str], Shift], intent: Intent, at: float) -> None:
    """Open a shift per recipient at its first release; a recipient's raise grants those that are open in its pool.

    An id alone may be that of two: model a-b in pool c spells it as model a in pool b-c.
    """
    if intent.kind == "release":
        for recipient in intent.recipients:
            name = f"s{intent.cycle}-{recipient}-{intent.pool}"
            opened = Shift(name, intent.pool, recipient, donors=(), replicas=0, opened_at=at, released_at=at)
            shift = shifts.get((name, recipient), opened)
            donors = tuple(sorted({*shift.donors, intent.subject}))
            lost = intent.replicas_from - intent.replicas_to
            shifts[name, recipient] = replace(shift, donors=donors, replicas=shift.replicas + lost)
    elif intent.kind in RAISES:
        for key, shift in list(shifts.items()):
            if (shift.recipient, shift.pool) == (intent.subject, intent.pool) and shift.granted_at is None:
                shifts[key] = replace(shift, granted_at=at)


def _within(at: float | None, seconds: float, now: float) -> float | None:
    """`at`, None once it is more than `seconds` ago."""
    return at if at is not None and now - at < seconds else None


def _longest_cooldown(policy: Policy) -> float:
    classes = policy.classes
    longest = max(rules.cooldown_seconds for rules in (classes.realtime, classes.batch, classes.interactive))
    return 2 * longest + policy.plan_every_seconds


def _longest_window(policy: Policy) -> float:
    """Of the guards; that of `shift` may be as many times as long as a replica has GPUs."""
    guards = policy.guards
    most_together = max((model.gpus_per_replica for model in policy.models), default=1)
    shift_seconds = most_together * guards.shift.window_seconds
    return max(guards.step.window_seconds, guards.fleet.window_seconds, shift_seconds)


def _pruned(memory: ModelMemory, window_seconds: float, now: float) -> ModelMemory:
    """Losses older than every window are forgotten."""
    losses = tuple(loss for loss in memory.losses if now - loss.at < window_seconds)
    return memory if len(losses) == len(memory.losses) else replace(memory, losses=losses)
