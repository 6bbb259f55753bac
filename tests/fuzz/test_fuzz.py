"""No bytes of others end anything or hold the event loop: every decoder refuses in its own words (invariant I14)."""

import random
from collections import Counter

import msgspec
import pytest

from rebalancer.domain.events import Rejection
from rebalancer.ingest.rejected import Reason
from rebalancer.obs import journal
from tests.fuzz.decoder import Decoder
from tests.fuzz.decoders import DECODERS
from tests.fuzz.files import checkpoints, restored
from tests.fuzz.mutants import spoiled
from tests.fuzz.plays import play
from tests.fuzz.seeds import CORPUS, corpus
from tests.fuzz.signed import afresh, orders

NAMES = [decoder.name for decoder in DECODERS]
CASES = 150
"""Per decoder; `make fuzz` plays 20,000 of each, other ones."""


@pytest.mark.parametrize("decoder", DECODERS, ids=NAMES)
def test_no_spoiled_record_breaks_or_stalls_its_decoder(decoder: Decoder) -> None:
    played = play(decoder, CASES, seed=1)
    assert played.cases == CASES + len(corpus(decoder.name))
    assert (played.broke, played.slow) == ([], [])


def test_each_folder_of_the_corpus_is_a_decoders() -> None:
    folders = {path.name for path in CORPUS.iterdir()}
    assert folders <= set(NAMES)
    assert all(corpus(name) for name in folders)


def test_of_spoiled_checkpoints_some_are_believed_so_that_a_start_meets_what_is_wrong_in_them() -> None:
    rng, seeds, untouched = random.Random(1), list(checkpoints()), restored(b"")
    starts = [restored(spoiled(rng.choice(seeds), rng)) for _ in range(800)]
    believed = Counter(
        part
        for start in starts
        for part in ("memory", "foreign", "notices", "offsets", "rings")
        if getattr(start, part) != getattr(untouched, part)
    )
    assert all(believed[part] >= 10 for part in ("memory", "foreign", "notices", "offsets", "rings")), believed


def test_spoiled_overrides_that_are_signed_afresh_pass_the_signature_and_are_judged_by_what_they_say() -> None:
    rng, seeds = random.Random(1), list(orders())
    decoded = [each for _ in range(300) for each in afresh(spoiled(rng.choice(seeds), rng))]
    came = Counter(each.reason if isinstance(each, Rejection) else "override" for each in decoded)
    assert came["override"] >= 30, came
    assert came[Reason.INVALID_DATA] >= 30, came
    assert came[Reason.OVERRIDE_SIGNATURE] == 0, came


@pytest.mark.parametrize(
    "line",
    [
        b'{"line":"outcome","outcome":{"status":"writ\xbbten"}}\n',  # a byte that a disk has turned
        b'{"line":' * 3000 + b"1" + b"}" * 3000 + b"\n",
    ],
)
def test_a_line_that_once_broke_the_journals_reader_is_a_bad_line(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        list(journal.decode_lines([line]))


def test_an_object_that_is_no_utf_8_costs_no_list_and_no_neighbour() -> None:
    (reader,) = (decoder for decoder in DECODERS if decoder.name == "nodes")
    _, whole = reader.seeds()
    first = whole.replace(b'"uid-n1"', b'"uid-\xff"', 1)
    assert first != whole
    assert len(list(reader.read(first))) == 1  # type: ignore[call-overload]  # what was read of the list
