"""From cycles to what people want to hear of: each thing once, in a line, when it begins."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from rebalancer.api.ports.timeline import ShiftStep, TimelineEvent
from rebalancer.api.text.printed import printed
from rebalancer.api.text.words import clock, goes, when
from rebalancer.domain.outcome import FAILED, REFUSED, SHADOW, UNKNOWN, WRITTEN, Intent, Outcome
from rebalancer.domain.people import Override
from rebalancer.domain.plan import DRAIN_WORDS, Plan
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.words import listed, node_pool_words
from rebalancer.planning.memory.open_grants import SHIFT_LASTS_SECONDS

AGAIN_SECONDS = 60.0  # what was not seen for this long and comes back is new again
KINDS = {"release": "release", "settle": "release", "withdraw": "release", "grant": "grant", "replace": "grant"}
IDLE = frozenset({"Refused", "Superseded"})  # phases of an override that changes nothing though its time is not over
WORDS = {
    SHADOW: "; shadow, so nothing is written",
    REFUSED: "; not written",
    FAILED: "; could not be written",
    UNKNOWN: "; may have been written",
    WRITTEN: "",
}


class Timeline:
    """Tells what is new in a cycle against those before it. Holds the last snapshot and what was told lately."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._idle: dict[str, str] = {}  # UID of an override that changes nothing -> why
        self._noticed: dict[tuple[object, ...], float] = {}
        self._shifts: list[Outcome] = []  # releases for somebody who has not been granted yet, oldest first
        self._ended: list[Outcome] = []  # releases that a grant was told with

    def of_cycle(self, snapshot: Snapshot, plan: Plan) -> list[TimelineEvent]:
        """New notices and those whose node is empty, overrides, write stops and refusals."""
        events = [*self._refusals(plan), *_emptied(plan)]
        idle = {each.uid: f"{each.phase.lower()}: {each.message}" for each in plan.overrides if each.phase in IDLE}
        if self._last is not None:
            events += [*_notices(self._last, snapshot), *_people(self._last, snapshot, self._idle, idle)]
        self._last, self._idle = snapshot, idle
        self._noticed = {key: at for key, at in self._noticed.items() if snapshot.at - at < AGAIN_SECONDS}
        return [printed(each) for each in events]

    def of_outcomes(self, outcomes: Iterable[Outcome]) -> list[TimelineEvent]:
        """What became of the writes; what was not written is told once, not at every attempt. Bounds move silently."""
        events = []
        for outcome in outcomes:
            intent = outcome.intent
            key = (outcome.status, intent.kind, intent.subject, intent.replicas_from, intent.replicas_to)
            if intent.kind != "bounds" and (self._new(key, outcome.at) or outcome.status == WRITTEN):
                events.append(printed(self._as_shift(outcome)))
        return events

    def _as_shift(self, outcome: Outcome) -> TimelineEvent:
        """A grant with the releases that it was waiting for, as one shift; any other outcome as it is."""
        intent, event = outcome.intent, _outcome(outcome)
        # planning holds a shift open for so long: a grant after that is told by itself
        self._shifts, self._ended = (
            [one for one in some if outcome.at - one.at < SHIFT_LASTS_SECONDS] for some in (self._shifts, self._ended)
        )
        if outcome.status == WRITTEN and KINDS.get(intent.kind) == "grant":
            self._take_back(intent)
        if outcome.status != WRITTEN or intent.shift is None:
            return event
        if intent.kind == "release":
            self._shifts.append(outcome)
            return replace(event, shift=intent.id)
        ended = self._ended_by(intent)
        if KINDS.get(intent.kind) != "grant" or not ended:
            return event
        gone = [f"{one.intent.subject} {_numbers(one.intent)} at {clock(one.at)}" for one in ended]
        waited = f"{outcome.at - ended[0].at:.0f} s after"
        ids = " ".join(one.intent.id for one in ended)
        steps = tuple(ShiftStep(one.at, one.intent.subject, _outcome(one).text) for one in (*ended, outcome))
        return replace(event, text=f"{event.text}, {waited} {listed(gone)}", shift=ids, steps=steps)

    def _take_back(self, grant: Intent) -> None:
        """Who is granted what it has just released gave nothing: no later grant was waiting for that, newest first."""
        left = grant.replicas_to - grant.replicas_from
        for one in reversed(self._shifts):
            given = one.intent.replicas_from - one.intent.replicas_to
            if (one.intent.subject, one.intent.pool) == (grant.subject, grant.pool) and 0 < given <= left:
                left -= given
                self._shifts = [each for each in self._shifts if each is not one]

    def _ended_by(self, grant: Intent) -> list[Outcome]:
        """Releases for the model in that pool that together gave as many replicas as it gets, taken off.

        Those of the grant's own shift come first, then the oldest. Where none is left, an earlier grant of the same
        shift was told with the whole of a release that gave more than that: it is the release of this one, too.
        """
        ended: list[Outcome] = []
        meant = [
            one for one in self._shifts if grant.subject in one.intent.recipients and one.intent.pool == grant.pool
        ]
        for one in sorted(meant, key=lambda each: each.intent.shift != grant.shift):
            given = sum(each.intent.replicas_from - each.intent.replicas_to for each in ended)
            if given >= grant.replicas_to - grant.replicas_from:
                break
            ended.append(one)
        if not ended:
            return [one for one in self._ended if one.intent.shift == grant.shift]
        self._shifts = [one for one in self._shifts if one not in ended]
        self._ended += ended
        return ended

    def _refusals(self, plan: Plan) -> Iterator[TimelineEvent]:
        models = {decision.model for decision in plan.models}
        for refusal in plan.refusals:
            if self._new((refusal.guard, refusal.subject), plan.at):
                model = refusal.subject if refusal.subject in models else None
                text = refusal.sentence
                if model is None:
                    text = f"{refusal.about} is left as it is: guard {refusal.guard}, {refusal.why}"
                waiting = tuple(row.model for row in plan.unmet if str(refusal) in row.why)
                text += f"; {listed(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for it" if waiting else ""
                yield TimelineEvent(plan.at, "refusal", text, plan.cycle, model, waiting=waiting)

    def _new(self, key: tuple[object, ...], at: float) -> bool:
        known = key in self._noticed
        self._noticed[key] = at
        return not known


def _outcome(outcome: Outcome) -> TimelineEvent:
    intent = outcome.intent
    kind = "refusal" if outcome.status in {REFUSED, FAILED} else KINDS.get(intent.kind, "node")
    text = f"{_sentence(intent)}{WORDS.get(outcome.status, '')}"
    if outcome.status not in {WRITTEN, SHADOW} and outcome.detail:
        text += f": {outcome.detail}"
    model = intent.subject if intent.kind in KINDS or intent.victims else None
    return TimelineEvent(outcome.at, kind, text, intent.cycle, model, intent.pool or None)


def _sentence(intent: Intent) -> str:
    """The write as a sentence, in the words of the plan that it carries out."""
    if intent.kind in DRAIN_WORDS:
        return f"{intent.object} {DRAIN_WORDS[intent.kind]}: {intent.reason}"
    if intent.kind in KINDS:
        return f"{intent.reason} ({_numbers(intent)})"
    numbers = node_pool_words(intent.kind, intent.limit_from, intent.limit_to)
    return f"nodepool/{intent.subject} {numbers}: {intent.reason}"


def _emptied(plan: Plan) -> Iterator[TimelineEvent]:
    """The account of each node whose last replica is seen gone in this plan, or replaced when it was gone already."""
    for account in plan.accounts:
        if plan.at in {account.drained_at, account.replaced_late_at}:
            yield TimelineEvent(plan.at, "notice", str(account), plan.cycle, None, account.pool or None)


def _numbers(intent: Intent) -> str:
    return f"{intent.replicas_from} -> {intent.replicas_to}"


def _notices(before: Snapshot, now: Snapshot) -> Iterator[TimelineEvent]:
    known = {(notice.node, notice.kind) for notice in before.notices}
    pools = {node.name: pool.name for pool in now.pools for node in pool.nodes} if now.notices else {}
    for notice in now.notices:
        if (notice.node, notice.kind) not in known:
            text = f"{goes(notice, now.at)} ({notice.kind})"
            yield TimelineEvent(now.at, "notice", text, now.cycle, None, pools.get(notice.node))


def _people(
    before: Snapshot, now: Snapshot, was_idle: Mapping[str, str], idle: Mapping[str, str]
) -> Iterator[TimelineEvent]:
    """What people decided: overrides, and the red button."""
    yield from _overrides(before, now, was_idle, idle)
    if now.write_stop is not None and before.write_stop is None:
        text = f"{now.write_stop.actor or 'a person'} stopped the writes: {now.write_stop.reason or 'no reason given'}"
        yield TimelineEvent(now.at, "stop", text, now.cycle)
    if now.write_stop is None and before.write_stop is not None:
        yield TimelineEvent(now.at, "stop", "writes go on again", now.cycle)


def _overrides(
    before: Snapshot, now: Snapshot, was_idle: Mapping[str, str], idle: Mapping[str, str]
) -> Iterator[TimelineEvent]:
    """Overrides that came, came into force or out of it, expired or were taken back.

    `was_idle`, `idle`: why an override changes nothing, by UID, in the plan before and in this one.
    """
    old, new = _by_uid(before), _by_uid(now)
    for uid, one in new.items():
        if one.expires_at <= now.at:
            continue
        until = f"until {when(one.expires_at, now.at)}: {one.reason}"
        if uid in idle and (uid not in old or uid not in was_idle):
            yield _override(one, "is not under", f"{until} ({idle[uid]})", now)
        elif uid not in idle and (uid not in old or uid in was_idle):
            yield _override(one, "is put under", until, now)
    for uid, one in old.items():
        if uid in was_idle:
            continue
        if uid not in new:
            yield _override(one, "is no longer under", "(taken back)", now)
        elif one.expires_at <= now.at and one.expires_at > before.at:
            yield _override(one, "is no longer under", "(expired)", now)


def _by_uid(snapshot: Snapshot) -> Mapping[str, Override]:
    return {one.uid: one for one in snapshot.overrides}


def _override(one: Override, verb: str, more: str, now: Snapshot) -> TimelineEvent:
    """`is put under pin 3 by ops until 03:42:34: ...` of a model; of a node or a pool with its name."""
    value = "" if one.value is None else f" {one.value}"
    model = one.subject if one.subject_kind == "model" else one.model
    pool = one.subject if one.subject_kind == "pool" else None
    subject = "" if model is not None else f"{one.subject_kind} {one.subject} "
    on = f" on {one.subject_kind} {one.subject}" if model not in {None, one.subject} else ""
    text = f"{subject}{verb} {one.kind}{value}{on} by {one.actor or '?'} {more}"
    return TimelineEvent(now.at, "override", text, now.cycle, model, pool)
