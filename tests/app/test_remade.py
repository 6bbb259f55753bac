"""What a killed process knew is made again from the journal, or not believed."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.app.own_writes import OwnWrites, writes_of
from rebalancer.app.past import Start, begin_from
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Decision
from rebalancer.domain.snapshot import ForeignChange, NoticeView
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kafka.topic_past import TopicPast
from rebalancer.obs import journal
from rebalancer.obs.journal_tail import read_tail
from rebalancer.state import ClusterState
from rebalancer.state.absent import AbsentPast
from rebalancer.state.checkpoint import Restored
from rebalancer.state.foreign import ForeignPast
from tests.builders import NAMESPACE, NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story

CYCLES = 6


class Journalled:
    """A world of some cycles: its journal, and what was remembered after each.

    As its last cycle sees them: who `fought` over b, and a node that is `gone`.
    """

    def __init__(self, *fought: ForeignChange, gone: NoticeView | None = None) -> None:
        policy = a_policy(a_model("a", 1, entitlement=4), a_model("b", 1, entitlement=2), pools=(a_pool(gpus=6),))
        self.story = Story(policy, a_snapshot(policy, {"a": 2, "b": 4}))
        self.lines: list[journal.Line] = []
        self.memories: list[Memory] = [Memory()]
        before = journal.EMPTY
        for number in range(1, CYCLES + 1):
            self.story.load("a", {"concurrency": 12.0}, 3.0)
            if number == CYCLES:
                self.story.target("b", foreign=fought, ours=(4,) if fought else None)
            notices = (gone,) if gone is not None and number == CYCLES else ()
            self.story.snapshot = snapshot = replace(self.story.snapshot, cycle=number, notices=notices)
            if number == 1:
                self.lines += journal.keyframe(snapshot, Memory())
                before = snapshot
            plan = self.story.turn()
            self.memories.append(self.story.memory)
            self.lines.append(journal.cycle_line(before, snapshot, Decision(plan, self.story.memory), ""))
            before = snapshot

    def begun(self, lines: Iterable[journal.Line], checkpoint: int = 0, set_by_seconds: float = 0.0) -> Start:
        """A start from the checkpoint after that cycle (0: none) and these lines, by a clock that was set meanwhile."""
        writes = OwnWrites()
        for line in lines:
            writes.take(line)
            writes.instants += [line.delta.at] if isinstance(line, journal.CycleLine) else []
        at = self.story.snapshot.at - 10.0 * (CYCLES + 1 - checkpoint)
        restored = Restored(memory=self.memories[checkpoint], cycle=checkpoint, at=at) if checkpoint else Restored()
        return begin_from(restored, writes, self.story.policy, self.story.snapshot.at + set_by_seconds)


def of_cycle(line: journal.Line) -> int:
    return line.delta.cycle if isinstance(line, journal.CycleLine | journal.FrameLine) else 0


def test_all_that_a_killed_process_knew_is_known_again_with_any_checkpoint() -> None:
    world = Journalled()
    assert world.memories[-1] != world.memories[2]
    for checkpoint in (0, 2, CYCLES):
        start = world.begun(world.lines, checkpoint)
        assert (start.memory, start.first_cycle, start.problems) == (world.memories[-1], CYCLES + 1, ())
        assert start.seen is not None
        assert start.seen.cycle == CYCLES


@pytest.mark.parametrize("checkpoint", [0, 2])
def test_who_fought_us_since_the_checkpoint_over_which_numbers_of_ours_is_known(checkpoint: int) -> None:
    fought = tuple(ForeignChange(at, "helm") for at in (NOW + 30.0, NOW + 40.0))
    world = Journalled(*fought)
    (past,) = world.begun(world.lines, checkpoint).foreign
    assert past == ForeignPast(WorkloadRef(NAMESPACE, "Deployment", "b"), fought, ours=(4,), stood=(3,))


@pytest.mark.parametrize("set_by_seconds", [0.0, -1800.0])
@pytest.mark.parametrize("checkpoint", [0, 2])
def test_a_node_that_went_since_the_checkpoint_is_gone_and_not_on_its_way(
    checkpoint: int, set_by_seconds: float
) -> None:
    """Its pods are Ready by their last word: a start that waited for the node counted them as promised."""
    went_at = NOW + 30.0
    world = Journalled(gone=NoticeView(node="n9", kind="gone", since=went_at, deadline=went_at, source="kubernetes"))
    state = ClusterState(world.story.policy, NOW)
    world.begun(world.lines, checkpoint, set_by_seconds).into(state, world.story.snapshot.at + set_by_seconds)
    (past,) = state.notices_past()
    assert (past.node, past.absent) == ("n9", AbsentPast(went_at + min(0.0, set_by_seconds + 10.0), gone=True))


@pytest.mark.parametrize("checkpoint", [0, 2, CYCLES])
def test_a_clock_that_was_set_back_since_the_last_cycle_leaves_them_as_old_as_that_saw_them(checkpoint: int) -> None:
    world = Journalled(*(ForeignChange(at, "helm") for at in (NOW + 30.0, NOW + 40.0)))
    last_at, state = NOW + 10.0 * (CYCLES - 1), ClusterState(world.story.policy, NOW)
    start = world.begun(world.lines, checkpoint, set_by_seconds=-1800.0)
    start.into(state, NOW)
    now = world.story.snapshot.at - 1800.0
    assert [now - one.at for past in state.foreign_past() for one in past.changes] == [
        last_at - NOW - 30.0,
        last_at - NOW - 40.0,
    ]


def test_a_cycle_that_is_missing_or_was_decided_otherwise_is_not_made_again() -> None:
    world = Journalled()
    without = [line for line in world.lines if of_cycle(line) != 4]
    no_frame = [line for line in world.lines if not isinstance(line, journal.FrameLine)]
    torn = [line for line in world.lines if not (isinstance(line, journal.FrameLine) and line.part == 1)]
    another = [
        journal.CycleLine(line.delta, line.plan, "another", "") if isinstance(line, journal.CycleLine) else line
        for line in world.lines
    ]
    for lines in (without, no_frame, torn, another):
        start = world.begun(lines, checkpoint=2)
        assert start.seen is None
        assert start.memory.resumed_at == world.story.snapshot.at
        assert start.memory.models["a"].begun_anew


def test_of_the_topic_only_what_was_decided_since_the_newest_whole_keyframe_is_decoded() -> None:
    world = Journalled()
    records = [record(line) for line in world.lines]
    fourth = journal.EMPTY
    for line in world.lines:
        if isinstance(line, journal.FrameLine | journal.CycleLine) and of_cycle(line) <= 4:
            fourth = journal.apply(fourth, line.delta)
    newest = [record(frame) for frame in journal.keyframe(fourth, world.memories[3])]
    writes = writes_of([*records, *newest], (), 0.0)
    assert ({*writes.frames}, {*writes.cycles}, writes.last_cycle) == ({4}, {4, 5, 6}, CYCLES)
    torn = writes_of([*records, *newest[1:]], (), 0.0)
    assert ({1} <= {*torn.frames}, {*torn.cycles}) == (True, {1, 2, 3, 4, 5, 6}), "an older one counts then"
    for known in (writes, torn):
        assert len(known.instants) == len(records) + len(newest) - (known is torn)
        start = begin_from(Restored(), known, world.story.policy, world.story.snapshot.at)
        assert start.memory == world.memories[-1]


def record(line: journal.Line) -> TopicPast:
    key = b"cycle" if isinstance(line, journal.CycleLine) else b"frame"
    return TopicPast(key, journal.encode(line), NOW)


def test_the_journals_end_has_the_newest_keyframe_and_all_cycles_since(tmp_path: Path) -> None:
    world = Journalled()
    older, newer = tmp_path / "journal-000001.jsonl", tmp_path / "journal-000002.jsonl"
    lines = [journal.encode(line) for line in world.lines]
    older.write_bytes(b"".join(lines))
    newer.write_bytes(b"".join([*lines, lines[-1][:200]]))
    told = list(read_tail([older, newer], 0.0).decided())
    assert [of_cycle(line) for line in told] == [of_cycle(line) for line in world.lines]
    assert world.begun(told).memory == world.memories[-1]
