"""Judges what happened from what the API saw: its audit trail says who wrote, the witness how things stood then.

A `Check` looks at the evidence so far and answers with words and seconds, or with None while it has not happened.
What must hold at every moment (`always`) is looked at in the end.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalancer.domain.policy import Model, Policy
from rebalancer.sandbox.api import AuditEntry
from rebalancer.sandbox.api.resources import DEPLOYMENTS
from rebalancer.sandbox.witness import Facts, PodLife, ScaleWrite

MATCH_SECONDS = 5.0  # of the clock: the audit entry comes right behind the change it is about


@dataclass(slots=True)
class Marks:
    """What the story did, when. `doomed`: the node that goes at `deadline`; `pinned`: replicas of the override."""

    surge_at: float = 0.0
    back_at: float = 0.0
    notice_at: float = 0.0
    deadline: float = 0.0
    doomed: str = ""
    pin_at: float = 0.0
    pin: str = ""
    pinned: int = 0
    pin_ends_at: float = 0.0


class Said(NamedTuple):
    """What a check found; `seconds` of the clock where it is about a time."""

    words: str
    seconds: float | None = None
    held: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is to judge by. `account`: whose writes are judged."""

    facts: Facts
    audit: Sequence[AuditEntry]
    policy: Policy
    account: str
    marks: Marks = field(default_factory=Marks)

    def model(self, name: str) -> Model:
        """The policy's model."""
        return next(model for model in self.policy.models if model.id == name)

    @property
    def writes(self) -> list[ScaleWrite]:
        """The account's scale writes, by the audit trail."""
        return [write for write in self.facts.writes if any(self._is(entry, write) for entry in self.audit)]

    def _is(self, entry: AuditEntry, write: ScaleWrite) -> bool:
        target = entry.target
        return (
            target is not None
            and (target.resource, target.name) == (DEPLOYMENTS, write.deployment)
            and entry.user == self.account
            and entry.code == 200  # noqa: PLR2004  # HTTP OK
            and 0 <= entry.at - write.at < MATCH_SECONDS
            and entry.body.get("spec", {}).get("replicas") == write.after
        )

    def written(self, model: str, since: float, *, more: bool) -> list[ScaleWrite]:
        """The account's raises (or decreases) of a model since an instant."""
        return [
            write
            for write in self.writes
            if write.place.model == model and write.at >= since and (write.after > write.before) is more
        ]

    def borrowed_gpus(self, model: str, at: float) -> int:
        """GPUs of owned pools that the model's pods held beyond its entitlement."""
        primary = {pool.name for pool in self.policy.pools if pool.kind == "primary"}
        held = sum(pod.place.gpus for pod in self.facts.of(model) if pod.place.pool in primary and pod.holds(at))
        spec = self.model(model)
        return max(0, held - spec.entitlement * spec.gpus_per_replica)


Look = Callable[[Evidence], Said | None]


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must happen."""

    what: str
    look: Look


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the verdict."""

    what: str
    said: Said


# --- the story


def first_write(model: str, donor: str) -> Look:
    """From the surge to the first scale write for it."""

    def look(evidence: Evidence) -> Said | None:
        since = evidence.marks.surge_at
        writes = [write for write in evidence.writes if write.at >= since and write.place.model in {model, donor}]
        return Said(_told(writes[0]), writes[0].at - since) if writes else None

    return look


def release_to_grant(model: str, donor: str) -> Look:
    """From the donor's release to the recipient's grant, which finds the donor's pods gone."""

    def look(evidence: Evidence) -> Said | None:
        released = evidence.written(donor, evidence.marks.surge_at, more=False)
        granted = evidence.written(model, evidence.marks.surge_at, more=True)
        if not (released and granted):
            return None
        gone = [pod for pod in evidence.facts.of(donor) if pod.gone_at is not None and pod.gone_at <= granted[0].at]
        words = f"{_told(released[0])}, {len(gone)} pods gone, {_told(granted[0])}"
        return Said(words, granted[0].at - released[0].at, held=bool(gone) and granted[0].fits)

    return look


def lent(model: str) -> Look:
    """From the surge to all borrowed replicas Ready."""

    def look(evidence: Evidence) -> Said | None:
        raises = evidence.written(model, evidence.marks.surge_at, more=True)
        wanted = max((write.after for write in raises), default=0)
        up = _when_ready(evidence.facts.of(model), wanted, evidence.marks.surge_at)
        if up is None:
            return None
        gpus = evidence.borrowed_gpus(model, up)
        return (
            Said(f"{gpus} GPUs lent to {model}, {wanted} replicas Ready", up - evidence.marks.surge_at)
            if gpus
            else None
        )

    return look


def brought_home(owner: str, borrower: str) -> Look:
    """From the owner's returning demand to its whole entitlement Ready, nothing of it left with the borrower."""

    def look(evidence: Evidence) -> Said | None:
        since, own = evidence.marks.back_at, evidence.model(owner).entitlement
        up = _when_ready(evidence.facts.of(owner), own, since)
        if up is None or evidence.borrowed_gpus(borrower, up):
            return None
        return Said(f"{evidence.borrowed_gpus(borrower, since)} GPUs, {owner} has its {own} replicas", up - since)

    return look


def replacement_asked(model: str) -> Look:
    """From the notice to the raise, which comes before the first eviction."""

    def look(evidence: Evidence) -> Said | None:
        marks = evidence.marks
        raises = evidence.written(model, marks.notice_at, more=True)
        doomed = _doomed(evidence, model)
        evicted = min((pod.deleted_at for pod in doomed if pod.deleted_at is not None), default=None)
        if not raises or evicted is None:
            return None
        ahead = evicted - raises[0].at
        words = f"{_told(raises[0])} for {len(doomed)} doomed, {ahead:.1f} s before the first eviction"
        return Said(words, raises[0].at - marks.notice_at, held=ahead > 0)

    return look


def replacement_ready(model: str) -> Look:
    """From the notice to as many new replicas Ready elsewhere, before the node goes; each was asked for once."""

    def look(evidence: Evidence) -> Said | None:
        marks = evidence.marks
        fresh = [pod for pod in evidence.facts.of(model) if pod.born_at >= marks.notice_at and pod.node != marks.doomed]
        doomed = len(_doomed(evidence, model))
        up = _when_ready(fresh, doomed, marks.notice_at)
        if up is None:
            return None
        raises = evidence.written(model, marks.notice_at, more=True)
        asked = sum(write.after - write.before for write in raises if write.at <= up)
        words = f"{marks.deadline - up:.0f} s before the node's end, {asked} asked for {doomed} doomed"
        return Said(words, up - marks.notice_at, held=up < marks.deadline and asked == doomed)

    return look


def pin_written(model: str) -> Look:
    """From the override to its number."""

    def look(evidence: Evidence) -> Said | None:
        marks = evidence.marks
        hits = [
            write
            for write in evidence.writes
            if write.place.model == model and write.at >= marks.pin_at and write.after == marks.pinned
        ]
        told = any(name == marks.pin and phase == "InForce" for _, name, phase in evidence.facts.phases)
        return Said(f"{_told(hits[0])}, status InForce", hits[0].at - marks.pin_at) if hits and told else None

    return look


def pin_ended(model: str) -> Look:
    """From the override's expiry to the model following its demand again, with nobody's help."""

    def look(evidence: Evidence) -> Said | None:
        marks = evidence.marks
        after = [w for w in evidence.writes if w.place.model == model and w.at >= marks.pin_ends_at]
        told = any(name == marks.pin and phase == "Expired" for _, name, phase in evidence.facts.phases)
        return Said(f"{_told(after[0])}, status Expired", after[0].at - marks.pin_ends_at) if after and told else None

    return look


# --- what must always hold


def always(evidence: Evidence) -> list[Finding]:
    """Floors after every write, and grants only into free GPUs or, where nodes can come, within the policy's bound."""
    return [Finding("floors held", _floors(evidence)), Finding("grants into free GPUs", _grants(evidence))]


def _floors(evidence: Evidence) -> Said:
    writes = evidence.writes
    below = [write for write in writes if write.after < write.before and write.left < write.place.floor]
    words = f"{len(writes)} writes, {len(below)} below a floor" + "".join(f"; {_told(write)}" for write in below[:3])
    return Said(words, held=not below)


def _grants(evidence: Evidence) -> Said:
    limits = {pool.name: pool for pool in evidence.policy.pools}
    raises = [write for write in evidence.writes if write.after > write.before]
    wrong = []
    to_come = 0
    for write in raises:
        pool = limits[write.place.pool]
        if write.fits:
            continue
        if pool.node_pools and write.pool_asks <= pool.gpu_limit:
            to_come += 1
        else:
            wrong.append(write)
    words = f"{len(raises) - to_come - len(wrong)} raises, {to_come} more into nodes to come"
    words += "".join(f"; {_told(write)} found no room" for write in wrong[:3])
    return Said(words, held=not wrong)


# --- instants


def _when_ready(pods: Iterable[PodLife], wanted: int, since: float) -> float | None:
    """The first instant from `since` on at which `wanted` of the pods served, None while they have not."""
    lives = [pod for pod in pods if pod.ready_at is not None]
    instants = sorted({since, *(pod.ready_at for pod in lives if pod.ready_at is not None and pod.ready_at >= since)})
    return next((at for at in instants if wanted and sum(pod.ready(at) for pod in lives) >= wanted), None)


def _doomed(evidence: Evidence, model: str) -> list[PodLife]:
    """The model's pods that ran on the doomed node when the notice came."""
    marks = evidence.marks
    return [pod for pod in evidence.facts.of(model) if pod.node == marks.doomed and pod.holds(marks.notice_at)]


def _told(write: ScaleWrite) -> str:
    return f"{write.deployment} {write.before} -> {write.after}"
