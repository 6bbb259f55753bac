"""What lies on disk: the journal in all its wrappings, the ledger, predictions, and traffic that somebody recorded."""

import gzip
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa

from rebalancer.app.own_writes import writes_of
from rebalancer.app.past import begin_from
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.kafka.topic_past import TopicPast
from rebalancer.ledger.look_lines import NOTHING, look_line
from rebalancer.ledger.looks import look
from rebalancer.obs import journal, predictions
from rebalancer.obs.journal_lines import BUNDLE, JOURNAL, NoJournal, last_instant, lines_of, within
from rebalancer.obs.journal_reading import JournalRead, RecordedTurn, turns
from rebalancer.obs.ledger_reading import instants, ledger_looks
from rebalancer.obs.predictions import DayPrediction
from rebalancer.planning import plan
from rebalancer.sim.contest.recorded import read_demand
from rebalancer.state.checkpoint import Restored
from rebalancer.world.traffic import BadTrace
from tests.builders import a_policy, a_snapshot
from tests.fuzz.decoder import Decoder
from tests.ingest.wire import NOW

T = TypeVar("T")
KEYS = {b'{"intent"': b"intent", b'{"line":"': b"outcome", b'{"cycle":': b"frame", b'{"delta":': b"cycle"}


def compact(data: bytes) -> bytes:
    """Keys sorted and nothing between them, as our own lines begin; what is no JSON as it is."""
    try:
        return json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return data


def _of_a_file(read: Callable[[Path], T], name: str = "journal-000001.jsonl") -> Callable[[bytes], T]:
    """Reads bytes as a file of that name."""

    def as_file(data: bytes) -> T:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            return read(path)

    return as_file


# --- the journal


@cache
def journal_lines() -> list[bytes]:
    """A policy, a keyframe, two cycles, an intent and its outcome."""
    policy = a_policy()
    first, second = (a_snapshot(policy, at=NOW - 60.0 + 10.0 * number, cycle=number) for number in (1, 2))
    one = plan(first, policy, Memory())
    two = plan(second, policy, one.memory)
    intent = Intent(
        id="2-b-a100", cycle=2, at=NOW - 40.0, kind="release", subject="b", object="deployment/serving/b",
        replicas_from=6, replicas_to=5, reason="test", pool="a100", counts="step", counted=1,
    )  # fmt: skip
    lines: list[journal.Line] = [
        journal.policy_line(policy, NOW - 60.0, "digest"),
        *journal.keyframe(first, Memory()),
        journal.cycle_line(first, first, one, "digest"),
        journal.cycle_line(first, second, two, "digest"),
        journal.IntentLine(intent),
        journal.OutcomeLine(Outcome(intent, intent.at + 0.1, WRITTEN)),
    ]
    return [journal.encode(line) for line in lines]


def _journals() -> Iterator[bytes]:
    yield from journal_lines()
    yield b"".join(journal_lines())


def _journal(data: bytes) -> object:
    """The line amid good ones: a line's reader, a report's, and a start's, from disk and from the topic."""
    with suppress(msgspec.DecodeError):
        list(journal.decode_lines([data, data[: len(data) // 2]]))
    good, line = journal_lines(), compact(data).rstrip(b"\n") + b"\n"
    places = ([*good[:-3], line, *good], [line, *good], [*good, line], [*good[:-2], line])
    lines = places[len(data) % len(places)]  # one of them: all four take 200 ms
    records = [TopicPast(KEYS.get(each[:9], b""), each, NOW - 30.0) for each in lines]
    begin_from(Restored(), writes_of(records, (), NOW - 600.0), a_policy(), NOW)
    return _whole(b"".join(lines))


def _read_journal(path: Path) -> list[RecordedTurn]:
    within([path], NOW)
    with suppress(NoJournal):
        last_instant([path])
    begin_from(Restored(), writes_of((), [path], NOW - 600.0), a_policy(), NOW)
    return list(turns([path], JournalRead()))


_whole = _of_a_file(_read_journal)


# --- what packs it


def _packings() -> Iterator[bytes]:
    whole = b"".join(journal_lines())
    yield gzip.compress(whole, mtime=0)
    yield pa.compress(whole, codec="zstd", asbytes=True)
    yield _bundle(whole)


def _bundle(whole: bytes) -> bytes:
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo(f"{BUNDLE}/{JOURNAL}")
        entry.size = len(whole)
        archive.addfile(entry, BytesIO(whole))
    return packed.getvalue()


def _packed(data: bytes) -> object:
    """As it is, and packed once more by each of the three."""
    packs = (gzip.compress, _bundle, lambda whole: pa.compress(whole, codec="zstd", asbytes=True))
    return [_lines(data), *(_lines(pack(data)) for pack in packs)]


_lines = _of_a_file(lambda path: list(lines_of(path)))


# --- the ledger


@cache
def ledger_lines() -> list[bytes]:
    """A policy, a whole look, and one that differs from it."""
    policy = a_policy()
    first, second = (look(a_snapshot(policy, at=NOW + 10.0 * number, cycle=number), policy) for number in (1, 2))
    looks = (look_line(NOTHING, first, 0), look_line(first, second, 1))
    return [journal.encode(journal.policy_line(policy, NOW, "")), *map(journal.encode, looks)]


def _ledger(data: bytes) -> object:
    good, line = ledger_lines(), compact(data).rstrip(b"\n") + b"\n"
    return [_ledger_of(b"".join(lines)) for lines in ([*good, line, *good], [line, *good], [*good[:2], line, good[2]])]


_ledger_of = _of_a_file(
    lambda path: (list(ledger_looks([path], JournalRead())), list(instants(path))), "ledger-000001.jsonl"
)


# --- predictions of days, and traffic


def _predictions() -> Iterator[bytes]:
    yield msgspec.json.encode(DayPrediction(
        day="2027-01-15", model="b", seconds=86_000, in_charge="us", requests=9.0, late_by_autoscaler=3.0,
        late_by_us=1.0, late=2.0, late_by="latency", gpu_hours_by_autoscaler=5.0, gpu_hours_by_us=None, gpu_hours=4.0,
    ))  # fmt: skip


def _prediction(data: bytes) -> object:
    good = next(_predictions())
    return [
        (each.late_error, each.gpu_hours_error, each.is_close, each.likely_cause)
        for lines in ([data], [data, good], [good, data])
        for each in _stored(b"\n".join(lines))
    ]


_stored = _of_a_file(predictions.stored)


def _traffic() -> Iterator[bytes]:
    yield b't_seconds,model,requests,input_tokens,output_tokens\n0,b,3,100,200\n0.5,b,1,50,90\n7,"a",2,10,20\n'


def _demand(data: bytes) -> object:
    try:
        return [read_demand(data, "traffic.csv", row_seconds) for row_seconds in (1, 60)]
    except BadTrace:
        return None


OF_RECORDS = (
    Decoder("journal", _journals, _journal, longest_seconds=2.0),
    Decoder("journal-packed", _packings, _packed, longest_seconds=2.0),
    Decoder("ledger", lambda: iter(ledger_lines()), _ledger, longest_seconds=2.0),
    Decoder("predictions", _predictions, _prediction, longest_seconds=2.0),
    Decoder("traffic", _traffic, _demand, longest_seconds=2.0),
)
