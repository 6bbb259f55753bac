"""`rebalancer replay` as a stranger runs it: journals in every state, policies that do not fit, limits."""

import gzip
import json
from pathlib import Path

import pytest
import yaml
from pyarrow import CompressedOutputStream

from rebalancer.cli.entry import run
from rebalancer.sim.product import default_policy, play_product
from tests.cli.running import process
from tests.sim.product.scenarios import a_surge

Captured = pytest.CaptureFixture[str]
SECONDS = 660  # two pieces of ten minutes: a difference can be told from chance
SCENARIO = a_surge(SECONDS)
POLICY = default_policy(SCENARIO)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("journal") / "journal-000001.jsonl"
    play_product(SCENARIO, POLICY, journal=path)
    return path


@pytest.fixture(scope="module")
def short(journal: Path) -> Path:
    """The journal's beginning: what a policy does not fit is seen there."""
    path = journal.with_name("short.jsonl")
    path.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:40]))
    return path


def a_policy_file(folder: Path, **changes: object) -> Path:
    """The recorded policy with other keys for model `a`; `pool`: another name of the pool; without `a` by `gone`."""
    whole = POLICY.to_mapping()
    models, pools = whole["models"], whole["pools"]
    assert isinstance(models, list)
    assert isinstance(pools, list)
    if changes.pop("gone", False):
        del models[0]
    pool = changes.pop("pool", None)
    if pool is not None:
        pools[0]["name"] = pool
        for model in models:
            model["targets"][0]["pool"] = pool
    models[0].update(changes)
    path = folder / "new.yaml"
    path.write_text(yaml.safe_dump(whole))
    return path


def damaged(journal: Path, how: str, folder: Path) -> Path:
    whole, path = journal.read_bytes(), folder / f"journal-000001.jsonl{how if how in {'.gz', '.zst'} else ''}"
    if how == ".zst":
        with CompressedOutputStream(str(path), "zstd") as packed:
            packed.write(whole)
        return path
    half = whole[: len(whole) // 2]
    path.write_bytes({".gz": gzip.compress(whole, 1), "cut": half, "cut and more": half + whole, "empty": b""}[how])
    return path


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        (".gz", 0, ""),
        (".zst", 0, ""),
        ("cut", 0, ""),
        ("cut and more", 1, "damaged: line "),
    ],
)
def test_a_journal_is_replayed_however_it_was_packed_or_cut(
    how: str, code: int, said: str, journal: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert run(["replay", str(damaged(journal, how, tmp_path))]) == code
    out = capsys.readouterr().out
    assert " cycles replayed, " in out
    assert ", 0 differ" in out
    assert said in out


def test_a_segment_that_a_kill_cut_off_is_told_and_is_no_fault(journal: Path, tmp_path: Path, capsys: Captured) -> None:
    damaged(journal, "cut", tmp_path)
    (tmp_path / "journal-000002.jsonl.gz").write_bytes(gzip.compress(journal.read_bytes(), 1))
    assert run(["replay", str(tmp_path)]) == 0
    assert "journal-000001.jsonl is cut off: the process was killed" in capsys.readouterr().out


def test_a_journal_may_come_by_standard_input(journal: Path) -> None:
    child = process("replay", "-")
    out, err = child.communicate(journal.read_text(), timeout=60)
    assert (child.returncode, err) == (0, "")
    assert ", 0 differ" in out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no cycle could be replayed"),
        (b"apiVersion: v1\n", "line 1 of odd.jsonl is not a journal's (JSON is malformed"),
        (b'{"line":"turn"}\n', "line 1 of odd.jsonl is not a journal's (Invalid value 'turn'"),
        (
            b'{"at":1,"code":"c","digest":"d","line":"policy","policy":{"kind":"X"},"version":"9.9.9"}\n',
            "a policy that is none here; rebalancer 9.9.9 wrote it",
        ),
    ],
)
@pytest.mark.parametrize("reviewed", [True, False])
def test_what_is_no_journal_is_a_sentence(
    content: bytes, said: str, tmp_path: Path, capsys: Captured, *, reviewed: bool
) -> None:
    (tmp_path / "odd.jsonl").write_bytes(content)
    policy = ["--policy", str(a_policy_file(tmp_path))] if reviewed else []
    assert run(["replay", str(tmp_path / "odd.jsonl"), *policy]) == 1
    told = capsys.readouterr()
    assert told.err.startswith("error: ")
    assert said in told.err
    assert told.out == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "z", "aliases": ["a"]}, "Model a is called z in the new policy"),
        ({"id": "z"}, "Model a is called z in the new policy"),
        ({"id": "z", "targets": [{"pool": "gpus", "name": "z"}]}, "Model z is not in a recorded policy"),
        ({"gone": True}, "Model a is not in the new policy"),
        ({"pool": "h100"}, "Pool gpus is called h100 in the new policy"),
    ],
)
def test_a_policy_that_does_not_fit_the_journal_is_a_sentence_in_the_review(
    changes: dict[str, object], said: str, short: Path, tmp_path: Path, capsys: Captured
) -> None:
    policy = a_policy_file(tmp_path, **changes)
    assert run(["replay", str(short), "--policy", str(policy), "-o", "json", "--max", "moves=1000"]) == 0
    review = json.loads(capsys.readouterr().out)
    assert review["cycles"] > 0
    assert any(note.startswith(said) for note in review["notes"]), review["notes"]


def test_the_same_policy_changes_nothing_and_ends_with_0(short: Path, tmp_path: Path, capsys: Captured) -> None:
    assert run(["replay", str(short), "--policy", str(a_policy_file(tmp_path)), "-o", "json"]) == 0
    review = json.loads(capsys.readouterr().out)
    measures = {each["name"]: each for each in review["measures"]}
    assert measures["changed-decisions"]["after"] == 0
    assert measures["late-requests"]["before"] == measures["late-requests"]["after"]
    assert measures["gpu-hours"]["before"] == measures["gpu-hours"]["after"] > 0


def test_a_stricter_policy_is_told_headline_first_and_its_limits_decide_the_exit_code(
    journal: Path, tmp_path: Path, capsys: Captured
) -> None:
    policy = str(a_policy_file(tmp_path, maxReplicas=4))
    limits = ["--max", "late-requests=+10", "--max", "gpu-hours=+50%"]
    assert run(["replay", str(journal), "--policy", policy, "-o", "markdown", *limits]) == 3
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("### new.yaml makes ")
    assert "more requests late than the recorded policy" in said[0]
    assert "**1 of 2 limits does not hold.**" in said[2]
    assert "| | recorded | new.yaml | change |".replace("| |", "|   |") in said
    assert any(line.startswith("- [ ] late-requests: ") for line in said)
    assert any(line.startswith("- [x] gpu-hours: ") for line in said)
    assert run(["replay", str(journal), "--policy", policy, "--max", "late-requests=+100000"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--max late-requests=1", 2, "give --policy FILE"),
        ("-o markdown", 2, "give --policy FILE"),
        ("--policy {good} --max late=1", 2, "--max late=1: there is no late; there are changed-decisions, moves"),
        ("--policy {good} --max usd=1%", 2, "--max usd=1%: write usd=100"),
        ("--policy {bad}", 1, "bad.yaml:1"),
        ("--policy nowhere.yaml", 2, "--policy nowhere.yaml: No such file"),
    ],
)
def test_an_option_that_cannot_be_is_a_sentence(
    options: str, code: int, said: str, short: Path, tmp_path: Path, capsys: Captured
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("kind: Polcy\n")
    words = options.format(good=a_policy_file(tmp_path), bad=bad).split()
    assert run(["replay", str(short), *words]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("option", "code"), [("late-percent=0.0001", 3), ("late-percent=100", 0)])
def test_a_simulation_ends_with_3_when_a_limit_does_not_hold(option: str, code: int, capsys: Captured) -> None:
    words = ["simulate", "surge", "--controller", "static", "--compare", "hpa", "-o", "markdown", "--max", option]
    assert run(words) == code
    assert capsys.readouterr().out.startswith("### hpa@0.7 makes ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--controller static --max late-percent=1", "give --compare NAME_OR_FILE"),
        ("--compare hpa --max moves=1", "a simulation has late-requests, late-percent, gpu-hours, usd"),
    ],
)
def test_a_simulation_says_before_it_plays_which_limits_cannot_be(words: str, said: str, capsys: Captured) -> None:
    assert run(["simulate", "surge", *words.split()]) == 2
    assert said in capsys.readouterr().err
