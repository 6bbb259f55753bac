import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import get_args

import pytest

from rebalancer.app import backfill
from rebalancer.app.effects import EFFECTS
from rebalancer.kafka import effects as kafka
from rebalancer.kafka.broker import TOPICS
from rebalancer.obs import journal, predictions
from rebalancer.obs.effects import WATCH, CrashAt, Watch, When, effect
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.state import checkpoint


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    token = WATCH.set(watch)
    try:
        yield
    finally:
        WATCH.reset(token)


class Ended(BaseException):
    pass


def ended() -> None:
    raise Ended


def test_an_effect_is_told_before_it_happens_and_once_it_has_happened() -> None:
    told: list[tuple[str, str]] = []

    def watch(name: str, _key: str, when: When) -> None:
        told.append((name, when))

    with watched(watch):
        with effect("kube/update/scale", "chat"):
            told.append(("", "it happens"))
        with suppress(OSError), effect("kafka/dead-letter", "dead-letter"):
            raise OSError("it was not acknowledged")
    scale = [("kube/update/scale", "before"), ("", "it happens"), ("kube/update/scale", "after")]
    assert told == [*scale, ("kafka/dead-letter", "before")]


def test_a_process_is_ended_at_that_time_of_that_effect_alone() -> None:
    happened: list[str] = []
    crash_at = CrashAt("scale", 2, "before", ended)
    with watched(crash_at):
        for name in ("scale", "lease", "lease"):
            with effect(name, ""):
                happened.append(name)
        with pytest.raises(Ended), effect("scale", ""):
            happened.append("never")
    assert happened == ["scale", "lease", "lease"]


def test_after_means_that_it_has_happened() -> None:
    happened: list[str] = []
    with watched(CrashAt("scale", 1, "after", ended)), pytest.raises(Ended), effect("scale", ""):
        happened.append("scale")
    assert happened == ["scale"]


def test_a_process_ends_as_by_kill_9_and_says_so() -> None:
    program = (
        "from rebalancer.obs.effects import WATCH, CrashAt, effect\n"
        "WATCH.set(CrashAt.of('scale:2:after'))\n"
        "for number in (1, 2, 3):\n"
        "    with effect('scale', ''):\n"
        "        print(number, flush=True)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603  # our own words
    assert run.returncode == -signal.SIGKILL
    assert [line for line in run.stdout.split() if line.isdigit()] == ["1", "2"]
    assert "as REBALANCER_CRASH_AT says" in run.stderr


def test_every_record_that_the_service_keeps_has_a_name() -> None:
    """Of a new topic, and of a new kind of line or entry, too: nobody has to think of this list."""
    lines = [line.__struct_config__.tag for line in get_args(journal.Line)]
    entries = [value for name, value in vars(checkpoint).items() if name.endswith(("_KEY", "_PREFIX"))]
    kinds = {"decisions": [str(tag).encode() for tag in lines], "state": entries}
    ours = TOPICS.keys() - {"overrides"}  # people's, which we read
    names = {kafka.name_of(topic, kind) for topic in ours for kind in kinds.get(topic, [None])}
    assert names == kafka.EFFECTS.keys() - {"kafka/topics", "kafka/commit"}
    assert kafka.name_of("state", b"memory/0/3") == "kafka/state/memory", "a chunk of it"


async def test_the_journals_thread_is_watched_as_who_made_it(tmp_path: Path) -> None:
    told: list[str] = []

    def watch(name: str, _key: str, when: When) -> None:
        told.append(f"{name} {when}")

    with watched(watch):
        files = JournalFiles(tmp_path, 1 << 20)
    files.start()
    files.rotate()
    files.append(b"{}\n")
    assert await files.flushed()
    await files.close()
    assert told == [f"journal/{what} {when}" for what in ("open", "append") for when in ("before", "after")]
    assert {name.split(" ")[0] for name in told} <= EFFECTS.keys()


async def test_the_one_file_of_who_does_not_rotate_is_watched_too(tmp_path: Path) -> None:
    told: list[str] = []
    with watched(lambda name, key, when: told.append(f"{name} of {key} {when}")):
        files = JournalFiles(tmp_path, 1 << 20, single=tmp_path / "demo" / "journal.jsonl")
        files.start()
        files.rotate()
        assert await files.flushed()
    await files.close()
    assert told == [f"journal/open of journal.jsonl {when}" for when in ("before", "after")]


def test_ended_before_a_first_looks_past_or_a_days_predictions_nothing_of_them_is_there(tmp_path: Path) -> None:
    past = backfill.Backfilled(0.0, 1.0, (), (), ())
    with watched(CrashAt("past/write", 1, "before", ended)), pytest.raises(Ended):
        backfill.store_past(tmp_path / "beside", past)
    with watched(CrashAt("predictions/append", 1, "before", ended)), pytest.raises(Ended):
        predictions.store(tmp_path / predictions.NAME, ())
    assert list(tmp_path.iterdir()) == []
