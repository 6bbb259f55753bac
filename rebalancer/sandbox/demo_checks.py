"""What the demo's story must show, each as a look at the evidence so far."""

from collections.abc import Iterable

from rebalancer.sandbox.oracle import CheckAnswer, Evidence, Look, write_words
from rebalancer.sandbox.witness import PodLife


def first_write(model: str, donor: str) -> Look:
    """From the surge to the first scale write for it."""

    def look(evidence: Evidence) -> CheckAnswer | None:
        since = evidence.marks.surge_at
        writes = [write for write in evidence.writes if write.at >= since and write.place.model in {model, donor}]
        return CheckAnswer(write_words(writes[0]), writes[0].at - since) if writes else None

    return look


def release_to_grant(model: str, donor: str) -> Look:
    """From the donor's release to the recipient's grant, which finds the donor's pods gone."""

    def look(evidence: Evidence) -> CheckAnswer | None:
        released = evidence.written(donor, evidence.marks.surge_at, more=False)
        granted = evidence.written(model, evidence.marks.surge_at, more=True)
        if not (released and granted):
            return None
        gone = [pod for pod in evidence.facts.of(donor) if pod.gone_at is not None and pod.gone_at <= granted[0].at]
        words = f"{write_words(released[0])}, its GPUs are free, {write_words(granted[0])}"
        return CheckAnswer(words, granted[0].at - released[0].at, held=bool(gone) and granted[0].fits)

    return look


def lent(model: str) -> Look:
    """From the surge to all borrowed replicas Ready."""

    def look(evidence: Evidence) -> CheckAnswer | None:
        raises = evidence.written(model, evidence.marks.surge_at, more=True)
        wanted = max((write.after for write in raises), default=0)
        up = _when_ready(evidence.facts.of(model), wanted, evidence.marks.surge_at)
        if up is None:
            return None
        gpus = evidence.borrowed_gpus(model, up)
        return (
            CheckAnswer(f"{gpus} of them, {model} has {wanted} replicas Ready", up - evidence.marks.surge_at)
            if gpus
            else None
        )

    return look


def in_time_again(evidence: Evidence) -> CheckAnswer | None:
    """From the surge until nobody who came to chat had to wait beyond its SLO any more."""
    marks = evidence.marks
    if not marks.back_at:
        return None
    if not marks.caught_up_at:
        return CheckAnswer("its queue was never worked off", held=False)
    return CheckAnswer("whoever comes is served within the SLO", marks.caught_up_at - marks.surge_at)


def brought_home(owner: str, borrower: str) -> Look:
    """From the owner's returning demand to its whole entitlement Ready, nothing of it left with the borrower."""

    def look(evidence: Evidence) -> CheckAnswer | None:
        since, own = evidence.marks.back_at, evidence.model(owner).entitlement
        up = _when_ready(evidence.facts.of(owner), own, since)
        if up is None or evidence.borrowed_gpus(borrower, up):
            return None
        return CheckAnswer(
            f"{evidence.borrowed_gpus(borrower, since)} GPUs, {owner} has its {own} replicas", up - since
        )

    return look


def replacement_asked(model: str) -> Look:
    """From the notice to the raise, which comes before the first eviction."""

    def look(evidence: Evidence) -> CheckAnswer | None:
        marks = evidence.marks
        raises = evidence.written(model, marks.notice_at, more=True)
        doomed = _doomed(evidence, model)
        evicted = min((pod.deleted_at for pod in doomed if pod.deleted_at is not None), default=None)
        if not raises or evicted is None:
            return None
        ahead = evicted - raises[0].at
        words = f"{write_words(raises[0])}, {ahead:.1f} s before the first eviction"
        return CheckAnswer(words, raises[0].at - marks.notice_at, held=ahead > 0)

    return look


def replacement_ready(model: str) -> Look:
    """From the notice to as many new replicas Ready elsewhere, before the node goes; each was asked for once."""

    def look(evidence: Evidence) -> CheckAnswer | None:
        marks = evidence.marks
        fresh = [pod for pod in evidence.facts.of(model) if pod.born_at >= marks.notice_at and pod.node != marks.doomed]
        doomed = len(_doomed(evidence, model))
        up = _when_ready(fresh, doomed, marks.notice_at)
        if up is None:
            return None
        raises = evidence.written(model, marks.notice_at, more=True)
        raised = sum(write.after - write.before for write in raises if write.at <= up)
        words = f"{marks.deadline - up:.0f} s before the node's end, {raised} asked for {doomed} doomed"
        return CheckAnswer(words, up - marks.notice_at, held=up < marks.deadline and raised == doomed)

    return look


def pin_written(model: str) -> Look:
    """From the override to its number."""

    def look(evidence: Evidence) -> CheckAnswer | None:
        marks = evidence.marks
        hits = [
            write
            for write in evidence.writes
            if write.place.model == model and write.at >= marks.pin_at and write.after == marks.pinned
        ]
        shown = any(name == marks.pin and phase == "InForce" for _, name, phase in evidence.facts.phases)
        return (
            CheckAnswer(f"{write_words(hits[0])}, shown as InForce", hits[0].at - marks.pin_at)
            if hits and shown
            else None
        )

    return look


def pin_ended(model: str) -> Look:
    """From the override's expiry to the model following its demand again, with nobody's help."""

    def look(evidence: Evidence) -> CheckAnswer | None:
        marks = evidence.marks
        after = [w for w in evidence.writes if w.place.model == model and w.at >= marks.pin_ends_at]
        shown = any(name == marks.pin and phase == "Expired" for _, name, phase in evidence.facts.phases)
        return (
            CheckAnswer(f"{write_words(after[0])}, shown as Expired", after[0].at - marks.pin_ends_at)
            if after and shown
            else None
        )

    return look


def _when_ready(pods: Iterable[PodLife], wanted: int, since: float) -> float | None:
    """The first instant from `since` on at which `wanted` of the pods served, None while they have not."""
    lives = [pod for pod in pods if pod.ready_at is not None]
    instants = sorted({since, *(pod.ready_at for pod in lives if pod.ready_at is not None and pod.ready_at >= since)})
    return next((at for at in instants if wanted and sum(pod.ready(at) for pod in lives) >= wanted), None)


def _doomed(evidence: Evidence, model: str) -> list[PodLife]:
    """The model's pods that ran on the doomed node when the notice came."""
    marks = evidence.marks
    return [pod for pod in evidence.facts.of(model) if pod.node == marks.doomed and pod.holds(marks.notice_at)]
