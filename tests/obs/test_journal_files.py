"""The journal's thread outlives a disk without room, and what people put beside its files."""

import asyncio
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Decision, Plan
from rebalancer.obs.journal_files import SHARE_PER_FILE, JournalFiles
from rebalancer.obs.journal_reading import JournalRead, turns
from rebalancer.obs.recorder import Recorder
from tests.builders import NOW, a_policy, a_snapshot

FILE_BYTES = 20_000


@pytest.fixture(autouse=True)
def a_full_disk_is_an_error_alone() -> Iterator[None]:
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGXFSZ, before)


@contextmanager
def no_room_beyond(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes: each write fails as on a full disk, by another errno."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def begun(folder: Path, name: str = "journal", *, packs: bool = False) -> JournalFiles:
    files = JournalFiles(folder, SHARE_PER_FILE * FILE_BYTES, name=name, packs=packs)
    files.start()
    files.rotate()
    return files


async def flushed(files: JournalFiles) -> bool:
    return await asyncio.wait_for(files.flushed(), 10.0)


def a_line(size: int = 1000) -> bytes:
    return b"x" * (size - 1) + b"\n"


async def test_the_journal_goes_on_by_itself_after_a_disk_that_was_full_at_a_rotation(tmp_path: Path) -> None:
    files = begun(tmp_path)
    with no_room_beyond(0):
        while not files.full:
            files.append(a_line())
        assert await flushed(files) is False
        files.rotate()
        files.append(a_line())
        assert await flushed(files) is False
        assert "File too large" in (files.trouble or "")
    files.append(a_line())
    assert await flushed(files) is True
    await files.close()


async def test_a_file_that_could_not_be_opened_is_full_so_the_next_cycle_tries_again(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    await asyncio.to_thread(folder.write_bytes, b"no folder")
    files = begun(folder)
    assert await flushed(files) is False
    assert "File exists" in (files.trouble or "")
    assert files.full
    await asyncio.to_thread(folder.unlink)
    files.rotate()
    files.append(a_line())
    assert (await flushed(files), files.full) == (True, False)
    await files.close()


async def test_a_ledger_that_finds_no_room_to_pack_is_told_and_goes_on_once_there_is(tmp_path: Path) -> None:
    files = begun(tmp_path, "ledger", packs=True)
    files.append(a_line())
    assert await flushed(files)
    with no_room_beyond(0):
        files.rotate()
        assert await flushed(files) is False
        assert (files.full, files.trouble is not None) == (True, True)
    files.rotate()
    files.append(a_line())
    assert (await flushed(files), files.full) == (True, False)
    await files.close()


async def test_after_a_full_disk_cycles_are_recorded_as_they_were_from_a_keyframe_on(tmp_path: Path) -> None:
    files, policy = JournalFiles(tmp_path, 1 << 30), a_policy()

    async def publish(_key: bytes, _line: bytes) -> bool:
        return True

    recorder = Recorder(files, publish, lambda _key, _line: None)
    recorder.start()
    recorder.policy(policy, NOW)
    worlds = [replace(a_snapshot(policy, {"a": n // 10, "b": n % 4}), cycle=n, at=NOW + 10.0 * n) for n in range(1, 41)]

    async def record(cycles: range) -> bool:
        recorded = False
        for world in worlds[cycles.start - 1 : cycles.stop - 1]:
            recorder.begin(world, Memory())
            recorder.cycle(Decision(Plan(world.cycle, world.at), Memory()))
            recorded = await flushed(files)
        return recorded

    assert await record(range(1, 3))
    with no_room_beyond(await asyncio.to_thread(lambda: files.paths()[0].stat().st_size)):
        assert not await record(range(3, 38))
    assert await record(range(38, 41))
    await recorder.close()
    tally = JournalRead()
    read = await asyncio.to_thread(lambda: list(turns(files.paths(), tally)))
    assert [turn.snapshot for turn in read] == [worlds[turn.snapshot.cycle - 1] for turn in read]
    assert [turn.snapshot.cycle for turn in read][-2:] == [39, 40], "once 38 had found room, 39 began with a keyframe"
    assert (len(read) < 40, [turn.snapshot.cycle for turn in read if turn.after_loss]) == (True, [39])


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """What a person put beside a journal's file, each larger than all files together may be."""
    (tmp_path / "journal-000012.jsonl").write_bytes(b"")
    paths = [tmp_path / name for name in ("journal-incident.jsonl", "journal-000007.jsonl.bak")]
    for path in paths:
        path.write_bytes(b"x" * 2 * SHARE_PER_FILE * FILE_BYTES)
    return paths


async def test_a_copy_that_a_person_keeps_in_the_folder_is_no_file_of_ours(tmp_path: Path, copies: list[Path]) -> None:
    files = begun(tmp_path)
    files.append(a_line())
    assert await flushed(files) is True
    names = [path.name for path in await asyncio.to_thread(files.paths)]
    assert names == ["journal-000012.jsonl", "journal-000013.jsonl"]
    assert await asyncio.to_thread(lambda: all(path.exists() for path in copies))
    await files.close()


async def test_who_gives_up_waiting_for_a_flush_ends_nothing(tmp_path: Path) -> None:
    files = begun(tmp_path)
    for _ in range(50):
        waiting = asyncio.ensure_future(files.flushed())
        await asyncio.sleep(0)
        waiting.cancel()
    files.append(a_line())
    assert await flushed(files) is True
    await files.close()
