"""A report from the ledger is the report from the journal; and where the journal had to forget, it still is one."""

import asyncio
import gzip
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.snapshot import Snapshot
from rebalancer.ledger.books import MICRO
from rebalancer.ledger.looks import look
from rebalancer.obs import journal
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.journal_lines import NoJournal, journal_files
from rebalancer.obs.journal_reading import JournalRead, turns
from rebalancer.obs.ledger_reading import RecordedLook, ledger_files, ledger_looks, looked
from rebalancer.obs.ledger_recorder import LedgerRecorder
from rebalancer.report.gathering import gather
from rebalancer.report.recorded import recording
from rebalancer.report.report import Report, report
from rebalancer.report.telling import lines
from tests.builders import NOW, a_snapshot
from tests.ledger.worlds import POLICY, looks
from tests.report.conftest import STEP_SECONDS, STEPS
from tests.report.month import GPUS, NODES

pytestmark = pytest.mark.slow  # 15 s

ALL = 30 * 86_400.0
WHOLE_SECONDS = 300.0
MIB = 1 << 20


def keep(folder: Path, recorded: list[RecordedLook], most_bytes: int = 256 * MIB) -> None:
    """Write them as the service does, from its start to its end."""

    async def run() -> None:
        ledger = LedgerRecorder(JournalFiles(folder, most_bytes, name="ledger", packs=True), WHOLE_SECONDS)
        ledger.start()
        for each in recorded:
            ledger.see(each.look, each.policy)
        await ledger.close()

    asyncio.run(run())


def write_journal(folder: Path, seen: list[Snapshot]) -> None:
    folder.mkdir(exist_ok=True)
    line, before = journal.policy_line(POLICY, NOW, "code"), journal.EMPTY
    written = [journal.encode(line), *(journal.encode(frame) for frame in journal.keyframe(seen[0], Memory()))]
    for snapshot in seen:
        delta = journal.difference(before, snapshot)
        written.append(journal.encode(journal.CycleLine(delta, Raw(b"{}"), "", line.digest)))
        before = snapshot
    (folder / "journal-000001.jsonl").write_bytes(b"".join(written))


def of_a_place(place: Path) -> Report:
    return replace(report(gather(place, ALL), {}), sources=())


def cycles(count: int, begin: float = NOW, every: float = 10.0) -> list[RecordedLook]:
    rng = random.Random(count)
    return [
        RecordedLook(look(replace(seen, at=begin + every * n), POLICY), POLICY)
        for n in range(count)
        for seen in [a_snapshot(POLICY, {"a": rng.randint(1, 4), "b": 1}, work={"a": rng.random(), "b": 0.5})]
    ]


def read(folder: Path, tally: JournalRead | None = None) -> list[RecordedLook]:
    return list(ledger_looks(ledger_files(folder), tally or JournalRead()))


@given(looks())
@example(seen=[a_snapshot(POLICY, {"a": 1, "b": 1}, at=NOW), a_snapshot(POLICY, {"a": 1, "b": 1}, at=NOW - 5.0)])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_in_random_worlds_both_come_to_the_same_report(
    tmp_path_factory: pytest.TempPathFactory, seen: list[Snapshot]
) -> None:
    place, kept = (tmp_path_factory.mktemp(name) for name in ("journal", "ledger"))
    write_journal(place, seen)
    keep(kept, [RecordedLook(look(snapshot, POLICY), POLICY) for snapshot in seen])
    from_journal, from_ledger = of_a_place(place), of_a_place(kept)
    assert from_journal == from_ledger
    assert from_ledger.bill.residual_gpu_microseconds == 0


@pytest.fixture(scope="module")
def kept_day(a_day: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger of the day, alone."""
    folder = tmp_path_factory.mktemp("kept")
    keep(folder, [looked(turn) for turn in turns(journal_files(a_day), JournalRead())])
    return folder


def test_a_day_of_twenty_models_is_the_same_report_from_the_ledger_alone(a_day: Path, kept_day: Path) -> None:
    made = of_a_place(kept_day)
    assert made == of_a_place(a_day)
    assert made.bill.capacity_gpu_hours == pytest.approx(NODES * GPUS * (STEPS - 1) * STEP_SECONDS / 3600)


def test_the_ledger_is_a_hundredth_of_its_journal_and_packed_but_for_the_last_hour(a_day: Path, kept_day: Path) -> None:
    files = ledger_files(kept_day)
    assert len(files) == 26
    assert [path.name for path in files if not path.name.endswith(".gz")] == [files[-1].name]
    packed = [path.stat().st_size for path in files[:-1]]
    assert sum(packed) / len(packed) < 6000  # four cycles of it; a policy of 20 models is 1.5 KB of these
    assert sum(packed) * 30 < sum(path.stat().st_size for path in journal_files(a_day))


def test_where_the_journal_has_forgotten_the_report_says_from_when_to_when_each_came(
    a_day: Path, kept_day: Path, tmp_path: Path
) -> None:
    every = [looked(turn) for turn in turns(journal_files(a_day), JournalRead())]
    for path in ledger_files(kept_day)[4:-4]:  # neither the first four hours nor the last
        shutil.copy(path, tmp_path)
    for path in journal_files(a_day):
        shutil.copy(path, tmp_path)
    made = report(gather(tmp_path, ALL), {})
    assert [each.name for each in made.sources] == ["journal", "ledger", "journal"]
    assert made.sources[0].since == every[0].look.at
    assert made.sources[-1].until == every[-1].look.at
    assert replace(made, sources=()) == of_a_place(a_day)
    (said,) = [line for line in lines(made) if line.startswith("From the journal ")]
    assert said.count("from the ") == 2
    assert said.endswith(" UTC.")


def test_one_file_of_the_ledger_is_a_report_too_plain_or_packed(kept_day: Path) -> None:
    files = ledger_files(kept_day)
    for path in (files[3], files[-1]):
        assert of_a_place(path).cycles == len(list(ledger_looks((path,), JournalRead()))) > 0


def test_so_much_of_the_past_as_is_asked_for_and_no_more(kept_day: Path) -> None:
    made = report(gather(kept_day, 3 * 3600.0), {})
    assert made.until - made.since == 3 * 3600.0
    assert made.cycles == 13


@given(st.integers(0, 10_000), st.integers(2, 40))
@settings(max_examples=25, deadline=None)
def test_a_process_that_is_killed_anywhere_loses_its_last_line_and_a_restart_goes_on(
    tmp_path_factory: pytest.TempPathFactory, cut: int, count: int
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    first, then = cycles(count), cycles(5, NOW + 10.0 * count)
    keep(folder, first)
    (path,) = ledger_files(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[: cut % len(whole)])
    many = whole[: cut % len(whole)].count(b'"line":"look"') - (not whole[: cut % len(whole)].endswith(b"\n"))
    keep(folder, then)
    tally = JournalRead()
    again = read(folder, tally)
    assert [each.look for each in again[-5:]] == [each.look for each in then]
    assert [each.look for each in again[:-5]] == [each.look for each in first[: max(0, len(again) - 5)]]
    assert len(again) >= 5 + max(0, many)
    assert gather(folder, ALL).books.residual() == {}


def test_an_end_between_packing_and_forgetting_the_plain_file_counts_nothing_twice(tmp_path: Path) -> None:
    every = cycles(30, every=300.0)
    keep(tmp_path, every)
    packed = ledger_files(tmp_path)[0]
    (tmp_path / packed.name.removesuffix(".gz")).write_bytes(gzip.decompress(packed.read_bytes()))
    (tmp_path / "packing-ledger-000002.jsonl").write_bytes(b"half of a fi")
    assert [each.look for each in read(tmp_path)] == [each.look for each in every]
    keep(tmp_path, cycles(2, NOW + 30 * 300.0))
    assert len(read(tmp_path)) == 32
    assert len(list(tmp_path.glob("ledger-000001.jsonl*"))) == 1


def test_a_line_that_is_missing_or_damaged_costs_what_follows_up_to_the_next_whole_look(tmp_path: Path) -> None:
    every = cycles(60)
    keep(tmp_path, every)
    (path,) = ledger_files(tmp_path)
    written = path.read_bytes().splitlines(keepends=True)
    for spoiled in (b"", b"no line\n"):
        path.write_bytes(b"".join([*written[:11], spoiled, *written[12:]]))  # the eleventh look
        tally = JournalRead()
        again = read(tmp_path, tally)
        assert [each.look for each in again] == [each.look for each in [*every[:10], *every[30:]]]
        assert again[10].after_loss
        assert len(tally.damaged) == 1
        assert gather(tmp_path, ALL).books.unknown_micro == 210 * MICRO


def test_the_oldest_hours_go_first_once_the_ledger_has_had_its_share(tmp_path: Path) -> None:
    keep(tmp_path, cycles(4000), 64 * 1024)
    files = ledger_files(tmp_path)
    assert sum(path.stat().st_size for path in files) <= 64 * 1024
    assert files[0].name > "ledger-000003"
    again = read(tmp_path)
    assert again[-1].look.at == NOW + 39_990.0
    assert len(again) > 400


def test_a_folder_with_neither_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoJournal, match="give the service's folder"):
        gather(tmp_path, ALL)


def test_what_a_running_service_writes_meanwhile_is_not_of_this_report(tmp_path: Path) -> None:
    seen = [replace(a_snapshot(POLICY, {"a": 1, "b": 1}), cycle=n, at=NOW + 10.0 * n) for n in range(20)]
    write_journal(tmp_path, seen[:10])
    known = recording(tmp_path, ALL, lambda _: None)
    write_journal(tmp_path, seen)
    assert [each.look.at for each in known.looks()] == [each.at for each in seen[:10]]
