"""`rebalancer explain MODEL --journal PATH`: why, asked of files alone, when no service runs any more."""

import gzip
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.api.text.explain import render_explain
from rebalancer.cli.entry import run
from rebalancer.domain.codec import from_bytes, to_bytes
from rebalancer.domain.instant import clock
from rebalancer.domain.plan import Plan, Refusal
from rebalancer.obs.journal_reading import JournalRead, RecordedTurn, turns
from rebalancer.sim.product import default_policy, play_product
from tests.sim.product.scenarios import a_surge

Captured = pytest.CaptureFixture[str]
SCENARIO = a_surge(120)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("journal") / "journal-000001.jsonl"
    play_product(SCENARIO, default_policy(SCENARIO), journal=path)
    return path


@pytest.fixture(scope="module")
def cycles(journal: Path) -> list[RecordedTurn]:
    return list(turns([journal], JournalRead()))


def explained(turn: RecordedTurn) -> str:
    return render_explain(from_bytes(turn.plan, Plan), turn.snapshot, "a")


def test_its_last_cycle_is_explained_as_the_service_would(
    journal: Path, cycles: list[RecordedTurn], capsys: Captured
) -> None:
    assert run(["explain", "a", "--journal", str(journal)]) == 0
    head, _, rest = capsys.readouterr().out.partition("\n")
    assert head.endswith(f" UTC, cycle {cycles[-1].snapshot.cycle}")
    assert rest.strip() == explained(cycles[-1])


def test_what_was_refused_before_that_cycle_is_told_with_its_time(
    journal: Path, cycles: list[RecordedTurn], tmp_path: Path, capsys: Captured
) -> None:
    step = Refusal("step", "a", 3, 2, "it lost 1 of at most 1")
    lines, told = journal.read_bytes().splitlines(keepends=True), b""
    for number, line in enumerate(lines[:-1]):
        if cycles[-2].plan in line:
            refused = replace(from_bytes(cycles[-2].plan, Plan), refusals=(step,))
            told, lines[number] = line, line.replace(cycles[-2].plan, to_bytes(refused))
    assert told, "the cycle before the last is a line of its own"
    (tmp_path / "journal-000001.jsonl").write_bytes(b"".join(lines))
    assert run(["explain", "a", "--journal", str(tmp_path)]) == 0
    assert f"before  {clock(cycles[-2].snapshot.at)} {step}\n" in capsys.readouterr().out


def test_a_folder_of_packed_files_tells_of_a_minute_before_its_end(
    journal: Path, cycles: list[RecordedTurn], tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "journal-000001.jsonl.gz").write_bytes(gzip.compress(journal.read_bytes()))
    then = [each for each in cycles if each.snapshot.at <= cycles[-1].snapshot.at - 60.0][-1]
    assert run(["explain", "a", "--journal", str(tmp_path), "--at", "60s"]) == 0
    assert capsys.readouterr().out.partition("\n")[2].strip() == explained(then)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("aa", "--journal", "JOURNAL"), 2, "no model 'aa' in the policy of then; did you mean a? models: a, b"),
        (("a", "--journal", "JOURNAL", "--at", "9h"), 1, "or before that can be read; it ends at "),
        (("a", "--journal", "nowhere"), 2, "--journal nowhere: no such file or folder"),
        (("--node", "n", "--journal", "JOURNAL"), 2, "--journal tells of models"),
    ],
)
def test_what_it_does_not_have_is_said(
    journal: Path, arguments: tuple[str, ...], code: int, says: str, capsys: Captured
) -> None:
    assert run(["explain", *(each.replace("JOURNAL", str(journal)) for each in arguments)]) == code
    assert says in capsys.readouterr().err
