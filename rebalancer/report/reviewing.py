"""The pass over a journal that makes a `PolicyReview`: every decision again, and every day again."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rebalancer import __version__
from rebalancer.domain.policy import Policy
from rebalancer.domain.words import counted, listed
from rebalancer.obs.journal import code_digest
from rebalancer.obs.journal_reading import JournalRead, RecordedTurn, turns
from rebalancer.obs.ledger_reading import looked
from rebalancer.report.courses import Courses, play_both
from rebalancer.report.days import Days
from rebalancer.report.decisions import ChangedDecisions, decided
from rebalancer.report.measures import CHANGED, GPU_HOURS, LATE, LATE_PERCENT, MOVES, USD, Limit, Measure, judged
from rebalancer.report.review import ModelReview, PolicyReview, headline
from rebalancer.report.telling import instant, lasted
from rebalancer.sim.contest.telling import OutcomeDifference
from rebalancer.sim.suite.intervals import paired_interval

DAMAGE_TOLD = 5
RECORDED = "the recorded policy"
MOST_APART = 0.2  # of the late requests as recorded: from there on the simulated course is told not to be alike
FEW = 20  # late requests: so many more or fewer are alike

Heard = Callable[[str, float], None]  # what is under way, the share of it that is done


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is asked.

    policy: the policy in place of the recorded ones.
    name: what it is called.
    limits: on what it comes to.
    """

    policy: Policy
    name: str
    limits: Sequence[Limit] = field(default=())


def review(files: Sequence[Path], proposal: Proposal, heard: Heard = lambda _, __: None) -> PolicyReview:
    """Decide every recorded cycle again, and play the recorded days again, under both policies."""
    tally, courses = JournalRead(), Courses()
    size = sum(path.stat().st_size for path in files if path.is_file())
    days = Days(lambda day: play_both(day, proposal.policy, courses, heard))
    span: list[float] = []

    def passing() -> Iterator[RecordedTurn]:
        for turn in turns(files, tally):
            heard("decisions", min(1.0, tally.size / max(1, size)))
            span[:] = [span[0] if span else turn.snapshot.at, turn.snapshot.at]
            days.see(looked(turn))
            yield turn

    changed = decided(passing(), tally, proposal.policy)
    days.end()
    return _review(proposal, changed, tally, span or [0.0, 0.0], courses)


def _review(
    proposal: Proposal, changed: ChangedDecisions, tally: JournalRead, span: Sequence[float], courses: Courses
) -> PolicyReview:
    measures = tuple(_measures(changed, courses))
    begin, end = span
    title = (
        f"{proposal.name} in place of {RECORDED}, {instant(begin)} to {instant(end)}, {lasted(end - begin)},"
        f" {counted(changed.cycles, 'cycle')}"
    )
    return PolicyReview(
        title=title,
        headline=headline(measures, RECORDED, proposal.name),
        before="recorded",
        after=proposal.name,
        measures=measures,
        models=tuple(_models(proposal.policy, changed, courses)),
        limits=judged(proposal.limits, measures),
        cycles=changed.cycles,
        skipped=tally.skipped,
        examples=tuple(changed.examples),
        notes=tuple(_notes(changed, tally, courses)),
        damaged=tuple(tally.damaged[:DAMAGE_TOLD]),
    )


def _measures(changed: ChangedDecisions, courses: Courses) -> Iterator[Measure]:
    yield Measure(CHANGED, None, changed.otherwise)
    yield Measure(MOVES, changed.moves_before, changed.moves_after)
    before, after, came = courses.before, courses.after, sum(courses.requests.values())
    was, is_ = sum(before.late.values()), sum(after.late.values())
    if came:
        yield Measure(LATE, was, is_)
        yield Measure(LATE_PERCENT, 100 * was / came, 100 * is_ / came)
    else:
        yield Measure(LATE, None, None)
    if courses.seconds:
        yield Measure(GPU_HOURS, before.gpu_hours, after.gpu_hours)
        yield Measure(USD, before.usd, after.usd)


def _models(policy: Policy, changed: ChangedDecisions, courses: Courses) -> Iterator[ModelReview]:
    names = dict.fromkeys([*(entry.id for entry in policy.models), *courses.before.ready_hours])
    for name in names:
        moves = changed.by_model.get(name, (0, 0))
        requests = courses.requests.get(name)
        before, after = (None if requests is None else side.late.get(name) for side in (courses.before, courses.after))
        hours_before, hours_after = (side.ready_hours.get(name) for side in (courses.before, courses.after))
        yield ModelReview(name, requests, before, after, hours_before, hours_after, *moves)


def _notes(changed: ChangedDecisions, tally: JournalRead, courses: Courses) -> Iterator[str]:
    yield from (f"{note[0].upper()}{note[1:]}." for note in changed.notes)
    if not changed.cycles:
        return
    if tally.code not in {"", code_digest()}:
        yield (
            f"The journal was recorded by rebalancer {tally.version}, this is {__version__}: both policies' decisions"
            " were made anew, by this one."
        )
    if tally.skipped:
        cycles = counted(tally.skipped, "cycle")
        yield f"{cycles} before a keyframe or after damage could not be decided again."
    if not courses.seconds:
        yield "No two cycles follow each other, so nothing could be played again."
    if courses.uncounted:
        yield f"Nobody counts requests of {listed(sorted(courses.uncounted))}: not in late requests."
    yield from _course_notes(courses)


def _course_notes(courses: Courses) -> Iterator[str]:
    if not courses.requests:
        yield "Late requests are unknown: no model of both policies has its requests counted in this journal."
        return
    was, played = courses.late_recorded, sum(courses.before.late.values())
    alike = abs(played - was) <= max(FEW, MOST_APART * was)
    yield (
        f"Late requests and GPU-hours are the simulator's for both, on the recorded work. With the recorded replicas it"
        f" makes {was:,.0f} late, with the recorded policy in the simulated cluster {played:,.0f}"
        + ("." if alike else ": these are not alike, so trust the direction more than the numbers.")
    )
    difference = _difference(courses).sentence
    yield f"{difference[0].upper()}{difference[1:]}."
    if courses.before.usd is None or courses.after.usd is None:
        yield f"Money is unknown: there is no pricePerGpuHour for {listed(sorted(courses.unpriced))}."


def _difference(courses: Courses) -> OutcomeDifference:
    before, after = (np.concatenate(side.blocks) for side in (courses.before, courses.after))
    mean, low, high = paired_interval(after, before, 0)
    if len(before) < 2:  # noqa: PLR2004  # one block has nothing to be drawn against
        return OutcomeDifference(RECORDED, "the proposed one", mean, None, None, None)
    return OutcomeDifference(RECORDED, "the proposed one", mean, low, high, not low <= 0.0 <= high)
