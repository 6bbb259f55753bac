"""From cycles to what people want to hear of: each thing once, in a line, when it begins."""

from collections.abc import Iterable, Iterator, Mapping

from rebalancer.api.ports.timeline import TimelineEvent
from rebalancer.api.text.printed import printed
from rebalancer.api.text.words import clock, goes
from rebalancer.domain.cluster import Override
from rebalancer.domain.outcome import FAILED, REFUSED, SHADOW, UNKNOWN, WRITTEN, Intent, Outcome
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import Snapshot

AGAIN_SECONDS = 60.0  # what was not seen for this long and comes back is new again
KINDS = {"release": "release", "settle": "release", "withdraw": "release", "grant": "grant", "replace": "grant"}
WORDS = {
    SHADOW: "would be ",
    REFUSED: "not written, ",
    FAILED: "could not be written, ",
    UNKNOWN: "may have been written, ",
    WRITTEN: "",
}


class Timeline:
    """Tells what is new in a cycle against those before it. Holds the last snapshot and what was told lately."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._noticed: dict[tuple[object, ...], float] = {}

    def of_cycle(self, snapshot: Snapshot, plan: Plan) -> list[TimelineEvent]:
        """New notices, overrides, write stops and refusals."""
        events = [*self._refusals(plan)]
        if self._last is not None:
            events += [*_notices(self._last, snapshot), *_people(self._last, snapshot)]
        self._last = snapshot
        self._noticed = {key: at for key, at in self._noticed.items() if snapshot.at - at < AGAIN_SECONDS}
        return [printed(each) for each in events]

    def of_outcomes(self, outcomes: Iterable[Outcome]) -> list[TimelineEvent]:
        """What became of the writes; what was not written is told once, not at every attempt. Bounds move silently."""
        events = []
        for outcome in outcomes:
            intent = outcome.intent
            key = (outcome.status, intent.kind, intent.subject, intent.replicas_from, intent.replicas_to)
            if intent.kind != "bounds" and (self._new(key, outcome.at) or outcome.status == WRITTEN):
                events.append(printed(_outcome(outcome)))
        return events

    def _refusals(self, plan: Plan) -> Iterator[TimelineEvent]:
        models = {decision.model for decision in plan.models}
        for refusal in plan.refusals:
            if self._new((refusal.guard, refusal.subject), plan.at):
                text = f"{refusal.replicas_from} -> {refusal.replicas_to}  refused by {refusal.guard}: {refusal.why}"
                model = refusal.subject if refusal.subject in models else None
                if model is None:
                    text = f"nodepool/{refusal.subject} {text}"
                yield TimelineEvent(plan.at, "refusal", text, plan.cycle, model)

    def _new(self, key: tuple[object, ...], at: float) -> bool:
        known = key in self._noticed
        self._noticed[key] = at
        return not known


def _outcome(outcome: Outcome) -> TimelineEvent:
    intent = outcome.intent
    kind = "refusal" if outcome.status in {REFUSED, FAILED} else KINDS.get(intent.kind, "node")
    text = f"{WORDS.get(outcome.status, '')}{_numbers(intent)}  {intent.reason}"
    if outcome.status not in {WRITTEN, SHADOW} and outcome.detail:
        text += f": {outcome.detail}"
    model = intent.subject if intent.kind in KINDS else None
    return TimelineEvent(outcome.at, kind, text, intent.cycle, model, intent.pool or None)


def _numbers(intent: Intent) -> str:
    if intent.kind in KINDS:
        return f"{intent.replicas_from} -> {intent.replicas_to}"
    if intent.kind in {"limit", "restore-limit"}:
        return f"nodepool/{intent.subject} {_limit(intent.limit_from)} -> {_limit(intent.limit_to)} GPU limit"
    return f"nodepool/{intent.subject} {intent.kind}"


def _limit(limit: int | None) -> str:
    return "no" if limit is None else str(limit)


def _notices(before: Snapshot, now: Snapshot) -> Iterator[TimelineEvent]:
    known = {(notice.node, notice.kind) for notice in before.notices}
    pools = {node.name: pool.name for pool in now.pools for node in pool.nodes} if now.notices else {}
    for notice in now.notices:
        if (notice.node, notice.kind) not in known:
            text = f"{goes(notice, now.at)} ({notice.kind})"
            yield TimelineEvent(now.at, "notice", text, now.cycle, None, pools.get(notice.node))


def _people(before: Snapshot, now: Snapshot) -> Iterator[TimelineEvent]:
    """Overrides that came, ended or were taken back; the red button."""
    old, new = _by_uid(before), _by_uid(now)
    for uid, one in new.items():
        if uid not in old:
            yield _override(one, f"by {one.actor} until {clock(one.expires_at)}: {one.reason}", now)
    for uid, one in old.items():
        if uid not in new:
            yield _override(one, f"by {one.actor} is gone", now)
        elif one.expires_at <= now.at and one.expires_at > before.at:
            yield _override(one, f"by {one.actor} has expired", now)
    if now.write_stop is not None and before.write_stop is None:
        text = f"writes stopped by {now.write_stop.actor or '?'}: {now.write_stop.reason or '?'}"
        yield TimelineEvent(now.at, "stop", text, now.cycle)
    if now.write_stop is None and before.write_stop is not None:
        yield TimelineEvent(now.at, "stop", "writes resumed", now.cycle)


def _by_uid(snapshot: Snapshot) -> Mapping[str, Override]:
    return {one.uid: one for one in snapshot.overrides}


def _override(one: Override, text: str, now: Snapshot) -> TimelineEvent:
    value = "" if one.value is None else f" {one.value}"
    model = one.subject if one.subject_kind == "model" else one.model
    pool = one.subject if one.subject_kind == "pool" else None
    return TimelineEvent(now.at, "override", f"{one.kind} {one.subject}{value} {text}", now.cycle, model, pool)
