"""What a start finds in Kafka and in the local journal, each of which may lack what the other has."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.app.own_writes import OwnWrites
from rebalancer.app.past import SHARED_SECONDS, Start, TopicsShared, begin_from, read_start, reading
from rebalancer.domain.memory import Loss, Memory, ModelMemory
from rebalancer.domain.outcome import REFUSED, UNKNOWN, WRITTEN, Intent, Outcome
from rebalancer.domain.snapshot import ForeignChange, Snapshot
from rebalancer.domain.stepped import stepped
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.outbox import Outbox
from rebalancer.loop.clock import RealClock
from rebalancer.obs import journal
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.journal_tail import read_tail
from rebalancer.obs.recorder import Recorder
from rebalancer.planning import plan
from rebalancer.sandbox.broker import EmbeddedBroker
from rebalancer.state import ClusterState, checkpoint, chunks
from rebalancer.state.absent import AbsentPast
from rebalancer.state.checkpoint import Restored
from rebalancer.state.foreign import ForeignPast
from rebalancer.state.notices import NoticePast
from tests.builders import NAMESPACE, NOW, a_policy, a_snapshot

POLICY = a_policy()
B = WorkloadRef(NAMESPACE, "Deployment", "b")
AT = NOW - 100.0  # of the checkpoint
REMEMBERED = Memory(
    models={
        "b": ModelMemory(
            demand=5,
            lower_since=AT - 5.0,
            lower_peak=3,
            losses=(Loss(AT - 20.0, 1, "step"),),
            replaced=("a100/uid-b/6/uid-b-1",),
        )
    }
)


def a_release(cycle: int, at: float = AT + 20.0) -> Intent:
    return Intent(
        id=f"{cycle}-b-a100",
        cycle=cycle,
        at=at,
        kind="release",
        subject="b",
        object="deployment/serving/b",
        replicas_from=6,
        replicas_to=5,
        reason="test",
        pool="a100",
        counts="step",
        counted=1,
    )


def outcome_of(intent: Intent, status: str = WRITTEN) -> Outcome:
    return Outcome(intent, intent.at + 0.1, status)


def a_cycle(number: int, at: float) -> bytes:
    """The line of a cycle."""
    world = a_snapshot(POLICY, at=at, cycle=number)
    return journal.encode(journal.cycle_line(Snapshot(cycle=0, at=0.0), world, plan(world, POLICY, Memory()), ""))


# --- what is known, wherever it is written down


def writes_at(*instants: float) -> OwnWrites:
    return OwnWrites(instants=list(instants), last_cycle=41 + len(instants))


def every_ten_seconds(since: float, until: float) -> tuple[float, ...]:
    return tuple(since + 10.0 * n for n in range(round((until - since) / 10) + 1))


def begun(writes: OwnWrites, restored: Restored | None = None) -> Start:
    return begin_from(restored or Restored(memory=REMEMBERED, cycle=41, at=AT), writes, POLICY, NOW)


def test_two_leaders_intents_of_one_id_are_two_writes() -> None:
    """The first one's cycle reached Kafka after the second one had numbered its own."""
    first, second = a_release(42), a_release(42, at=NOW - 3.0)
    writes = OwnWrites(instants=[*every_ten_seconds(AT - 5.0, NOW - 20.0)], last_cycle=42)
    for line in (journal.IntentLine(first), journal.OutcomeLine(outcome_of(first)), journal.IntentLine(second)):
        writes.take(line)
    assert [one.status for one in begun(writes).outcomes] == [WRITTEN, UNKNOWN]
    writes.stands_in_topic(journal.OutcomeLine(outcome_of(first)))
    start = begun(writes)
    assert [one.intent for one in start.untold(start.outcomes)] == [second]


def test_a_write_whose_outcome_two_leaders_in_a_row_died_before_telling_is_told_by_the_third() -> None:
    """The second one had told what it knew of it in its memory, and not yet the outcome: that of 43 knows of 42."""
    intent, later = journal.IntentLine(a_release(42)), Restored(memory=REMEMBERED, cycle=43, at=NOW - 20.0)
    writes = OwnWrites(instants=[*every_ten_seconds(AT - 5.0, NOW - 20.0)], last_cycle=43)
    writes.take(intent)
    assert begun(writes, later).untold(()) == (), (
        "in our journal alone: what became of it may be older than what was read"
    )
    writes.stands_in_topic(intent)
    start = begun(writes, later)
    assert start.outcomes == ()
    assert [(one.intent, one.status) for one in start.untold(start.outcomes)] == [(a_release(42), UNKNOWN)]
    writes.stands_in_topic(journal.OutcomeLine(outcome_of(a_release(42))))
    assert begun(writes, later).untold(()) == (), "told once"


def test_of_a_write_from_before_what_was_read_of_the_journal_nobody_tells_what_became_of_it() -> None:
    """It may stand there, written: the topic is read further back."""
    early = journal.IntentLine(a_release(42, at=NOW - 240.0))
    writes = OwnWrites(instants=[*every_ten_seconds(AT - 5.0, NOW - 20.0)], last_cycle=43)
    writes.take(early)
    writes.stands_in_topic(early)
    assert begun(writes, Restored(memory=REMEMBERED, cycle=43, at=NOW - 20.0)).untold(()) == ()


def test_decisions_that_reach_back_to_the_checkpoint_leave_numbers_and_windows_believed() -> None:
    start = begun(writes_at(*every_ten_seconds(AT - 5.0, NOW - 20.0)))
    assert start.memory.models["b"].replaced == REMEMBERED.models["b"].replaced
    assert (start.memory.unknown_before, start.problems) == (None, ())


@pytest.mark.parametrize(
    "instants",
    [
        (),  # the topic is away, and so is the journal
        every_ten_seconds(AT + 30.0, NOW),  # retention took what was before
        (*every_ten_seconds(AT - 5.0, AT + 5.0), *every_ten_seconds(AT + 80.0, NOW)),  # nobody took it for a while
    ],
)
def test_where_decisions_are_missing_no_number_comes_back_and_windows_count_as_used_up(
    instants: tuple[float, ...],
) -> None:
    start = begun(writes_at(*instants))
    assert start.memory.models["b"].replaced == ()
    assert start.memory.unknown_before == NOW
    assert start.memory.models["b"].losses == REMEMBERED.models["b"].losses
    assert len(start.problems) == 1


def test_patience_begins_anew_where_cycles_came_after_the_checkpoint_and_goes_on_where_none_did() -> None:
    behind = begun(writes_at(*every_ten_seconds(AT - 5.0, NOW))).memory.models["b"]
    assert (behind.demand, behind.lower_since, behind.begun_anew) == (None, None, True)
    ordered = OwnWrites(instants=[AT - 5.0], last_cycle=41)
    assert begun(ordered).memory == REMEMBERED


def test_a_start_whose_clock_was_set_back_holds_nothing_for_longer_than_it_would_have() -> None:
    """Half an hour: what was written down lies in the future, and counts as written down now."""
    ahead = Restored(memory=stepped(REMEMBERED, NOW + 1800.0 - AT), cycle=41, at=NOW + 1800.0)
    writes = OwnWrites(instants=[NOW + 1795.0], last_cycle=41)
    writes.take(journal.OutcomeLine(outcome_of(a_release(43, NOW + 1810.0))))
    start = begun(writes, ahead)
    assert start.memory.models["b"].losses == (Loss(NOW - 20.0, 1, "step"),)
    assert [outcome.at for outcome in start.outcomes] == [NOW]


def test_a_start_whose_clock_was_set_back_leaves_who_fought_us_and_nodes_that_are_gone_as_old_as_they_were() -> None:
    kept_at = NOW + 1800.0
    fight = ForeignPast(B, (ForeignChange(kept_at - 30.0, "helm"), ForeignChange(kept_at - 10.0, "helm")))
    missing = NoticePast("n9", absent=AbsentPast(kept_at - 40.0, gone=False))
    start = begun(OwnWrites(), Restored(REMEMBERED, 41, kept_at, foreign=(fight,), notices=(missing,)))
    state = ClusterState(POLICY, NOW)
    start.into(state, NOW)
    assert [one.at for past in state.foreign_past() for one in past.changes] == [NOW - 30.0, NOW - 10.0]
    assert [past.absent for past in state.notices_past()] == [AbsentPast(NOW - 40.0, gone=False)]


def test_what_was_asked_for_since_the_checkpoint_is_ours_and_what_was_before_is_a_strangers() -> None:
    fight = ForeignPast(B, (ForeignChange(AT + 30.0, "helm"), ForeignChange(AT + 40.0, "helm")), ours=(6,))
    writes = writes_at(*every_ten_seconds(AT - 5.0, NOW))
    for line in (a_release(42), replace(a_release(43, AT + 25.0), object="deployment/serving/left-the-policy")):
        writes.take(journal.OutcomeLine(outcome_of(line)))
    writes.take(journal.OutcomeLine(outcome_of(replace(a_release(44, AT + 50.0), replicas_to=4), REFUSED)))
    start = begun(writes, Restored(REMEMBERED, 41, AT, foreign=(fight,)))
    assert start.foreign == (replace(fight, ours=(5,), stood=(5,)),)


def test_of_an_autoscaler_both_bounds_are_ours() -> None:
    writes = writes_at(*every_ten_seconds(AT - 5.0, NOW))
    writes.take(journal.OutcomeLine(outcome_of(replace(a_release(42), minimum_from=6, minimum_to=3))))
    assert begun(writes).foreign == (ForeignPast(B, (), ours=(3, 5), stood=(3, 5)),)


def test_a_first_start_knows_that_nothing_was_before() -> None:
    start = begun(OwnWrites(), Restored())
    assert (start.memory, start.first_cycle, start.problems) == (Memory(), 1, ())


def test_a_lost_checkpoint_leaves_the_windows_of_what_is_decided_and_journalled() -> None:
    writes = writes_at(*every_ten_seconds(NOW - 400.0, NOW))
    writes.take(journal.OutcomeLine(outcome_of(a_release(43))))
    start = begun(writes, Restored())
    assert [outcome.intent.id for outcome in start.outcomes] == ["43-b-a100"]
    assert start.memory.unknown_before is None
    assert begun(writes_at(*every_ten_seconds(NOW - 50.0, NOW)), Restored()).memory.unknown_before == NOW


def test_an_outcome_known_twice_is_one_and_settles_an_intent_from_elsewhere() -> None:
    writes = OwnWrites()
    for line in (
        journal.IntentLine(a_release(42)),
        journal.OutcomeLine(outcome_of(a_release(42))),
        journal.OutcomeLine(outcome_of(a_release(42))),
        journal.IntentLine(a_release(43)),
        journal.OutcomeLine(outcome_of(a_release(40))),
    ):
        writes.take(line)
    assert [(one.intent.cycle, one.status) for one in writes.since(41)] == [(43, UNKNOWN), (42, WRITTEN)]


# --- the local journal


def test_the_journal_tells_of_writes_since_an_instant_and_a_torn_last_line_costs_nothing(tmp_path: Path) -> None:
    intents = [journal.encode(journal.IntentLine(a_release(cycle, AT + cycle))) for cycle in (41, 42, 43)]
    outcome = journal.encode(journal.OutcomeLine(outcome_of(a_release(42, AT + 42))))
    path = tmp_path / "journal-000001.jsonl"
    path.write_bytes(
        b"".join([a_cycle(41, AT), intents[0], intents[1], outcome, b'{"intent":{"id":7}}\n', intents[2][:-9]])
    )
    tail = read_tail([path], AT + 42.0)
    assert [type(line) for line in tail.writes] == [journal.IntentLine, journal.OutcomeLine]
    assert (tail.instants, tail.last_cycle) == ([AT], 41)


def test_files_before_the_instant_are_not_read_and_one_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    paths = [tmp_path / f"journal-00000{number}.jsonl" for number in (1, 2, 3, 4)]
    for number, path in enumerate(paths[:3]):
        intent = a_release(41 + number, AT + 100.0 * number)
        path.write_bytes(a_cycle(41 + number, intent.at) + journal.encode(journal.IntentLine(intent)))
    tail = read_tail(paths, AT + 150.0)
    assert [line.intent.cycle for line in tail.writes if isinstance(line, journal.IntentLine)] == [43]
    assert tail.instants == [AT + 200.0, AT + 100.0]


def test_a_journal_that_is_no_file_is_passed_over(tmp_path: Path) -> None:
    """A device as /dev/full has no end: to read it took all memory there was. A pipe without a writer stands for it."""
    pipe = tmp_path / "journal"
    os.mkfifo(pipe)
    assert read_tail([pipe], AT).writes == []


# --- all of it, from a broker that answers


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    topics = dict.fromkeys(("rebalancer.state", "rebalancer.decisions"), 1)
    async with EmbeddedBroker(topics) as running:
        yield Broker(running.bootstrap)


@pytest.fixture
async def outbox(broker: Broker) -> AsyncIterator[Outbox]:
    opened = Outbox(broker, RealClock(), random.Random(1))
    running = asyncio.create_task(opened.run())
    yield opened
    running.cancel()
    await asyncio.wait({running})
    await opened.close(2.0)


async def away(_key: bytes, _line: bytes) -> bool:
    """Kafka acknowledges nothing."""
    return False


async def recorded(folder: Path, now: float) -> tuple[Path, ...]:
    """A local journal: a cycle, an intent with its outcome, and an intent, while nobody took them elsewhere."""
    files = JournalFiles(folder, 1 << 30)
    files.start()
    recorder = Recorder(files, away, lambda _key, _line: None)
    recorder.policy(POLICY, now)
    world = a_snapshot(POLICY, at=now - 30.0, cycle=42)
    recorder.begin(world, Memory())
    recorder.cycle(plan(world, POLICY, Memory()))
    drained = a_release(42, now - 29.0)
    await recorder.intent(drained, wait_seconds=0)
    await recorder.outcome(outcome_of(drained))
    await recorder.intent(replace(drained, id="42-a-a100", subject="a"), wait_seconds=0)
    await recorder.close()
    return await asyncio.to_thread(files.paths)


async def test_what_was_written_while_kafka_was_away_is_known_after_a_restart(
    broker: Broker, outbox: Outbox, tmp_path: Path
) -> None:
    now = RealClock().now()
    assert await outbox.send("state", *checkpoint.memory_entry(REMEMBERED, 41, now - 60.0, {}))
    assert await outbox.send("decisions", b"cycle", a_cycle(41, now - 65.0))
    assert await outbox.send("decisions", b"intent", journal.encode(journal.IntentLine(a_release(42, now - 29.0))))
    files = await recorded(tmp_path, now)
    without = await read_start(reading(broker), POLICY, now)
    assert [(one.intent.id, one.status) for one in without.outcomes] == [("42-b-a100", UNKNOWN)]
    start = await read_start(reading(broker), POLICY, now, files)
    assert {one.intent.id: one.status for one in start.outcomes} == {"42-b-a100": WRITTEN, "42-a-a100": UNKNOWN}
    assert start.first_cycle == 43
    assert {one.intent.id for one in start.untold(start.outcomes)} == {"42-b-a100", "42-a-a100"}
    (settled,) = (one for one in start.outcomes if one.intent.id == "42-b-a100")
    assert await outbox.send("decisions", b"outcome", journal.encode(journal.OutcomeLine(settled)))
    start = await read_start(reading(broker), POLICY, now, files)
    assert [one.intent.id for one in start.untold(start.outcomes)] == ["42-a-a100"], "the other one was told"


async def test_an_outcome_that_the_own_journal_has_is_told_to_kafka_alone(broker: Broker, tmp_path: Path) -> None:
    """Killed between its line on disk and Kafka: a second line would be a second write on the timeline."""
    now = RealClock().now()
    start = await read_start(reading(broker), POLICY, now, await recorded(tmp_path, now))
    sent: list[bytes] = []
    files = JournalFiles(tmp_path, 1 << 30)
    files.start()
    recorder = Recorder(files, away, lambda key, _line: sent.append(key))
    recorder.policy(POLICY, now)
    recorder.succeed(start.untold(start.outcomes), start.journaled)
    recorder.begin(a_snapshot(POLICY, at=now, cycle=43), Memory())
    await recorder.close()
    paths = await asyncio.to_thread(files.paths)
    lines = [line for path in paths for _, line in journal.decode_lines(path.read_bytes().splitlines(keepends=True))]
    journaled = [line.outcome.intent.id for line in lines if isinstance(line, journal.OutcomeLine)]
    assert sorted(journaled) == ["42-a-a100", "42-b-a100"]
    assert sent.count(b"outcome") == 2


async def test_a_start_goes_on_from_the_memory_before_where_the_last_one_has_an_offset_of_no_partition(
    broker: Broker, outbox: Outbox
) -> None:
    now = RealClock().now()
    key, value = checkpoint.memory_entry(REMEMBERED, 42, now - 30.0, {("metrics", 0): 9})
    assert await outbox.send("state", *checkpoint.memory_entry(REMEMBERED, 41, now - 60.0, {("metrics", 0): 7}))
    assert await outbox.send("state", key, value.replace(b"metrics/0", b"metrics/p"))
    start = await read_start(reading(broker), POLICY, now)
    assert (start.first_cycle, start.offsets) == (42, {("metrics", 0): 7})
    assert "state entry 'memory' is unreadable and ignored" in start.problems[0]


async def test_a_checkpoint_larger_than_a_record_is_read_back_from_a_broker(broker: Broker, outbox: Outbox) -> None:
    losses = tuple(Loss(NOW - n, 1, "step") for n in range(20_000))
    memory = Memory(models={"a": ModelMemory(losses=losses), "b": ModelMemory(losses=losses)})
    key, value = checkpoint.memory_entry(memory, 41, NOW, {})
    assert len(value) > 1024 * 1024
    assert not await outbox.send("state", key, value)
    for record in chunks.entries(key, value, slot=0):
        assert await outbox.send("state", *record)
    start = await read_start(reading(broker), POLICY, NOW)
    assert {name: len(one.losses) for name, one in start.memory.models.items()} == {"a": 20_000, "b": 20_000}
    assert start.slot == 1


async def test_who_would_share_anothers_topics_does_not_start_while_that_one_lives(
    broker: Broker, outbox: Outbox
) -> None:
    def memory_of(installation: str, cycle: int, at: float) -> tuple[bytes, bytes]:
        return checkpoint.memory_entry(Memory(), cycle, at, {}, installation=installation)

    async def cycle_of(installation: str, now: float) -> int:
        start = await read_start(reading(broker), POLICY, now, installation=installation)
        return start.first_cycle

    assert await outbox.send("state", *memory_of("staging/rebalancer", 7, NOW - 40.0))
    assert await outbox.send("state", *memory_of("prod/rebalancer", 41, NOW - 10.0))
    assert await cycle_of("prod/rebalancer", NOW + SHARED_SECONDS - 40.0) == 42
    with pytest.raises(
        TopicsShared, match=r"staging/rebalancer wrote its memory .* 40 s ago, and we are prod/.*topicPrefix"
    ):
        await cycle_of("prod/rebalancer", NOW)
    with pytest.raises(TopicsShared, match="silent for 300 s"):
        await cycle_of("new/name", NOW)
    assert await cycle_of("new/name", NOW + SHARED_SECONDS) == 42, "its former name is over: memory goes on"
