"""Journals as they are found: in folders, gzipped, cut in the middle of a line, damaged, still being written."""

import gzip
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Decision, Plan
from rebalancer.obs import journal
from rebalancer.obs.journal_files import SINGLE
from rebalancer.obs.journal_lines import NoJournal, journal_files, last_instant, within
from rebalancer.obs.journal_reading import JournalRead, RecordedTurn, turns
from tests.builders import NOW, a_policy, a_snapshot

POLICY = a_policy()


def lines(first: int, count: int, left_out: int | None = None) -> list[bytes]:
    """A policy, a keyframe and `count` cycles ten seconds apart, but for one that failed and is `left_out`."""
    policy = journal.policy_line(POLICY, NOW, "code")
    snapshots = [
        replace(a_snapshot(POLICY, {"a": n % 4}), cycle=n, at=NOW + 10.0 * n)
        for n in range(first, first + count)
        if n != left_out
    ]
    made = [journal.encode(policy), *map(journal.encode, journal.keyframe(snapshots[0], Memory()))]
    before = snapshots[0]
    for snapshot in snapshots:
        decision = Decision(Plan(snapshot.cycle, snapshot.at), Memory())
        made.append(journal.encode(journal.cycle_line(before, snapshot, decision, policy.digest)))
        before = snapshot
    return made


def read(*files: Path) -> tuple[list[RecordedTurn], JournalRead]:
    tally = JournalRead()
    return list(turns(files, tally)), tally


def test_cycles_come_in_order_over_files_plain_and_gzipped(tmp_path: Path) -> None:
    (tmp_path / "journal-000001.jsonl.gz").write_bytes(gzip.compress(b"".join(lines(1, 3))))
    (tmp_path / "journal-000002.jsonl").write_bytes(b"".join(lines(4, 2)))
    found, tally = read(*journal_files(tmp_path))
    assert [turn.snapshot.cycle for turn in found] == [1, 2, 3, 4, 5]
    assert [turn.after_loss for turn in found] == [""] * 5
    assert tally.damaged == []


def test_a_file_with_a_packed_copy_beside_it_is_read_once_and_as_long_as_it_is_now(tmp_path: Path) -> None:
    written = lines(1, 5)
    (tmp_path / "journal-000001.jsonl.gz").write_bytes(gzip.compress(b"".join(written[:-2])))
    (tmp_path / "journal-000001.jsonl").write_bytes(b"".join(written))
    (tmp_path / "journal-000002.jsonl.gz").write_bytes(gzip.compress(b"".join(lines(6, 2))))
    found, tally = read(*journal_files(tmp_path))
    assert [turn.snapshot.cycle for turn in found] == [1, 2, 3, 4, 5, 6, 7]
    assert (tally.damaged, tally.skipped) == ([], 0)


def test_a_line_cut_off_by_a_kill_costs_itself_and_is_told(tmp_path: Path) -> None:
    whole = b"".join(lines(1, 3))
    (tmp_path / "journal-000001.jsonl").write_bytes(whole[:-40])
    (tmp_path / "journal-000002.jsonl").write_bytes(b"".join(lines(7, 2)))
    found, tally = read(*journal_files(tmp_path))
    assert [(turn.snapshot.cycle, bool(turn.after_loss)) for turn in found] == [(1, False), (2, False), (7, True), (8, False)]  # noqa: E501  # fmt: skip
    assert len(tally.damaged) == 1
    assert "journal-000001.jsonl is cut off" in tally.damaged[0]


def test_the_last_line_of_the_last_file_may_be_unfinished(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(lines(1, 3))[:-5])
    found, tally = read(path)
    assert ([turn.snapshot.cycle for turn in found], tally.damaged) == ([1, 2], [])


def test_after_a_damaged_line_nothing_is_believed_until_the_next_keyframe(tmp_path: Path) -> None:
    first, second = lines(1, 4), lines(5, 2)
    first[-3] = b'{"delta":{"at":1,"cyc\n'
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join([*first, *second]))
    found, tally = read(path)
    assert [(turn.snapshot.cycle, bool(turn.after_loss)) for turn in found] == [(1, False), (5, True), (6, False)]
    assert "is not a journal's" in tally.damaged[0]


def test_after_a_cycle_that_is_missing_nothing_is_believed_until_the_next_keyframe(tmp_path: Path) -> None:
    first, second = lines(1, 4), lines(5, 2)
    del first[-2]
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join([*first, *second]))
    found, tally = read(path)
    assert [(turn.snapshot.cycle, bool(turn.after_loss)) for turn in found] == [(1, False), (2, False), (5, True), (6, False)]  # noqa: E501  # fmt: skip
    assert tally.damaged == [f"line {len(first)} of journal.jsonl is of cycle 4: cycles from 3 on are missing"]


def test_a_number_that_a_failed_cycle_left_out_is_no_gap_in_lines_of_any_version(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    whole = lines(1, 6, left_out=3)
    for differs in (whole, [re.sub(rb'"differs_from":\d+,', b"", line) for line in whole]):
        path.write_bytes(b"".join(differs))
        found, tally = read(path)
        assert ([turn.snapshot.cycle for turn in found], tally.damaged) == ([1, 2, 4, 5, 6], [])


def test_a_gzip_without_its_end_gives_what_it_has_and_is_told(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(lines(1, 400)), 1)
    path = tmp_path / "journal-000001.jsonl.gz"
    path.write_bytes(packed[: len(packed) // 2])
    found, tally = read(path)
    assert 0 < len(found) < 400
    assert "cannot be read to its end" in tally.damaged[0]


def test_files_that_end_before_the_time_asked_for_are_not_read(tmp_path: Path) -> None:
    for number, first in enumerate((1, 11, 21), 1):
        (tmp_path / f"journal-{number:06}.jsonl").write_bytes(b"".join(lines(first, 10)))
    files = journal_files(tmp_path)
    assert last_instant(files) == NOW + 300.0
    assert within(files, NOW + 150.0) == files[1:]


def test_the_folder_of_who_does_not_rotate_is_a_journal_too(tmp_path: Path) -> None:
    (tmp_path / SINGLE).write_bytes(b"")
    assert journal_files(tmp_path) == (tmp_path / SINGLE,)


def test_where_there_is_no_journal_it_says_where_one_would_be(tmp_path: Path) -> None:
    with pytest.raises(NoJournal, match="REBALANCER_JOURNAL_DIR"):
        journal_files(tmp_path)
    empty = tmp_path / "journal-000001.jsonl"
    empty.write_bytes(b"")
    with pytest.raises(NoJournal, match="no cycle yet"):
        last_instant((empty,))
