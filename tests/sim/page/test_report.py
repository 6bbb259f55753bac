"""The tables of the benchmarks' page: made from rows, put between the marks, and honest about losses."""

from pathlib import Path

import msgspec
import pytest

from rebalancer.sim.page import report
from rebalancer.sim.suite.row import Played, Row
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


def kept(rows: list[Row], noise: float = 0.0) -> list[Played]:
    """What the suite keeps beside the rows: 50 blocks of 100 requests, every other one with `noise` more late."""
    return [
        Played(each, [(100 * (each.violation or 0.0) + noise * (at % 2 - 0.5), 100.0) for at in range(50)])
        for each in rows
    ]


def test_a_case_is_a_line_and_the_best_peer_is_bold() -> None:
    lines = report.tables(ROWS, "abc", "2026-01-02").splitlines()
    assert "Measured 2026-01-02 at commit `abc`, 12 runs." in lines
    assert "| day | GPUs | start s | hpa | keda | ours | ours@bounds | foresight | bound |" in lines
    assert "| 1 | 32 | 60 | 4.00 | **3.00** | 2.00 | 5.00 | 1.00 | 0.40 |" in lines
    assert "| 1 | 40 | 60 | 4.00 | **3.00** | 6.00 | 5.00 | 1.00 | - |" in lines


def lines_of(rows: list[Row], played: list[Played] | None = None) -> list[str]:
    return report.tables(rows, "abc", "2026-01-02", kept(rows) if played is None else played).splitlines()


def test_where_the_service_loses_for_certain_is_said_first() -> None:
    lines = lines_of([*ROWS, *case(48, 0.031)])
    assert lines.index("### Where we lose with exact figures") < lines.index("### S2: violation, %")
    said = "Against the best tuned peer of each of 3 cases ours is worse in 2, better in 1; in 0 the difference may be"
    assert f"{said} chance." in lines
    worst, other = (line for line in lines if line.startswith("| S2 day 1"))
    assert worst == "| S2 day 1, 40 GPUs, 60 s to start | 6.00 | 3.00 keda:work@0.85 | +3.00 (+3.00 to +3.00) * |"
    assert other.startswith("| S2 day 1, 48 GPUs, 60 s to start | 3.10 |")


def test_where_a_peer_is_told_the_future_the_others_are_compared_without_it_too() -> None:
    lines = lines_of([*case(32, 0.02), row("faro", 0.015, gpus=32, tuning="sum@99")])
    all_of_them, others = (line for line in lines if line.startswith("Against the best tuned peer of each of 1 cases"))
    assert "worse in 1, better in 0" in all_of_them
    assert "worse in 0, better in 1" in others
    assert not any("are not told the future" in line for line in lines_of(ROWS))


def test_a_difference_within_the_noise_is_no_loss() -> None:
    rows = case(40, 0.031)
    ours, others = kept(rows[2:3], noise=50.0), kept([*rows[:2], *rows[3:]])
    lines = lines_of(rows, [*ours, *others])
    assert any("ours is worse in 0, better in 0; in 1 the difference may be chance." in line for line in lines)
    assert not [line for line in lines if line.startswith("| S2 day 1")]


def test_without_blocks_of_that_very_run_no_difference_counts() -> None:
    other = [msgspec.structs.replace(each, row=msgspec.structs.replace(each.row, gpu_hours=1.0)) for each in kept(ROWS)]
    for played in ([], other):
        said = "ours is worse in 0, better in 0; in 0 the difference may be chance, in 2 its interval is not known."
        assert any(said in line for line in lines_of(ROWS, played))


def test_lost_utility_is_compared_where_the_scenario_is_about_it() -> None:
    rows = [
        row(name, 0.5, scenario="S1b", seed=seed, lost_utility=lost)
        for name, values in (("keda", (0.5, 0.6)), ("ours", (0.55, 0.75)))
        for seed, lost in enumerate(values)
    ]
    played = [Played(each, [(10 * (each.lost_utility or 0.0), 10.0)] * 9) for each in rows]
    lost = "| S1b day 1, 32 GPUs, 60 s to start | 0.650 | 0.550 keda | +0.100 (+0.100 to +0.100) * |"
    assert lost in lines_of(rows, played)


@pytest.mark.parametrize(
    ("violation", "cost", "worse"),
    [(0.008, 90.0, 0), (0.008, 110.0, 1), (0.011, 90.0, 1), (0.0, 100.0, 0)],
)
def test_where_cost_decides_who_is_timely_enough_and_cheapest_stands_best(
    violation: float, cost: float, worse: int
) -> None:
    rows = [
        row("keda", 0.009, scenario="S5", tuning="work@0.7", cost_usd=100.0),
        row("hpa", 0.0, scenario="S5", tuning="work@0.5", cost_usd=300.0),
        row("ours", violation, scenario="S5", cost_usd=cost),
    ]
    lines = lines_of(rows)
    said = "In cases about cost (S5 at 1 % late: below it only cost counts) ours stands worse than the best peer in"
    assert f"{said} {worse} of 1." in lines
    listed = [line for line in lines if line.startswith("| S5 day")]
    expected = f"| S5 day 1, 32 GPUs, 60 s to start | {100 * violation:.2f} | {cost:.0f} | 0.90 keda:work@0.7 | 100 |"
    assert listed == [expected] * worse


def test_worlds_are_not_mixed() -> None:
    rows = [*case(32, 0.02), *(msgspec.structs.replace(each, world="batching") for each in case(32, 0.06))]
    lines = lines_of(rows)
    assert "### S2, continuous batching: violation, %" in lines
    (lost,) = [line for line in lines if line.startswith("| S2 day")]
    assert lost.startswith("| S2 day 1, 32 GPUs, 60 s to start, continuous batching | 6.00 | 3.00 keda:work@0.85 | +3")


def test_cost_and_churn_stand_beside_the_best_peers() -> None:
    lines = report.tables(ROWS, "abc", "2026-01-02").splitlines()
    assert "| 1 | 32 | 60 | keda:work@0.85 | -1.00 | 0.50 | 700 / 760 | - / - | 380 / 90 | - / - | - / - |" in lines
    assert "| 1 | 40 | 60 | keda:work@0.85 | +3.00 | -1.50 | 700 / 760 | - / - | 380 / 90 | - / - | - / - |" in lines


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
    (tmp_path / "rows.d").mkdir()
    for number, each in enumerate(kept(ROWS)):
        (tmp_path / "rows.d" / f"{number}.json").write_bytes(msgspec.json.encode(each))
    words = ["--commit", "abc", "--rows", str(rows), "--page", str(page)]
    assert report.main(words) == 0
    once = page.read_text()
    assert report.main(words) == 0
    assert page.read_text() == once
    assert "ours is worse in 1, better in 1" in once
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
