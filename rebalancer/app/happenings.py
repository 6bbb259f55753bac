"""From cycles to what people want to hear of: each thing once, in a line, when it begins."""

from collections.abc import Iterable, Iterator, Mapping

from rebalancer.api.pages import Happening
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


class Happenings:
    """Tells what is new in a cycle against those before it. Holds the last snapshot and what was told lately."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._told: dict[tuple[object, ...], float] = {}

    def of_cycle(self, snapshot: Snapshot, plan: Plan) -> list[Happening]:
        """New notices, overrides, write stops and refusals."""
        found = [*self._refusals(plan)]
        if self._last is not None:
            found += [*_notices(self._last, snapshot), *_people(self._last, snapshot)]
        self._last = snapshot
        self._told = {key: at for key, at in self._told.items() if snapshot.at - at < AGAIN_SECONDS}
        return [printed(each) for each in found]

    def of_outcomes(self, outcomes: Iterable[Outcome]) -> list[Happening]:
        """What became of the writes; what was not written is told once, not at every attempt. Bounds move silently."""
        found = []
        for outcome in outcomes:
            intent = outcome.intent
            key = (outcome.status, intent.kind, intent.subject, intent.replicas_from, intent.replicas_to)
            if intent.kind != "bounds" and (self._new(key, outcome.at) or outcome.status == WRITTEN):
                found.append(printed(_outcome(outcome)))
        return found

    def _refusals(self, plan: Plan) -> Iterator[Happening]:
        models = {decision.model for decision in plan.models}
        for refusal in plan.refusals:
            if self._new((refusal.guard, refusal.subject), plan.at):
                said = f"{refusal.replicas_from} -> {refusal.replicas_to}  refused by {refusal.guard}: {refusal.why}"
                model = refusal.subject if refusal.subject in models else None
                if model is None:
                    said = f"nodepool/{refusal.subject} {said}"
                yield Happening(plan.at, "refusal", said, plan.cycle, model)

    def _new(self, key: tuple[object, ...], at: float) -> bool:
        known = key in self._told
        self._told[key] = at
        return not known


def _outcome(outcome: Outcome) -> Happening:
    intent = outcome.intent
    kind = "refusal" if outcome.status in {REFUSED, FAILED} else KINDS.get(intent.kind, "node")
    said = f"{WORDS.get(outcome.status, '')}{_numbers(intent)}  {intent.reason}"
    if outcome.status not in {WRITTEN, SHADOW} and outcome.detail:
        said += f": {outcome.detail}"
    model = intent.subject if intent.kind in KINDS else None
    return Happening(outcome.at, kind, said, intent.cycle, model, intent.pool or None)


def _numbers(intent: Intent) -> str:
    if intent.kind in KINDS:
        return f"{intent.replicas_from} -> {intent.replicas_to}"
    if intent.kind in {"limit", "restore-limit"}:
        return f"nodepool/{intent.subject} {_limit(intent.limit_from)} -> {_limit(intent.limit_to)} GPU limit"
    return f"nodepool/{intent.subject} {intent.kind}"


def _limit(limit: int | None) -> str:
    return "no" if limit is None else str(limit)


def _notices(before: Snapshot, now: Snapshot) -> Iterator[Happening]:
    known = {(notice.node, notice.kind) for notice in before.notices}
    pools = {node.name: pool.name for pool in now.pools for node in pool.nodes} if now.notices else {}
    for notice in now.notices:
        if (notice.node, notice.kind) not in known:
            said = f"{goes(notice, now.at)} ({notice.kind})"
            yield Happening(now.at, "notice", said, now.cycle, None, pools.get(notice.node))


def _people(before: Snapshot, now: Snapshot) -> Iterator[Happening]:
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
        said = f"writes stopped by {now.write_stop.actor or '?'}: {now.write_stop.reason or '?'}"
        yield Happening(now.at, "stop", said, now.cycle)
    if now.write_stop is None and before.write_stop is not None:
        yield Happening(now.at, "stop", "writes resumed", now.cycle)


def _by_uid(snapshot: Snapshot) -> Mapping[str, Override]:
    return {one.uid: one for one in snapshot.overrides}


def _override(one: Override, said: str, now: Snapshot) -> Happening:
    value = "" if one.value is None else f" {one.value}"
    model = one.subject if one.subject_kind == "model" else one.model
    pool = one.subject if one.subject_kind == "pool" else None
    return Happening(now.at, "override", f"{one.kind} {one.subject}{value} {said}", now.cycle, model, pool)
