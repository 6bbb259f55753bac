"""One cycle out of the journal's files: the very plan and inputs, by number or by instant, while the writer goes on."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.api.ports.page_data import NotRecorded, RecordsBusy
from rebalancer.api.ports.past_refusals import PastRefusal
from rebalancer.app.archive import READ_SECONDS, Archive
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.domain.plan import Decision, Refusal
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.recorder import Recorder
from rebalancer.planning import plan
from tests.builders import NOW, a_policy, a_snapshot
from tests.sandbox.hand_clock import HandClock

POLICY = a_policy()
PERIOD = 10.0
CYCLES = 100  # with a keyframe every 300 s: four of them


def seen(cycle: int) -> Snapshot:
    """The world of one cycle: b's load rises."""
    world = a_snapshot(POLICY, {"a": 2, "b": 4}, {"a": {"concurrency": 8.0}, "b": {"concurrency": 8.0 + cycle}})
    return replace(world, cycle=cycle, at=NOW + PERIOD * cycle)


class Book:
    """A journal that is being written, and everything that went in."""

    def __init__(self, folder: Path, max_bytes: int = 10_000_000) -> None:
        self.files = JournalFiles(folder, max_bytes)
        self.decided: dict[int, tuple[Snapshot, Decision]] = {}
        self.refusals: dict[int, tuple[Refusal, ...]] = {}  # of cycles that refuse something
        self._recorder = Recorder(self.files, self._publish, lambda _key, _line: None)
        self._recorder.code = "the-source"
        self._memory = Memory()

    async def _publish(self, _key: bytes, _line: bytes) -> bool:
        return True

    def start(self) -> None:
        self.files.start()
        self._recorder.policy(POLICY, NOW)

    async def write(self, cycles: range) -> None:
        for cycle in cycles:
            snapshot = seen(cycle)
            decision = plan(snapshot, POLICY, self._memory)
            refused = replace(decision.plan, refusals=self.refusals.get(cycle, decision.plan.refusals))
            decision = replace(decision, plan=refused)
            self._recorder.begin(snapshot, self._memory)
            self._recorder.cycle(decision)
            self._memory = decision.memory
            self.decided[cycle] = snapshot, decision
            await self._recorder.outcome(outcome_of(cycle))
        assert await self.files.flushed()

    async def close(self) -> None:
        await self._recorder.close()


def outcome_of(cycle: int) -> Outcome:
    at = NOW + PERIOD * cycle + 0.2
    return Outcome(Intent(f"{cycle}-b", cycle, at, "grant", "b", "deployment/b", 4, 5, "demand is 5"), at, WRITTEN)


@pytest.fixture
async def book(tmp_path: Path) -> AsyncIterator[Book]:
    book = Book(tmp_path)
    book.start()
    await book.write(range(1, CYCLES + 1))
    yield book
    await book.close()


def archive(book: Book) -> Archive:
    return Archive(book.files.paths, HandClock())


async def test_a_cycle_comes_with_the_one_before_it_but_for_the_first_of_a_keyframe(book: Book) -> None:
    found = {cycle: await archive(book).recorded(cycle=cycle) for cycle in (2, 50, CYCLES)}
    for cycle, recorded in found.items():
        assert recorded.before is not None
        snapshot, decision = book.decided[cycle - 1]
        assert (recorded.before.plan, recorded.before.snapshot) == (decision.plan, snapshot)
    assert (await archive(book).recorded(cycle=1)).before is None


async def test_every_cycle_comes_back_as_it_was_decided_with_its_inputs_and_outcomes(book: Book) -> None:
    for cycle in (1, 2, 30, 31, 32, 61, CYCLES):
        found = await archive(book).recorded(cycle=cycle)
        snapshot, decision = book.decided[cycle]
        assert found.snapshot == snapshot
        assert found.plan == decision.plan
        assert found.outcomes == (outcome_of(cycle),)
        assert found.code_digest == "the-source"


async def test_a_cycle_comes_with_what_was_refused_in_the_cycles_before_it(tmp_path: Path) -> None:
    book, step = Book(tmp_path), Refusal("step", "b", 3, 2, "it lost 1 of at most 1")
    book.refusals = {2: (step,), 3: (step,)}
    book.start()
    await book.write(range(1, 6))
    past = {cycle: (await archive(book).recorded(cycle=cycle)).refusals for cycle in (1, 2, 5)}
    await book.close()
    assert past[1] == ()
    assert [(each.at, each.until) for each in past[2]] == [(NOW + 2 * PERIOD,) * 2]
    assert past[5] == (PastRefusal(NOW + 2 * PERIOD, NOW + 3 * PERIOD, step),)


async def test_an_instant_finds_the_last_cycle_decided_by_then(book: Book) -> None:
    for seconds, cycle in ((PERIOD, 1), (PERIOD * 31 + 9.9, 31), (PERIOD * 32, 32), (1e6, CYCLES)):
        assert (await archive(book).recorded(at=NOW + seconds)).plan.cycle == cycle


async def test_what_is_older_than_the_journal_is_refused_with_the_oldest_instant_there_is(book: Book) -> None:
    with pytest.raises(NotRecorded) as refused:
        await archive(book).recorded(at=NOW)
    assert refused.value.oldest == NOW + PERIOD
    assert str(refused.value) == "the journal does not reach back to 2027-01-15T08:00:00Z", (
        "a time of day was yesterday's"
    )
    with pytest.raises(NotRecorded):
        await archive(book).recorded(cycle=CYCLES + 1)
    await book.close()


async def test_files_that_were_rotated_away_take_only_their_own_cycles_with_them(tmp_path: Path) -> None:
    book = Book(tmp_path, max_bytes=100_000)
    book.start()
    for first in range(1, CYCLES + 1, 10):
        await book.write(range(first, first + 10))
    assert len(await asyncio.to_thread(book.files.paths)) > 1
    with pytest.raises(NotRecorded) as refused:
        await archive(book).recorded(cycle=1)
    assert refused.value.oldest is not None
    oldest = round((refused.value.oldest - NOW) / PERIOD)
    for cycle in (oldest, oldest + 1, CYCLES):
        assert (await archive(book).recorded(cycle=cycle)).plan == book.decided[cycle][1].plan
    await book.close()


async def test_a_line_that_is_still_being_written_is_not_read(book: Book) -> None:
    path = (await asyncio.to_thread(book.files.paths))[-1]
    text = await asyncio.to_thread(path.read_bytes)
    await asyncio.to_thread(path.write_bytes, text[: text.rindex(b'"line":"cycle"')])
    assert (await archive(book).recorded(at=NOW + 1e6)).plan.cycle == CYCLES - 1


async def test_a_cycle_after_one_that_is_missing_is_not_shown_as_what_it_was_not(book: Book) -> None:
    path = (await asyncio.to_thread(book.files.paths))[-1]
    lines = (await asyncio.to_thread(path.read_bytes)).splitlines(keepends=True)
    there = [line for line in lines if not (b'"cycle":40,' in line[:96] and line.startswith(b'{"delta"'))]
    assert len(there) == len(lines) - 1
    await asyncio.to_thread(path.write_bytes, b"".join(there))
    with pytest.raises(NotRecorded, match="does not have cycle 41"):
        await archive(book).recorded(cycle=41)
    for cycle in (39, 61, CYCLES):
        assert (await archive(book).recorded(cycle=cycle)).snapshot == book.decided[cycle][0]


async def test_lines_of_a_version_that_did_not_say_what_they_differ_from_are_read(book: Book) -> None:
    path = (await asyncio.to_thread(book.files.paths))[-1]
    text = await asyncio.to_thread(path.read_bytes)
    lines = [re.sub(rb'"differs_from":\d+,', b"", line) for line in text.splitlines(keepends=True)]
    before = [line.replace(b'"cycle":100,', b'"cycle":101,') for line in lines]  # 100 had failed
    await asyncio.to_thread(path.write_bytes, b"".join(before))
    assert (await archive(book).recorded(cycle=101)).snapshot == replace(book.decided[CYCLES][0], cycle=101)


async def test_a_damaged_journal_is_said_to_be_damaged(book: Book) -> None:
    path = (await asyncio.to_thread(book.files.paths))[-1]
    text = await asyncio.to_thread(path.read_bytes)
    await asyncio.to_thread(path.write_bytes, text.replace(b'"models":[', b'"models":7[', 1))
    with pytest.raises(NotRecorded, match="is damaged"):
        await archive(book).recorded(cycle=2)


async def test_an_empty_journal_knows_no_oldest_instant(tmp_path: Path) -> None:
    files = JournalFiles(tmp_path / "none", 1_000_000)
    with pytest.raises(NotRecorded) as refused:
        await Archive(files.paths, HandClock()).recorded(cycle=1)
    assert refused.value.oldest is None


async def test_a_read_that_takes_too_long_is_given_up(book: Book) -> None:
    class Hurrying(HandClock):
        def monotonic(self) -> float:
            self.ticks = getattr(self, "ticks", 0.0) + READ_SECONDS
            return self.ticks

    with pytest.raises(RecordsBusy, match="within 8 s"):
        await Archive(book.files.paths, Hurrying()).recorded(cycle=CYCLES)


async def test_only_so_many_may_wait_for_the_journal_at_once(book: Book) -> None:
    all_have_asked = threading.Event()  # a read that ends before that makes room for one more: seen on Python 3.14

    def files() -> Sequence[Path]:
        all_have_asked.wait(10.0)
        return book.files.paths()

    desk = Archive(files, HandClock())
    asking = asyncio.gather(*(desk.recorded(cycle=CYCLES) for _ in range(8)), return_exceptions=True)
    await asyncio.sleep(0)
    all_have_asked.set()
    answers = await asking
    assert sum(isinstance(each, RecordsBusy) for each in answers) == 4
    assert sum(not isinstance(each, BaseException) for each in answers) == 4
