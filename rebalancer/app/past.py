"""What a start reads before it decides: the checkpoint in `state`, and the writes since then, in `decisions` and here.

A write whose intent is there without an outcome may have happened: it counts in every guard's window as if it had. What
Kafka does not have, since it was away, the local journal has. Where all cycles since the checkpoint are known, memory
is made again (`app.remade`); where neither reaches back, `planning.resume` holds back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from msgspec import UNSET
from msgspec.structs import replace

from rebalancer.app.own_writes import OwnWrites, writes_of
from rebalancer.app.recent_writes import RecentWrite, count_unheard, recent_writes, targets_of
from rebalancer.app.remade import remade
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Outcome
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.stepped import stepped
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.topic_past import PastUnreadable, TopicPast, read_past
from rebalancer.obs.clock import Clock
from rebalancer.planning.memory.resume import resume
from rebalancer.state import ClusterState, checkpoint
from rebalancer.state.checkpoint import Restored
from rebalancer.state.foreign import ForeignPast
from rebalancer.state.notices import NoticePast, gone_by

SLACK_SECONDS = 60.0  # brokers stamp records with their own clocks
PAUSE_SECONDS = 60.0  # a wheel that turns writes a line each planning period; after so long some are missing
AGAIN_SECONDS = 2.0  # between two looks for a Kafka that is away
# A service writes its memory every 30 s: one that has been silent for so long is over, or has another name now.
SHARED_SECONDS = 300.0

log = structlog.get_logger()


Read = Callable[[str, float | None], Awaitable[list[TopicPast]]]
"""Records of one of `broker.TOPICS` from an instant on, None: from its beginning. Raises PastUnreadable."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the service begins with.

    memory: memory to plan from, as `planning.memory.resume` leaves it.
    first_cycle: number of the first cycle to make.
    offsets: next offset to read, by topic and partition; empty where no checkpoint names one.
    rings: bytes of each model's past, by model id; empty where a replica that stood by takes over.
    foreign: what others changed at each target, and the numbers that we asked it for last.
    outcomes: outcomes of writes that `memory` does not know yet, in the order of their telling.
    problems: what could not be read of the past or is not known of it, each as a sentence.
    notices: what the checkpoint says of nodes under notice.
    recent: what targets were asked for lately, which watches may not have shown yet.
    slot: number of the slot where the next checkpoint goes if it needs chunks.
    seen: snapshot of the last cycle before, None where memory was not made again up to it.
    ahead_seconds: seconds by which the checkpoint, and `notices` with it, is dated later than the start; else 0.
    forgotten: outcomes of writes that `memory` knows, of which `decisions` has the intent alone.
    published: identities of the writes whose outcome `decisions` has.
    journaled: identities of the writes whose outcome the local journal has.
    """

    memory: Memory
    first_cycle: int
    offsets: dict[tuple[str, int], int]
    rings: dict[str, bytes]
    foreign: tuple[ForeignPast, ...]
    outcomes: tuple[Outcome, ...]
    problems: tuple[str, ...]
    notices: tuple[NoticePast, ...] = ()
    recent: tuple[RecentWrite, ...] = ()
    slot: int = 0
    seen: Snapshot | None = None
    ahead_seconds: float = 0.0
    forgotten: tuple[Outcome, ...] = ()
    published: frozenset[tuple[str, float]] = frozenset()
    journaled: frozenset[tuple[str, float]] = frozenset()

    def untold(self, outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
        """What `decisions` lacks, for who leads now to tell: of `outcomes`, as their objects say now, and of older.

        The process before died before their outcome, or it was in its journal alone when it died.
        """
        lacking = (one for one in outcomes if one.intent.identity not in self.published)
        return (*self.forgotten, *lacking)

    def into(self, state: ClusterState, now: float) -> None:
        """Put back what was known of the world before, into a state that has heard nothing yet."""
        for model, rings in self.rings.items():
            state.restore_rings(model, rings)
        state.restore_notices(self.notices)
        if self.ahead_seconds:
            state.past_stepped(-self.ahead_seconds)
        state.restore_foreign(self.foreign)
        state.offsets = dict(self.offsets)
        if self.seen is not None:
            state.restore_notices(gone_by(self.seen, now))
            state.resume(self.seen)
        for outcome in self.outcomes:
            state.note(outcome, now)

    def over(self, state: ClusterState, now: float) -> None:
        """Put what the leader before us did into a state that has seen what it saw, or soon will."""
        state.succeed_foreign(self.foreign)
        count_unheard(self.recent, state, now)
        for outcome in self.outcomes:
            state.note(outcome, now)


class TopicsShared(PastUnreadable):
    """Another installation writes its memory to the same topics; the text says which, and what to set."""


async def read_start(  # noqa: PLR0913  # where its past may lie
    read: Read,
    policy: Policy,
    now: float,
    files: Sequence[Path] = (),
    keyframe_seconds: float = 300.0,
    installation: str = "",
) -> Start:
    """Checkpoint and later writes; `files`: of the local journal. Raises kafka.topic_past.PastUnreadable without Kafka.

    `keyframe_seconds`: between keyframes; `decisions` is read from the one before the checkpoint on. `installation`:
    our name. Raises TopicsShared while another one writes to the same topics: each would take the other's memory, and
    its writes, for its own.
    """
    restored = await _restored(read, [model.id for model in policy.models], now)
    _refuse_shared(restored, installation, now)
    return await _begin(read, restored, policy, now, files, keyframe_seconds)


async def read_succession(  # noqa: PLR0913  # as for a start
    read: Read,
    policy: Policy,
    now: float,
    files: Sequence[Path],
    keyframe_seconds: float,
    checkpoint_seconds: float,
) -> Start:
    """What a replica that stood by reads when it takes over: it saw what the leader saw, not what that one did.

    No rings are read, and memory where the last checkpoints are (`checkpoint_seconds`: between two of them), unless
    there is none. Raises kafka.topic_past.PastUnreadable.
    """
    restored = await _restored(read, (), now, now - recent_seconds(checkpoint_seconds))
    if restored.at is None:
        restored = await _restored(read, (), now)
    return await _begin(read, restored, policy, now, files, keyframe_seconds)


def _refuse_shared(restored: Restored, installation: str, now: float) -> None:
    """Raise TopicsShared where another installation has written memory a short while ago."""
    for name, at in restored.writers.items():
        if installation and name != installation and now - at < SHARED_SECONDS:
            raise TopicsShared(
                f"installation {name} wrote its memory to our topic `state` {max(0.0, now - at):.0f} s ago, and we are "
                f"{installation}: give one of the two topics of its own (kafka.topicPrefix of the chart, "
                f"REBALANCER_TOPIC_PREFIX); if {name} is our former name, this start goes on when it has been silent "
                f"for {SHARED_SECONDS:.0f} s"
            )


def recent_seconds(checkpoint_seconds: float) -> float:
    """How far back the last checkpoint is, unless several in a row could not be written."""
    return 4 * checkpoint_seconds + SLACK_SECONDS


def reading(broker: Broker) -> Read:
    """Each topic opened and read when it is asked for."""

    async def read(name: str, since: float | None) -> list[TopicPast]:
        return await read_past(broker.bootstrap, broker.topic(name), await broker.secured(), since)

    return read


async def _restored(read: Read, models: Collection[str], now: float, since: float | None = None) -> Restored:
    return checkpoint.read(((entry.key, entry.value) for entry in await read("state", since)), models, now)


async def _begin(  # noqa: PLR0913  # as for a start
    read: Read, restored: Restored, policy: Policy, now: float, files: Sequence[Path], keyframe_seconds: float
) -> Start:
    """`restored`, and what was written since."""
    begin = restored.at if restored.at is not None else now - _longest_window(policy)
    since = begin - SLACK_SECONDS
    records = await read("decisions", since - keyframe_seconds)
    writes = await asyncio.to_thread(writes_of, records, files, since)
    return await asyncio.to_thread(begin_from, restored, writes, policy, now)


async def await_start(
    read: Callable[[], Awaitable[Start]], clock: Clock, waiting: Callable[[str | None], None]
) -> Start:
    """What `read` (`read_start`) finds, tried again until Kafka answers; `waiting` hears why not yet, then None.

    Without the past the guards' windows are unknown, so nothing starts before it is read.
    """
    while True:
        try:
            start = await read()
        except PastUnreadable as error:
            waiting(str(error))
            log.warning("waiting for our past", error=str(error))
            await clock.sleep(AGAIN_SECONDS)
        else:
            waiting(None)
            for problem in start.problems:
                log.warning("checkpoint", problem=problem)
            return start


async def read_last_policy(broker: Broker, installation: str, now: float) -> Policy | None:
    """The policy that `installation`, ours, had in force last; None where it is not known.

    What was left here after another one wrote its memory, and before we did again, is about its models, not about
    ours; an older version's memory does not say whose it is, and counts as ours. Raises TopicsShared, and
    kafka.topic_past.PastUnreadable without Kafka.
    """
    entries = [(entry.key, entry.value) for entry in await reading(broker)("state", None)]
    restored = checkpoint.read(entries, (), now)
    _refuse_shared(restored, installation, now)
    last = max(restored.writers, key=lambda name: restored.writers[name], default=installation)
    if last != installation:
        return None
    return checkpoint.read_policy(entries)


def begin_from(restored: Restored, writes: OwnWrites, policy: Policy, now: float) -> Start:
    """Where to begin, given what was found. Without any line of ours and without a checkpoint nothing was before.

    What was written down later than `now`, before somebody set the clock back, counts as written down now: memory that
    lies in the future would hold cooldowns and guards' windows for as long again, keep us away from whoever fought us,
    and hold a Node that is gone for one that may still come.
    """
    last_cycle = max([restored.cycle, writes.last_cycle, *(one.intent.cycle for one in writes.since(restored.cycle))])
    again = remade(restored.memory, restored.cycle, writes.cycles, writes.frames, policy, last_cycle)
    memory, cycle, at = restored.memory, restored.cycle, restored.at
    if again is not None:
        memory, cycle, at = again.memory, last_cycle, again.snapshot.at
    begin = restored.at if restored.at is not None else now - _longest_window(policy)
    new = restored.at is None and not writes.instants
    pause_seconds = max(PAUSE_SECONDS, 6 * policy.plan_every_seconds)
    gaps = not new and again is None and not writes.reach_back(begin, pause_seconds)
    problems, ahead_seconds = restored.problems, max(0.0, (restored.at or now) - now)
    foreign = tuple(stepped(one, -ahead_seconds) for one in restored.foreign)
    if again is not None:
        foreign = _foreign(foreign, again.snapshot, now)
    outcomes = writes.since(cycle)
    if at is not None:
        memory = stepped(memory, min(0.0, now - at))
    if gaps:
        problems = (*problems, "not all writes since the checkpoint are known: guards' windows count as used up")
    return Start(
        memory=resume(memory, now, (model.id for model in policy.models), behind=last_cycle > cycle, gaps=gaps),
        first_cycle=last_cycle + 1,
        offsets=restored.offsets,
        rings=restored.rings,
        foreign=_asked_since(foreign, outcomes, policy),
        outcomes=tuple(replace(outcome, at=min(outcome.at, now)) for outcome in outcomes),
        problems=problems,
        notices=restored.notices,
        recent=recent_writes(writes.since(0), policy, now),
        slot=restored.slot,
        seen=None if again is None else again.snapshot,
        ahead_seconds=ahead_seconds,
        forgotten=tuple(replace(one, at=min(one.at, now)) for one in writes.forgotten(cycle, begin - SLACK_SECONDS)),
        published=frozenset(writes.published),
        journaled=frozenset(writes.journaled),
    )


def _foreign(remembered: Iterable[ForeignPast], seen: Snapshot, now: float) -> tuple[ForeignPast, ...]:
    """What others did, as the last cycle saw it: the checkpoint may be older, and a clock set since then knows it not.

    A cycle that is dated later than `now` was before the clock was set back.
    """
    by_target = {one.target: one for one in remembered}
    for target in (target for model in seen.models for target in model.targets):
        ref = WorkloadRef(target.namespace, target.kind, target.name)
        if target.foreign or target.ours is not None or target.metric is not UNSET or ref in by_target:
            known = by_target.get(ref) or ForeignPast(ref, ())
            ours = known.ours if target.ours is None else target.ours
            desired = None if target.metric is UNSET else target.metric.desired
            scaler = target.autoscaler
            stood = (target.replicas,) if scaler is None else (scaler.minimum, scaler.maximum)
            past = ForeignPast(ref, target.foreign, ours, target.repaired_at, desired, known.other_kind, stood)
            by_target[ref] = stepped(past, min(0.0, now - seen.at))
    return tuple(by_target.values())


def _asked_since(
    remembered: Iterable[ForeignPast], writes: Iterable[Outcome], policy: Policy
) -> tuple[ForeignPast, ...]:
    """With the numbers that we asked for since: by a checkpoint's older ones a stranger's number may pass for ours."""
    by_target, targets = {one.target: one for one in remembered}, targets_of(policy)
    for intent in (write.intent for write in writes if write.status == WRITTEN and write.intent.object in targets):
        model, ref = targets[intent.object]
        if model.actuation == "metric":
            by_target[ref] = replace(by_target.get(ref) or ForeignPast(ref, ()), desired=intent.replicas_to)
            continue
        bounds = intent.minimum_to is not None and model.actuation != "scale"
        ours = (intent.minimum_to, intent.replicas_to) if bounds else (intent.replicas_to,)
        by_target[ref] = replace((by_target.get(ref) or ForeignPast(ref, ())).of_kind(ours), ours=ours, stood=ours)
    return tuple(by_target.values())


def _longest_window(policy: Policy) -> float:
    guards = policy.guards
    return max(guards.step.window_seconds, guards.fleet.window_seconds, guards.shift.window_seconds)
