"""The journal: what is written can be read back, wherever a reader begins, and a replay notices every difference."""

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import rebalancer
from rebalancer.domain.codec import to_bytes
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.quota_view import Holder, PodRank, QuotaView
from rebalancer.domain.snapshot import Snapshot
from rebalancer.loop.replay import replay
from rebalancer.obs import journal
from rebalancer.obs.journal_files import SHARE_PER_FILE, JournalFiles
from rebalancer.obs.recorder import Recorder
from rebalancer.planning import plan
from tests.builders import a_model, a_node, a_node_group, a_policy, a_pool, a_snapshot
from tests.planning.cluster import become_ready, execute, later, reconcile, vanish

SIGNALS = {"concurrency": {"per_replica": 4.0}}
MODELS = tuple(a_model(name, entitlement=4, signals=SIGNALS) for name in "ab")
POLICY = a_policy(*MODELS, plan_every_seconds=1.0)


def a_world(a: int, b: int, work_a: float, work_b: float) -> Snapshot:
    """Replicas and busy replicas of the two models."""
    readings = {"a": {"concurrency": 4.0 * work_a}, "b": {"concurrency": 4.0 * work_b}}
    return a_snapshot(POLICY, {"a": a, "b": b}, readings, {"a": work_a, "b": work_b})


worlds = st.builds(
    a_world,
    st.integers(0, 5),
    st.integers(0, 3),
    st.floats(0, 9).map(lambda level: round(level, 3)),
    st.floats(0, 9).map(lambda level: round(level, 3)),
)


class Told:
    """Stands where Kafka does: keeps what it is told, acknowledges unless told not to."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.acknowledges = True

    async def publish(self, _key: bytes, line: bytes) -> bool:
        self.lines.append(line)
        return self.acknowledges

    def tell(self, _key: bytes, line: bytes) -> None:
        self.lines.append(line)


async def record(folder: Path, cycles: int, keyframe_seconds: float = 20.0) -> Told:
    """A surge on `a`, carried out on the little cluster, recorded cycle by cycle."""
    told = Told()
    files = JournalFiles(folder, max_bytes=1 << 30)
    files.start()
    recorder = Recorder(files, told.publish, told.tell, keyframe_seconds)
    recorder.code = await asyncio.to_thread(journal.code_digest)
    recorder.policy(POLICY, 0.0)
    snapshot, memory = a_world(4, 4, 6.5, 0.5), Memory()
    for _ in range(cycles):
        decision = plan(snapshot, POLICY, memory)
        recorder.begin(snapshot, memory)
        recorder.cycle(decision)
        memory = decision.memory
        carried = execute(replace(snapshot, outcomes=()), decision.plan)
        moved = later(reconcile(carried), 1.0)
        snapshot = vanish(become_ready(replace(moved, outcomes=carried.outcomes)))
    await recorder.close()
    return told


def lines_in(folder: Path) -> list[bytes]:
    return list(
        itertools.chain.from_iterable(
            path.read_bytes().splitlines(keepends=True) for path in sorted(folder.glob("*.jsonl"))
        )
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The lines of 100 cycles."""
    folder = tmp_path_factory.mktemp("journal")
    asyncio.run(record(folder, 100))
    return lines_in(folder)


@given(worlds, worlds)
def test_a_difference_applied_to_the_snapshot_before_gives_the_snapshot_after(
    before: Snapshot, after: Snapshot
) -> None:
    assert journal.apply(before, journal.difference(before, after)) == after


@given(worlds)
def test_nothing_differs_between_a_snapshot_and_itself(world: Snapshot) -> None:
    delta = journal.difference(world, replace(world))
    assert (delta.models, delta.loads, delta.pools, delta.models_gone) == ((), (), (), ())


def test_what_went_is_told_too_nodes_and_pools_included() -> None:
    policy = a_policy(pools=(a_pool(), a_pool("l40s", node_labels={"pool": "l40s"})))
    before = a_snapshot(policy, {"a": 1, "b": 1})
    pools = (replace(before.pools[0], nodes=(a_node("n9"),)),)
    after = replace(before, pools=pools, models=before.models[:1], loads=before.loads[1:])
    delta = journal.difference(before, after)
    assert delta.models_gone == ("b",)
    assert delta.loads_gone == ("a",)
    assert delta.pools_gone == ("l40s",)
    assert journal.apply(before, delta) == after


def test_quotas_and_who_holds_gpus_besides_the_models_are_told_when_they_change_and_when_they_go() -> None:
    before = a_world(2, 2, 1.0, 1.0)
    quota = QuotaView("ResourceQuota", "serving", "gpus", "requests.nvidia.com/gpu", 8000, 6000)
    holders = (Holder("Job", "ml", "train", 2),)
    pool = replace(
        before.pools[0],
        others=holders,
        node_groups=(a_node_group(),),
        preemptible=holders,
        not_preemptible="why",
    )
    assert all(getattr(pool, name) for name in PoolView.__struct_fields__ if name != "node_pools"), (
        "each part of a pool"
    )
    ranks = (PodRank("a", "a100", "serving-high", 1000),)
    after = replace(before, pools=(pool, *before.pools[1:]), quotas=(quota,), ranks=ranks)
    for old, new in ((before, after), (after, before), (after, after)):
        assert journal.apply(old, journal.difference(old, new)) == new
    seen = journal.EMPTY
    for frame in journal.keyframe(after, Memory()):
        seen = journal.apply(seen, frame.delta)
    assert seen == after


@pytest.mark.parametrize("nodes", [0, 1, journal.CHUNK, 2 * journal.CHUNK + 1])
def test_a_keyframe_of_any_size_comes_in_chunks_that_together_are_the_snapshot(nodes: int) -> None:
    world = a_world(2, 2, 1.0, 1.0)
    many = tuple(a_node(f"n{number:05d}") for number in range(nodes))
    world = replace(world, pools=(replace(world.pools[0], nodes=many),))
    frames = list(journal.keyframe(world, Memory()))
    assert [frame.part for frame in frames] == list(range(frames[0].parts))
    assert [frame.memory is not None for frame in frames] == [True] + [False] * (len(frames) - 1)
    seen = journal.EMPTY
    for frame in frames:
        assert len(journal.encode(frame)) < 1_000_000
        seen = journal.apply(seen, frame.delta)
    assert seen == world


def test_a_recorded_run_replays_byte_for_byte(recorded: list[bytes]) -> None:
    found = replay(recorded)
    assert (found.cycles, found.skipped, found.differences, found.other_code) == (100, 0, [], None)
    assert found.changes > 0


def test_a_reader_may_begin_anywhere_and_starts_at_the_next_keyframe(recorded: list[bytes]) -> None:
    found = replay(recorded[10:])
    assert found.skipped > 0
    assert found.cycles > 50
    assert found.differences == []


def test_another_policy_decides_differently_and_the_first_difference_is_shown(recorded: list[bytes]) -> None:
    stricter = a_policy(a_model("a", entitlement=4, max_replicas=4, signals=SIGNALS), MODELS[1], plan_every_seconds=1.0)
    found = replay(recorded, stricter)
    first = found.differences[0]
    assert first.what == "plan"
    assert first.recorded != first.replayed


def test_one_changed_number_in_a_recorded_plan_is_noticed(recorded: list[bytes]) -> None:
    at = next(n for n, line in enumerate(recorded) if b'"line":"cycle"' in line and b'"granted":4' in line)
    forged = [*recorded[:at], recorded[at].replace(b'"granted":4', b'"granted":5', 1), *recorded[at + 1 :]]
    assert [difference.line for difference in replay(forged).differences] == [at + 1]


def test_a_last_line_cut_short_by_a_kill_is_ignored(recorded: list[bytes]) -> None:
    found = replay([*recorded, recorded[-1][:50]])
    assert (found.cycles, found.differences) == (100, [])


def test_a_line_that_is_no_journals_is_named(recorded: list[bytes]) -> None:
    with pytest.raises(ValueError, match="line 3 is not a journal's"):
        replay([*recorded[:2], b"what is this\n", *recorded[2:]])


async def test_files_rotate_within_their_budget_and_each_begins_with_a_policy_and_a_keyframe(tmp_path: Path) -> None:
    told = Told()
    files = JournalFiles(tmp_path, max_bytes=SHARE_PER_FILE * 20_000)
    files.start()
    recorder = Recorder(files, told.publish, told.tell)
    recorder.policy(POLICY, 0.0)
    snapshot, memory = a_world(4, 4, 3.0, 3.0), Memory()
    for _ in range(200):
        decision = plan(snapshot, POLICY, memory)
        recorder.begin(snapshot, memory)
        recorder.cycle(decision)
        snapshot, memory = later(snapshot, 1.0), decision.memory
    await recorder.close()
    paths = sorted(await asyncio.to_thread(lambda: list(tmp_path.glob("*.jsonl"))))
    sizes = await asyncio.to_thread(lambda: [path.stat().st_size for path in paths])
    cycle = len(to_bytes(plan(snapshot, POLICY, memory)))
    assert 6 * 20_000 < sum(sizes) <= SHARE_PER_FILE * 20_000 + cycle, "the last file ends with the line that fills it"
    assert paths[0].name != "journal-000001.jsonl"
    for path in paths:
        lines = await asyncio.to_thread(path.read_bytes)
        assert lines.startswith(b'{"at"')
        found = await asyncio.to_thread(replay, lines.splitlines(keepends=True))
        assert found.differences == []


async def test_a_restart_goes_on_in_a_new_file(tmp_path: Path) -> None:
    await record(tmp_path, 3)
    await record(tmp_path, 3)
    names = await asyncio.to_thread(lambda: sorted(path.name for path in tmp_path.glob("*.jsonl")))
    assert names == ["journal-000001.jsonl", "journal-000002.jsonl"]


async def test_a_full_disk_is_told_and_raises_nothing() -> None:
    full = Path("/dev/full")
    if not await asyncio.to_thread(full.exists):
        pytest.skip("no always-full device on this system")
    files = JournalFiles(Path("unused"), max_bytes=1 << 20, single=full)
    files.start()
    files.rotate()
    files.append(b"x" * 100_000 + b"\n")
    assert await files.flushed() is False
    assert files.trouble is not None
    assert "No space left" in files.trouble
    await files.close()


def an_intent(name: str = "7-b-a100") -> Intent:
    return Intent(
        id=name, cycle=7, at=1.0, kind="release", subject="b", object="o", replicas_from=3, replicas_to=2, reason="r"
    )


@pytest.mark.parametrize(
    ("acknowledges", "wait_seconds", "known"), [(True, 5.0, True), (False, 5.0, False), (True, 0.0, False)]
)
async def test_an_intent_is_acknowledged_when_kafka_said_so_and_it_was_waited_for(
    tmp_path: Path, *, acknowledges: bool, wait_seconds: float, known: bool
) -> None:
    told = Told()
    told.acknowledges = acknowledges
    files = JournalFiles(tmp_path, max_bytes=1 << 20)
    files.start()
    recorder = Recorder(files, told.publish, told.tell)
    recorder.policy(POLICY, 0.0)
    world = a_world(2, 2, 1.0, 1.0)
    recorder.begin(world, Memory())
    recorder.cycle(plan(world, POLICY, Memory()))
    assert await recorder.intent(an_intent(), wait_seconds=wait_seconds) is known
    await recorder.outcome(Outcome(an_intent(), 2.0, WRITTEN))
    await recorder.close()
    kinds = [type(line).__name__ for _, line in journal.decode_lines(await asyncio.to_thread(lines_in, tmp_path))]
    assert kinds[-2:] == ["IntentLine", "OutcomeLine"]


async def test_an_intent_that_kafka_acknowledges_too_late_is_on_disk_and_still_on_its_way(tmp_path: Path) -> None:
    """An urgent decrease goes on then: the process that comes back here knows of it, and soon any other one does."""
    answers, acknowledged = asyncio.Event(), asyncio.Event()

    async def slow(_key: bytes, _line: bytes) -> bool:
        await answers.wait()
        acknowledged.set()
        return True

    files = JournalFiles(tmp_path, max_bytes=1 << 20)
    files.start()
    files.rotate()
    recorder = Recorder(files, slow, lambda _key, _line: None)
    assert await recorder.intent(an_intent(), wait_seconds=0.05) is False
    (line,) = await asyncio.to_thread(lines_in, tmp_path)
    assert journal.decode(line) == journal.IntentLine(an_intent())
    answers.set()
    await asyncio.wait_for(acknowledged.wait(), 5.0)
    await recorder.close()


def test_every_kind_of_line_survives_being_written(recorded: Sequence[bytes]) -> None:
    lines: list[journal.Line] = [
        journal.IntentLine(an_intent()),
        journal.OutcomeLine(Outcome(an_intent(), 2.0, WRITTEN, "d")),
    ]
    assert [journal.decode(journal.encode(line)) for line in lines] == lines
    for raw in recorded[:20]:
        assert journal.encode(journal.decode(raw)) == raw


def test_the_digest_of_the_source_covers_every_module_that_decides_however_deep() -> None:
    package = Path(rebalancer.__file__).parent
    deciding = {
        str(path.relative_to(package)) for room in ("domain", "planning") for path in (package / room).rglob("*.py")
    }
    assert {name for name, _ in journal.code_sources()} == deciding
    assert "planning/guards/guards.py" in deciding


async def recording(folder: Path) -> tuple[Recorder, Told]:
    """A recorder of POLICY with a keyframe each 300 s, and what it told."""
    told = Told()
    files = JournalFiles(folder, max_bytes=1 << 30)
    files.start()
    recorder = Recorder(files, told.publish, told.tell, 300.0)
    recorder.code = await asyncio.to_thread(journal.code_digest)
    recorder.policy(POLICY, 0.0)
    return recorder, told


async def test_a_clock_that_is_set_back_puts_no_keyframe_off(tmp_path: Path) -> None:
    recorder, told = await recording(tmp_path)
    snapshot, memory = a_world(4, 4, 6.5, 0.5), Memory()
    for set_by in (0.0, 1.0, -1800.0):
        world = replace(snapshot, at=snapshot.at + set_by)
        recorder.begin(world, memory)
        recorder.cycle(plan(world, POLICY, memory))
    await recorder.close()
    assert [b'"policy"' in line[:80] for line in told.lines].count(True) == 2


async def test_a_policy_that_comes_while_a_cycle_is_written_counts_from_the_next_cycle_on(tmp_path: Path) -> None:
    recorder, _ = await recording(tmp_path)
    capped = a_policy(MODELS[0].model_copy(update={"max_replicas": 4}), MODELS[1], plan_every_seconds=1.0)
    snapshot, memory = a_world(4, 4, 6.5, 0.5), Memory()
    for turn, policy in enumerate((POLICY, capped, capped)):
        world = replace(snapshot, cycle=turn + 1, at=snapshot.at + turn)
        recorder.begin(world, memory)
        if turn == 0:
            recorder.policy(capped, world.at)
        decision = plan(world, policy, memory)
        recorder.cycle(decision)
        memory = decision.memory
    await recorder.close()
    again = await asyncio.to_thread(lambda: replay(lines_in(tmp_path)))
    assert (again.cycles, again.differences) == (3, [])


@pytest.mark.parametrize("failed", [0, 1])
async def test_a_cycle_that_failed_before_its_decision_was_recorded_leaves_the_ones_after_it_replayable(
    tmp_path: Path, failed: int
) -> None:
    """What it remembered and wrote stands, and is in no line: the next cycle is recorded with all that goes into it."""
    recorder, _ = await recording(tmp_path)
    snapshot, memory = a_world(4, 4, 6.5, 0.5), Memory()
    for turn in range(5):
        decision = plan(snapshot, POLICY, memory)
        recorder.begin(snapshot, memory)
        if turn != failed:
            recorder.cycle(decision)
        memory = decision.memory
        snapshot = later(reconcile(execute(snapshot, decision.plan)), 1.0)
    await recorder.close()
    again = await asyncio.to_thread(lambda: replay(lines_in(tmp_path)))
    assert (again.cycles, again.skipped, again.differences) == (4, 0, [])
