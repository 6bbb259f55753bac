"""The protocol of lease, intents, release before grant and two writers, small enough that every play of it can be seen.

Two replicas, a Lease, three targets on one pool, and an adversary who orders everything that can happen side by side:
calls are lost, doubled, late or answered to nobody, processes freeze and die and start again, the Lease is deleted.
What a leader *wants* to write is the adversary's choice, too: whatever planning decides, floor and budget must hold by
what stands between. Planning's part is one rule alone: no grant before the release's pods are gone.

| here | the code it stands for |
| --- | --- |
| `Candidate`, `LeaseClaim`, `Lease` | themselves: `leader.candidate` is pure, so it is not modelled but used |
| `_elect`, `_claimed` | `leader.elector.Elector._step` and `lease.LeaseObject.write` |
| `_stored` | the API server's part: a Lease is made once, at a second of its own clock, and written at its version |
| `_inherit` | `act.succession.settled` and `inherit`, before which `app.leadership` lets nothing pass |
| `_choose` | `act.gate.Gate._through_target`: the look, `act.checks`, the booking in `act.unseen_writes` |
| `_send` | `Gate._intend`, then `act.led.Led`, which asks for the right to act at the instant of the write |
| `_arrive`, `Rules.revisions` | the API server: a write passes at the revision that it was made for |
| `_passes` | `unseen_writes.KEEP_SECONDS`, watches that lag by a tick, `Led` giving a write up when the right ends |
| `Replica.held` | `planning.allocation.seating`: a grant gets GPUs that are free now, and pods that end hold theirs |

Time goes in ticks: the right to act lasts 2, a Lease 3, a write is held unseen for 2, a watch lags by 1 at most.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from rebalancer.leader.candidate import Candidate, Lease, LeaseClaim
from rebalancer.leader.timing import LeaseTiming

TIMING: Final = LeaseTiming(lease_seconds=3.0, renew_seconds=2.0, retry_seconds=0.5, look_seconds=0.25)
KEEP_TICKS: Final = 2
FLOORS: Final = (((0, 1), 2), ((2,), 1))
"""Targets of each model, and its floor: the first model has two targets, so that no revision guards its sum."""
STARTING: Final = (2, 1, 1)
BUDGET: Final = 4
MADE_SECONDS: Final = 7
"""When the Lease of the first world was made, by the API server's clock, which says 10 now and one more each tick."""


@dataclass(frozen=True)
class Rules:
    """What protects; each can be undone, to see that its absence is noticed. The last two are the adversary's.

    right: a write asks for the right to act.
    revisions: a write is refused by the API server where the object has changed.
    intents: a new leader reads what was left open before it acts.
    acknowledged: a decrease waits until its intent is stored, unless it is urgent.
    doubt: a write without an answer counts both ways.
    until_ended: a booking lasts until its write has ended, and then as long as a watch takes.
    own_lease: a standby waits out the whole lease, not only the right to act.
    creation: a term's number is at least the second at which the Lease was made.
    ending: what pods that end still hold is not granted.
    urgent: where its intent is lost a decrease may go ahead all the same, as one for a notice or a person does.
    late_ticks: how long after its leader gave it up a write may still arrive.
    """

    right: bool = True
    revisions: bool = True
    intents: bool = True
    acknowledged: bool = True
    doubt: bool = True
    until_ended: bool = True
    own_lease: bool = True
    creation: bool = True
    ending: bool = True
    urgent: bool = False
    late_ticks: int = 0


class Target(NamedTuple):
    """What one object asks for, and its revision."""

    replicas: int
    revision: int


class Entry(NamedTuple):
    """The least and the most that a target may be asked for, since that tick; infinity while it is written to."""

    least: int
    most: int
    at: float


class Call(NamedTuple):
    """A write under way in a replica: booked, then sent. `earlier`: the entry to go back to if it was not written."""

    target: int
    revision: int
    replicas: int
    decrease: bool
    sent: bool
    earlier: Entry | None


class Request(NamedTuple):
    """A write on its way to the API server, where it arrives before tick `until` or never."""

    target: int
    revision: int
    replicas: int
    sender: str
    until: int


class Replica(NamedTuple):
    """One process. `view`, `held`: by its watches. `claim`: its next Lease, of `claimed_at`. `stepped`: this tick."""

    candidate: Candidate
    view: tuple[Target, ...]
    held: int
    entries: tuple[Entry | None, ...]
    calls: frozenset[Call] = frozenset()
    claim: LeaseClaim | None = None
    claimed_at: int = 0
    doubts: bool = True
    inherited: bool = False
    stepped: bool = False


class World(NamedTuple):
    """Everything, at one instant. `intents`: stored without an outcome. `latest`: the highest term, and whose it is.

    `ending`: released replicas whose pods hold their GPUs yet. `troubles`, `wishes`: faults and writes still to choose.
    """

    at: int
    lease: Lease | None
    targets: tuple[Target, ...]
    replicas: tuple[Replica, ...]
    requests: frozenset[Request]
    intents: frozenset[tuple[str, int, int]]
    troubles: int
    wishes: int
    latest: tuple[int, str]
    ending: int = 0


Step = tuple[str, World]


def first_world(troubles: int, wishes: int) -> World:
    """Two replicas that know the cluster. One leads since this tick, the other one has just started."""
    targets = tuple(Target(replicas, 0) for replicas in STARTING)
    leads, stands_by = (_process(name, targets, 0) for name in ("a1", "b1"))
    candidate = leads.candidate.saw(Lease("0", "", 0, TIMING.lease_seconds, MADE_SECONDS), 0)
    claim = LeaseClaim("0", "a1", MADE_SECONDS, TIMING.lease_seconds)
    candidate = candidate.wrote(claim, "1", 0)
    leads = leads._replace(candidate=candidate, doubts=False, inherited=True, stepped=True)
    latest = claim.epoch, claim.holder
    return World(0, candidate.lease, targets, (leads, stands_by), frozenset(), frozenset(), troubles, wishes, latest)


def steps(world: World, rules: Rules, ticks: int) -> Iterator[Step]:
    """All that can happen next, each with a name for people."""
    for place, replica in enumerate(world.replicas):
        name = replica.candidate.identity
        for what, after in _of(world, place, replica, rules):
            yield f"{world.at}: {name} {what}", after
    for request in world.requests:
        for what, after in _arrive(world, request, rules):
            yield f"{world.at}: {request.sender}'s {_worded(request.target, request.replicas)} {what}", after
    if world.troubles and world.lease is not None:
        yield f"{world.at}: somebody deletes the Lease", world._replace(lease=None, troubles=world.troubles - 1)
    if world.at < ticks:
        asleep = sum(not replica.stepped for replica in world.replicas)
        if asleep <= world.troubles:
            later = world._replace(troubles=world.troubles - asleep)
            yield f"{world.at}: a tick passes", _passes(later, rules)
            if world.ending:
                yield f"{world.at}: a tick passes, and the pods that ended go", _passes(later._replace(ending=0), rules)


# --- one replica


def _of(world: World, place: int, replica: Replica, rules: Rules) -> Iterator[Step]:
    yield from _elect(world, place, replica, rules)
    if _may_act(replica, world.at, rules) and not replica.inherited:
        yield "reads what was left open", _with(world, place, _inherit(world, replica, rules))
    if world.wishes and replica.inherited and _may_act(replica, world.at, rules):
        yield from _choose(world, place, replica, rules)
    for call in replica.calls:
        if not call.sent:
            yield from _send(world, place, replica, call, rules)
    if world.troubles:
        fresh = _process(_next(replica.candidate.identity), world.targets, world.ending)
        yield "dies, and starts again", _with(world, place, fresh)._replace(troubles=world.troubles - 1)


def _elect(world: World, place: int, replica: Replica, rules: Rules) -> Iterator[Step]:
    candidate = replica.candidate
    if replica.claim is not None:
        yield from _claimed(world, place, replica, replica.claim, rules)
    elif not replica.stepped:
        if replica.doubts:
            candidate = candidate.saw(world.lease, world.at)
        # A standby that does not wait out the lease takes it as soon as the right to act must have ended.
        here = world.at if rules.own_lease or candidate.epoch is not None else world.at + 2
        claim = candidate.claim(here)
        after = replica._replace(candidate=candidate, claim=claim, claimed_at=world.at, stepped=True)
        yield "looks at the Lease", _with(world, place, after)


def _claimed(world: World, place: int, replica: Replica, claim: LeaseClaim, rules: Rules) -> Iterator[Step]:
    """Its write to the Lease arrives: answered, answered to nobody, or not at all."""
    stored = _stored(world, claim, rules)
    unanswered = replica._replace(claim=None, doubts=claim.version is None)
    if stored is None:
        yield "is late for the Lease", _with(world, place, replica._replace(claim=None, doubts=True))
        return
    candidate = replica.candidate
    if claim.version is not None:
        candidate = candidate.wrote(claim, stored.version, replica.claimed_at)
    answered = replica._replace(candidate=candidate, claim=None, doubts=claim.version is None)
    latest = world.latest if stored.epoch <= world.latest[0] else (stored.epoch, stored.holder)
    taken = world._replace(lease=stored, latest=latest)
    yield f"writes the Lease, term {claim.epoch}", _with(taken, place, answered)
    if world.troubles:
        fewer = world.troubles - 1
        yield "writes the Lease and hears nothing", _with(taken, place, unanswered)._replace(troubles=fewer)
        yield "does not reach the Lease", _with(world, place, unanswered)._replace(troubles=fewer)


def _stored(world: World, claim: LeaseClaim, rules: Rules) -> Lease | None:
    """A version is never given twice: that of a new one begins with the faults that are left, each time fewer."""
    there, written = world.lease, (claim.holder, claim.epoch, claim.lease_seconds)
    if there is None and claim.version is None:
        return Lease(f"{world.troubles}.0", *written, MADE_SECONDS + 3 + world.at if rules.creation else 0)
    if there is None or claim.version != there.version:
        return None
    made, _, count = there.version.rpartition(".")
    return Lease(f"{made}.{int(count) + 1}", *written, there.created_at)


def _inherit(world: World, replica: Replica, rules: Rules) -> Replica:
    """Intents without an outcome count both ways, also where the object shows the value and the watch may not yet."""
    entries = list(replica.entries)
    for _, target, replicas in sorted(world.intents) if rules.intents else ():
        seen, entry = replica.view[target].replicas, entries[target] or Entry(replicas, replicas, world.at)
        entries[target] = Entry(min(seen, replicas, entry.least), max(seen, replicas, entry.most), world.at)
    return replica._replace(entries=tuple(entries), inherited=True)


def _choose(world: World, place: int, replica: Replica, rules: Rules) -> Iterator[Step]:
    """Any write that look and checks let pass is booked."""
    under_way = {call.target for call in replica.calls}
    for target, seen in enumerate(replica.view):
        live = world.targets[target]
        if target in under_way or live.replicas != seen.replicas:
            continue
        for replicas in (seen.replicas - 1, seen.replicas + 1):
            if not _checked(replica, target, replicas, rules):
                continue
            earlier = replica.entries[target]
            begun = math.inf if rules.until_ended else world.at
            entry = Entry(min(least(replica, target), replicas), max(_most(replica, target), replicas), begun)
            call = Call(target, live.revision, replicas, replicas < seen.replicas, sent=False, earlier=earlier)
            after = _entered(replica, target, entry)._replace(calls=replica.calls | {call})
            yield f"wants {_worded(target, replicas)}", _with(world, place, after)._replace(wishes=world.wishes - 1)


def _checked(replica: Replica, target: int, replicas: int, rules: Rules) -> bool:
    if replicas < replica.view[target].replicas:
        own, floor = next(each for each in FLOORS if target in each[0])
        return replicas + sum(least(replica, each) for each in own if each != target) >= floor
    others = sum(_most(replica, each) for each in range(len(STARTING)) if each != target)
    held = replica.held if rules.ending else 0
    return max(replicas, _most(replica, target)) + others + held <= BUDGET


def _send(world: World, place: int, replica: Replica, call: Call, rules: Rules) -> Iterator[Step]:
    """Its intent is stored, or not; then it is sent, if there is still the right to."""
    intent = (replica.candidate.identity, call.target, call.replicas)
    unwritten = _unbooked(replica, call)
    if rules.right and not replica.candidate.may_act(world.at):
        yield "may not act any more", _with(world, place, unwritten)
        return
    until = max(int(replica.candidate.until_monotonic), world.at + 1) + rules.late_ticks
    request = Request(call.target, call.revision, call.replicas, intent[0], until)
    sent = replica._replace(calls=replica.calls - {call} | {call._replace(sent=True)})
    going = _with(world, place, sent)._replace(requests=world.requests | {request})
    yield f"sends {_worded(call.target, call.replicas)}", going._replace(intents=world.intents | {intent})
    if world.troubles:
        fewer = world.troubles - 1
        if call.decrease and rules.acknowledged:
            stored = _with(world, place, unwritten)._replace(intents=world.intents | {intent}, troubles=fewer)
            yield "hears of no intent, and does not write", stored
        if not call.decrease or not rules.acknowledged or rules.urgent:
            yield f"sends {_worded(call.target, call.replicas)}, its intent lost", going._replace(troubles=fewer)


# --- the API server, and time


def _arrive(world: World, request: Request, rules: Rules) -> Iterator[Step]:
    """A write arrives: it is answered, or its answer is lost, or it comes a second time; or it never arrives."""
    target = world.targets[request.target]
    gone = world._replace(requests=world.requests - {request})
    if rules.revisions and target.revision != request.revision:
        yield "is refused: the object has changed", _answered(gone, request, rules, written=False)
        return
    targets = _put(world.targets, request.target, Target(request.replicas, target.revision + 1))
    ending = world.ending + max(target.replicas - request.replicas, 0)
    done = gone._replace(targets=targets, ending=ending)
    yield "arrives", _answered(done, request, rules, written=True)
    if world.troubles:
        fewer = world.troubles - 1
        again = done._replace(requests=world.requests, troubles=fewer)
        yield "arrives, unanswered", done._replace(troubles=fewer)
        yield "arrives, and will again", _answered(again, request, rules, written=True)
        yield "arrives unanswered, and will again", again
        yield "is lost", gone._replace(troubles=fewer)


def _answered(world: World, request: Request, rules: Rules, *, written: bool) -> World:
    for place, replica in enumerate(world.replicas):
        call = next((each for each in replica.calls if each.sent and each.target == request.target), None)
        if replica.candidate.identity != request.sender or call is None or call.revision != request.revision:
            continue
        if written:
            entry = Entry(call.replicas, call.replicas, world.at)
            after = _entered(replica, call.target, entry)._replace(calls=replica.calls - {call})
        else:
            # Doubled on its way, the first one may have passed: a conflict says nothing of it.
            after = _ended(replica, call, world.at) if rules.doubt else _unbooked(replica, call)
        intent = (request.sender, call.target, call.replicas)
        return _with(world, place, after)._replace(intents=world.intents - {intent})
    return world


def _passes(world: World, rules: Rules) -> World:
    """A tick: watches show what was written before it, what is old is forgotten, writes are given up with the right."""
    at = world.at + 1
    replicas = tuple(_older(replica, world, at, rules) for replica in world.replicas)
    requests = frozenset(request for request in world.requests if request.until > at)
    return world._replace(at=at, replicas=replicas, requests=requests)


def _older(replica: Replica, shown: World, at: int, rules: Rules) -> Replica:
    given_up = [call for call in replica.calls if call.sent and replica.candidate.until_monotonic <= at]
    for call in given_up:
        replica = _ended(replica, call, at) if rules.doubt else _unbooked(replica, call)
    entries = tuple(entry if entry is not None and at - entry.at < KEEP_TICKS else None for entry in replica.entries)
    claim = replica.claim if replica.claim is not None and at - replica.claimed_at < 1 else None
    return replica._replace(view=shown.targets, held=shown.ending, entries=entries, claim=claim, stepped=False)


# --- small parts


def _may_act(replica: Replica, at: int, rules: Rules) -> bool:
    return replica.candidate.may_act(at) or (not rules.right and replica.candidate.epoch is not None)


def _process(identity: str, targets: tuple[Target, ...], held: int) -> Replica:
    return Replica(Candidate(identity, TIMING), targets, held, (None,) * len(targets))


def _next(identity: str) -> str:
    return f"{identity[0]}{int(identity[1:]) + 1}"


def least(replica: Replica, target: int) -> int:
    entry, seen = replica.entries[target], replica.view[target].replicas
    return seen if entry is None else min(seen, entry.least)


def _most(replica: Replica, target: int) -> int:
    entry, seen = replica.entries[target], replica.view[target].replicas
    return seen if entry is None else max(seen, entry.most)


def _entered(replica: Replica, target: int, entry: Entry | None) -> Replica:
    return replica._replace(entries=_put(replica.entries, target, entry))


def _unbooked(replica: Replica, call: Call) -> Replica:
    return _entered(replica, call.target, call.earlier)._replace(calls=replica.calls - {call})


def _ended(replica: Replica, call: Call, at: int) -> Replica:
    """Whether it was written is not known: it counts both ways from now on for as long as a watch takes."""
    entry = replica.entries[call.target]
    entry = entry._replace(at=at) if entry is not None and math.isinf(entry.at) else entry
    return _entered(replica, call.target, entry)._replace(calls=replica.calls - {call})


def _put(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]  # of any one kind
    return (*values[:place], value, *values[place + 1 :])


def _with(world: World, place: int, replica: Replica) -> World:
    return world._replace(replicas=_put(world.replicas, place, replica))


def _worded(target: int, replicas: int) -> str:
    return f"{'xyz'[target]} -> {replicas}"
