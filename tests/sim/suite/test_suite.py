"""The suite over the scenario that needs no traces."""

import importlib.util
import itertools
import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import ModuleType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.fluid.fast import play
from rebalancer.sim.score import score
from rebalancer.sim.suite import tuning
from rebalancer.sim.suite.__main__ import main
from rebalancer.sim.suite.cases import (
    Budget,
    SuiteCase,
    budgets,
    cases,
    data_digest,
    development,
    development_days,
    quick_cases,
)
from rebalancer.sim.suite.families import FAMILIES
from rebalancer.sim.suite.peers import BY_NAME, Peer
from rebalancer.sim.suite.row import Played, Row
from rebalancer.sim.suite.run import RETUNE, Field, plan_tasks, run_task
from rebalancer.sim.suite.scenarios import s7
from rebalancer.sim.suite.table import finished, table
from rebalancer.sim.suite.tuning import Tuned, key, read_tuned, stale, tune, write_tuned

pytestmark = pytest.mark.slow  # 10 s

CASE = SuiteCase("S7", "generated", 24, 60)
WORK = {"work": BY_NAME["keda"].signals["work"]}
SMALL = Peer("keda", WORK, BY_NAME["keda"].modules, targets=(0.6, 0.7, 0.8, 0.9, 1.0))
NOWHERE = Path("nowhere")


@pytest.fixture(scope="module")
def tuned() -> Tuned:
    return tune(SMALL, [CASE.build(NOWHERE)])


def test_tuning_begins_with_every_signal_and_steps_of_a_fortieth() -> None:
    assert SMALL.tunings == ["work@0.6", "work@0.7", "work@0.8", "work@0.9", "work@1"]
    assert len(BY_NAME["keda"].tunings) == 3 * 21
    steps = BY_NAME["keda"].targets
    assert all(later - sooner == pytest.approx(0.025) for sooner, later in itertools.pairwise(steps))


def test_the_winner_has_the_fewest_violations(tuned: Tuned) -> None:
    scenario = CASE.build(NOWHERE)
    # The ends of the grid and, as the best may lie below 0.6, what is beyond.
    targets = ("work@0.2", "work@0.3", "work@0.4", "work@0.5", *SMALL.tunings)
    every = {each: score(play(scenario, SMALL.make(each), "keda")).violation for each in targets}

    assert tuned.violation == pytest.approx(min(every.values()))
    assert tuned.violation == pytest.approx(every[tuned.tuning])


def test_a_setting_is_given_up_only_above_the_limit() -> None:
    scenario = CASE.build(NOWHERE)
    violation = score(play(scenario, SMALL.make("work@0.8"), "keda")).violation

    kept = tuning.play_all(SMALL, "work@0.8", [scenario, scenario], violation * 1.0001)
    assert kept is not None
    assert [row.violation for row in kept] == [pytest.approx(violation)] * 2
    assert tuning.play_all(SMALL, "work@0.8", [scenario, scenario], violation * 0.9999) is None


def test_a_tuning_of_other_code_settings_or_data_is_stale(tuned: Tuned) -> None:
    data = data_digest(CASE.build(NOWHERE))
    other_grid = Peer("keda", WORK, SMALL.modules, targets=(0.6, 0.8))

    assert stale(tuned, SMALL, data) is None
    assert "code" in (stale(msgspec.structs.replace(tuned, code="other"), SMALL, data) or "")
    assert "settings" in (stale(tuned, other_grid, data) or "")
    assert "data" in (stale(tuned, SMALL, data_digest(s7(24, 60, seed=9))) or "")
    assert "data" in (stale(tuned, SMALL, data_digest(s7(24, 180))) or "")


def test_tunings_are_read_as_they_were_written(tuned: Tuned, tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    write_tuned({"b": tuned, "a": tuned}, path)

    assert dict(read_tuned(path)) == {"a": tuned, "b": tuned}
    assert path.read_text().index('"a"') < path.read_text().index('"b"')
    assert read_tuned(tmp_path / "none.json") == {}


def test_only_what_is_unknown_or_stale_is_tuned_again(tuned: Tuned) -> None:
    known = {key(CASE.budget, SMALL): tuned}
    foreign = {key(CASE.budget, SMALL): msgspec.structs.replace(tuned, code="other")}

    assert list(tuning.tune_all(NOWHERE, [CASE.budget], [SMALL], known)) == []
    assert list(tuning.tune_all(NOWHERE, [CASE.budget], [SMALL], foreign)) == [(key(CASE.budget, SMALL), tuned)]


def test_code_and_data_that_play_as_before_are_not_tuned_again(tuned: Tuned) -> None:
    scenarios = [CASE.build(NOWHERE)]
    rewritten = msgspec.structs.replace(tuned, code="other", data="other")

    assert tuning.renewed(rewritten, SMALL, scenarios) == tuned
    for other in (
        msgspec.structs.replace(rewritten, violation=math.nextafter(tuned.violation, 1)),
        msgspec.structs.replace(rewritten, gpu_hours=math.nextafter(tuned.gpu_hours, 0)),
        msgspec.structs.replace(rewritten, tuning="work@0.6" if tuned.tuning != "work@0.6" else "work@0.7"),
        msgspec.structs.replace(rewritten, grid="other"),
    ):
        assert tuning.renewed(other, SMALL, scenarios) is None


@pytest.mark.slow  # 10 s of an idle core: WVA is tuned
@pytest.mark.timeout(300)
def test_other_processes_tune_as_this_one_plays() -> None:
    peers = [BY_NAME["static"], BY_NAME["wva"]]  # nothing to tune, and the quickest to

    found = dict(tuning.tune_all(NOWHERE, [CASE.budget], peers, {}, processes=2))

    assert list(found) == ["S7/24/60/wva"]
    best = found["S7/24/60/wva"]
    assert best.violation == score(play(CASE.build(NOWHERE), BY_NAME["wva"].make(best.tuning), "wva")).violation


def test_a_peer_without_a_tuning_is_left_out_and_told(tuned: Tuned) -> None:
    planned = plan_tasks([CASE], Field((SMALL, BY_NAME["static"])), {}, NOWHERE)

    assert [task.controller for task in planned.tasks] == ["static"]
    assert planned.warnings == (f"S7/24/60/keda: not tuned, left out; {RETUNE}",)


def test_a_stale_tuning_is_played_and_told(tuned: Tuned) -> None:
    found = {key(CASE.budget, SMALL): msgspec.structs.replace(tuned, data="other")}

    planned = plan_tasks([CASE], Field((SMALL,), ("bounds",)), found, NOWHERE)

    assert [(task.controller, task.tuning, task.actuation) for task in planned.tasks] == [
        ("keda", tuned.tuning, None),
        ("ours", None, "bounds"),
    ]
    assert planned.warnings == (f"S7/24/60/keda: stale, the data it was tuned on have changed; {RETUNE}",)


def test_what_was_played_is_not_played_again(tmp_path: Path) -> None:
    task = plan_tasks([CASE], Field((BY_NAME["static"],)), {}, NOWHERE).tasks[0]
    first = run_task(task, NOWHERE, tmp_path)
    (kept,) = tmp_path.iterdir()
    marked = msgspec.structs.replace(first, row=msgspec.structs.replace(first.row, gpu_hours=-1.0))
    kept.write_bytes(msgspec.json.encode(marked))

    assert run_task(task, NOWHERE, tmp_path).row.gpu_hours == -1.0
    kept.unlink()
    assert run_task(task, NOWHERE, tmp_path) == first


def test_development_days_are_those_that_peers_may_see() -> None:
    days = {budget.scenario: development(budget).day for budget in budgets(cases())}

    assert days == {
        "S1a": "8",
        "S1b": "8",
        "S2": "0",
        "S3": "0",
        "S4": "8",
        "S5": "0",
        "S6": "0-us-east-2b",
        "S7": "generated",
    }


def test_faro_s_jobs_are_tuned_on_three_of_their_days() -> None:
    for scenario in ("S1a", "S1b"):
        assert [case.day for case in development_days(Budget(scenario, 32, 35))] == ["2", "5", "8"]
    assert development_days(CASE.budget) == (CASE,)


def test_the_quick_suite_is_small() -> None:
    assert set(budgets(quick_cases())) == {
        Budget("S1b", 32, 35),
        Budget("S2", 32, 60),
        Budget("S7", 16, 60),
        Budget("S7", 24, 60),
        Budget("S7", 24, 60, figures=False),
        *(Budget(name, 16, 60) for name in FAMILIES),
    }
    assert all(len(case.seeds) == (2 if case.scenario in FAMILIES else 1) for case in quick_cases())


def test_the_table_says_how_we_stand_against_the_best_peer() -> None:
    def result(controller: str, late: float) -> Played:
        row = Row("S7", "generated", 24, 60, controller, None, None, 0, violation=late)
        return Played(row, [(late * 100, 100.0)] * 20)

    results = [result("ours", 0.02), result("hpa", 0.06), result("keda", 0.04), result("foresight", 0.01)]

    shown = table(results)

    assert [row.gap_closure for row in finished(results)] == [pytest.approx(2 / 3), None, None, None]
    against = list(shown.columns[-1].cells)
    assert against == ["", "", "", "-2.00 (-2.00 to -2.00) *"]
    assert list(next(column for column in shown.columns if column.header == "controller").cells)[-1] == "ours"


def test_the_command_writes_rows_and_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "decisions.json"
    arguments = ["--quick", "--scenarios=S7", "--given=exact", "--controllers=static,foresight", "--processes=1"]

    assert main([*arguments, "--traces", str(tmp_path), "--out", str(out)]) == 0

    rows = msgspec.json.decode(out.read_bytes(), type=list[Row])
    assert [(row.gpus, row.controller) for row in rows] == [
        (16, "static"),
        (16, "foresight"),
        (24, "static"),
        (24, "foresight"),
    ]
    assert all(row.violation is not None for row in rows)
    assert "4 rows" in capsys.readouterr().out


def test_without_traces_the_command_says_what_it_looked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REBALANCER_TRACES", raising=False)

    assert main([]) == 2
    assert "REBALANCER_TRACES" in capsys.readouterr().err


def test_without_traces_the_quick_suite_plays_what_needs_none_and_tells_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REBALANCER_TRACES", raising=False)
    out = tmp_path / "decisions.json"

    named = ["--scenarios=S1b,S2,S7,spikes", "--given=exact"]
    assert main(["--quick", *named, "--controllers=static", "--processes=1", "--out", str(out)]) == 0

    rows = msgspec.json.decode(out.read_bytes(), type=list[Row])
    assert [(row.scenario, row.gpus) for row in rows] == [("S7", 16), ("S7", 24), ("spikes", 16), ("spikes", 16)]
    left_out = [line for line in capsys.readouterr().out.splitlines() if "left out" in line]
    assert {line.split()[0] for line in left_out} == {"S1b", "S2"}


def test_what_a_run_would_take_is_told_without_playing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "decisions.json"

    assert main(["--quick", "--scenarios=S7", "--given=exact", "--estimate", "--out", str(out)]) == 0

    assert not out.exists()
    assert "CPU s: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--scenarios=S9"], "error: no scenario 'S9'; there are S1a, S1b, S2, "),
        (["--scenarios=S7,"], "error: no scenario ''; there are S1a, S1b, S2, "),
        (["--given=x0.5,x3"], "error: no given 'x3'; there are exact, x0.5, "),
        (["--worlds=flud"], "error: no world 'flud'; there are fluid, requests, batching"),
        (["--scenarios=swaps", "--controllers=faro@99"], "error: nothing to play\nswaps: in no run"),
        (["--scenarios=S7", "--given=x2", "--worlds=batching", "--controllers=ours"], "error: nothing to play\n"),
    ],
)
def test_where_nothing_would_be_played_as_asked_the_results_stay_and_what_there_is_is_told(
    asked: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "decisions.json"
    out.write_text("of hours")

    assert main([*asked, "--traces", str(tmp_path), "--out", str(out)]) == 2

    assert capsys.readouterr().err.startswith(said)
    assert out.read_text() == "of hours"


def test_who_plays_nothing_beside_others_that_do_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--quick", "--scenarios=S7,spikes", "--given=lag60", "--controllers=static,faro@99", "--estimate"]

    assert main([*asked, "--traces", str(tmp_path)]) == 0

    told = [line for line in capsys.readouterr().out.splitlines() if "in no run" in line]
    assert told == ["spikes: in no run of what was asked for", "faro: in no run of what was asked for"]


def test_comments_and_docstrings_are_no_code(tmp_path: Path) -> None:
    def module(name: str, text: str) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        return importlib.util.module_from_spec(spec)

    first = module("first", '"""One."""\ndef f(x):\n    """Two."""\n    return x + 1\n')
    told = module("told", '"""Other."""\n\ndef f(x):  # why\n    return x + 1\n')
    other = module("other", '"""One."""\ndef f(x):\n    """Two."""\n    return x + 2\n')
    digests = [Peer("keda", WORK, (each,)).digest for each in (first, told, other)]

    assert digests[0] == digests[1] != digests[2]


def runs(controller: str, seeds: Sequence[int], late: float, world: str = "fluid") -> list[Played]:
    """A controller that is late in the first half of the time; the later the seed, the more."""
    return [
        Played(
            Row("S7", "generated", 24, 60, controller, None, None, seed, world, violation=late * (1 + seed) / 2),
            [(late * (1 + seed) * 100, 100.0)] * 10 + [(0.0, 100.0)] * 10,
        )
        for seed in seeds
    ]


def against(results: Sequence[Played]) -> list[str]:
    shown = table(results)
    return [str(cell) for cell in next(c for c in shown.columns if c.header == "against best peer").cells if cell]


@given(st.randoms(use_true_random=False))
def test_an_interval_pairs_the_same_seeds_in_whatever_order_they_were_played(random: Random) -> None:
    results = [*runs("ours", range(5), 0.02), *runs("keda", range(5), 0.06), *runs("foresight", range(5), 0.01)]
    told = against(results)
    random.shuffle(results)

    assert against(results) == told
    assert told[0].startswith("-6.00 ")


def test_only_seeds_that_both_played_are_compared() -> None:
    both = against([*runs("ours", [0, 1], 0.02), *runs("keda", [0, 1], 0.06)])

    assert against([*runs("ours", [0, 1, 4], 0.02), *runs("keda", [0, 1, 2], 0.06)]) == both
    assert against([*runs("ours", [0], 0.02), *runs("keda", [1], 0.06)]) == []


def test_worlds_are_compared_each_for_itself() -> None:
    results = [
        *runs("ours", [0], 0.02),
        *runs("keda", [0], 0.04),
        *runs("foresight", [0], 0.01),
        *runs("ours", [0], 0.03, "batching"),
        *runs("keda", [0], 0.06, "batching"),
        *runs("foresight", [0], 0.02, "batching"),
    ]

    closed = {row.world: row.gap_closure for row in finished(results) if row.controller == "ours"}

    assert closed == {"fluid": pytest.approx(2 / 3), "batching": pytest.approx(3 / 4)}
    assert [each.split()[0] for each in against(results)] == ["-1.50", "-1.00"]


def test_two_processes_play_what_one_does(tmp_path: Path) -> None:
    # As people call it: what a process of its own is handed it must find again, which no module run as a script allows.
    rows = []
    for processes in "12":
        out = tmp_path / processes / "decisions.json"
        command = [sys.executable, "-m", "rebalancer.sim.suite", "--quick", "--scenarios=S7", "--given=exact"]
        command.append("--controllers=static")
        command += ["--processes", processes, "--out", str(out)]
        subprocess.run(command, check=True, timeout=50, stdout=subprocess.DEVNULL)  # noqa: S603  # our own interpreter
        rows.append(out.read_bytes())
    assert rows[0] == rows[1]
