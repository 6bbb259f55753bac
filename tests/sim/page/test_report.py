"""The tables of the benchmarks' page: made from rows, put between the marks, and honest about losses."""

from pathlib import Path

import msgspec
import pytest

from rebalancer.sim.page import report
from rebalancer.sim.suite.row import Row
from tests.house.repository import ROOT


def row(controller: str, violation: float, **other: object) -> Row:
    given = {
        "scenario": "S2",
        "day": "1",
        "gpus": 32,
        "start_seconds": 60,
        "actuation": None,
        "tuning": None,
        "seed": 0,
    }
    return msgspec.convert({**given, "controller": controller, "violation": violation, **other}, Row)


def case(gpus: int, ours: float) -> list[Row]:
    return [
        row("hpa", 0.04, gpus=gpus, tuning="work@0.8", gpu_hours=650.0, starts_and_stops=400),
        row("keda", 0.03, gpus=gpus, tuning="work@0.85", gpu_hours=700.0, starts_and_stops=380),
        row("ours", ours, gpus=gpus, actuation="scale", gpu_hours=760.0, starts_and_stops=90),
        row("ours", 0.05, gpus=gpus, actuation="bounds"),
        row("foresight", 0.01, gpus=gpus),
        row("bound", 0.0, gpus=gpus, late_work_share=0.004)
        if gpus == 32
        else row("foresight", 0.01, gpus=gpus, seed=1),
    ]


ROWS = [*case(32, 0.02), *case(40, 0.06)]


def test_a_case_is_a_line_and_the_best_peer_is_bold() -> None:
    lines = report.tables(ROWS, "abc", "2026-01-02").splitlines()
    assert "Measured 2026-01-02 at commit `abc`, 12 runs." in lines
    assert "| day | GPUs | start s | hpa | keda | ours | ours, bounds | foresight | bound |" in lines
    assert "| 1 | 32 | 60 | 4.00 | **3.00** | 2.00 | 5.00 | 1.00 | 0.40 |" in lines
    assert "| 1 | 40 | 60 | 4.00 | **3.00** | 6.00 | 5.00 | 1.00 | - |" in lines


def test_where_the_service_loses_is_said_first() -> None:
    text = report.tables(ROWS, "abc", "2026-01-02")
    assert "Ours is worse than the best tuned peer in 1 of 2 cases:" in text
    assert "- S2 day 1, 40 GPUs, 60 s to start: 6.00 % against 3.00 % of keda" in text
    assert "- S2 day 1, 32 GPUs" not in text
    assert "nowhere worse" in report.tables(case(32, 0.02), "abc", "2026-01-02")


def test_cost_and_churn_stand_beside_the_best_peers() -> None:
    lines = report.tables(ROWS, "abc", "2026-01-02").splitlines()
    assert "| 1 | 32 | 60 | keda work@0.85 | 0.50 | 700 / 760 | 380 / 90 | - / - | - / - |" in lines
    assert "| 1 | 40 | 60 | keda work@0.85 | -1.50 | 700 / 760 | 380 / 90 | - / - | - / - |" in lines


def test_seeds_are_averaged_and_lost_utility_is_the_headline_where_there_is_one() -> None:
    rows = [
        row(name, 0.5, scenario="S1b", seed=seed, lost_utility=lost + seed / 10)
        for name, lost in (("keda", 0.5), ("ours", 0.4))
        for seed in (0, 1)
    ]
    lines = report.tables(rows, "abc", "2026-01-02").splitlines()
    assert "### S1b: lost utility" in lines
    assert "| 1 | 32 | 60 | **0.550** | 0.450 |" in lines


def test_the_tables_replace_what_is_between_the_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, rows = tmp_path / "page.md", tmp_path / "rows.json"
    page.write_text(f"before\n{report.BEGIN}old\n{report.END}after\n")
    rows.write_bytes(msgspec.json.encode(ROWS))
    words = ["--commit", "abc", "--rows", str(rows), "--page", str(page)]
    assert report.main(words) == 0
    once = page.read_text()
    assert report.main(words) == 0
    assert page.read_text() == once
    assert once.startswith(f"before\n{report.BEGIN}")
    assert once.endswith(f"{report.END}after\n")
    assert "old" not in once
    page.write_text("no marks\n")
    assert report.main(words) == 2
    assert report.main(["--commit", "abc", "--rows", str(tmp_path / "none"), "--page", str(page)]) == 2
    assert "make bench-decisions writes the rows" in capsys.readouterr().err
    assert page.read_text() == "no marks\n"


def test_the_pages_marks_are_where_the_tables_go() -> None:
    page = (ROOT / report.PAGE).read_text()
    assert f"{report.BEGIN}\nx\n{report.END}" in report.inserted(page, "x")
