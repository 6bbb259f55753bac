"""The tables of what a user gets without exact numbers."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from rebalancer.sim.page import report
from rebalancer.sim.page.cases import cases_of
from rebalancer.sim.page.robust import robust
from rebalancer.sim.suite.row import Played, Row


def row(controller: str, late: float, seed: int = 0, **other: object) -> Row:
    named = {"scenario": "S7", "day": "generated", "gpus": 24, "given": "exact", "breaches": 0} | other
    actuation = "scale" if controller == "ours" else None
    return Row(
        scenario=str(named["scenario"]),
        day=str(named["day"]),
        gpus=24,
        start_seconds=60,
        controller=controller,
        actuation=actuation,
        tuning=None,
        seed=seed,
        violation=late,
        floor_breaches=int(str(named["breaches"])),
        given=str(named["given"]),
    )


def told(rows: Sequence[Row], noise: float = 0.0) -> list[str]:
    """The lines, with 20 blocks kept beside each row."""
    played = [Played(r, [(100 * (r.violation or 0) + noise * (at % 2), 100.0) for at in range(20)]) for r in rows]
    return "\n".join(robust(cases_of(rows, played))).splitlines()


EXACT = [row("ours", 0.02), row("keda", 0.03), row("static", 0.2)]


def given(name: str, ours: float | None, keda: float) -> list[Row]:
    rows = [row("keda", keda, given=name), row("static", 0.2, given=name)]
    return rows if ours is None else [*rows, row("ours", ours, given=name)]


def test_each_row_has_the_exact_one_and_the_best_peer_that_was_given_the_same_beside_it() -> None:
    lines = told([*EXACT, *given("x0.5", 0.1, 0.04)])

    cells = "| S7 day generated, 24 GPUs, 60 s to start | x0.5 | 10.00 | 2.00 | 20.00 | 4.00 keda |"
    assert f"{cells} +6.00 (+6.00 to +6.00) * | 3.00 | 0 |" in lines


@pytest.mark.parametrize(
    ("exact", "ours", "close"), [(0.02, 0.025, 1), (0.02, 0.026, 0), (0.001, 0.002, 1), (0.001, 0.0021, 0)]
)
def test_a_quarter_or_a_tenth_of_a_point_more_than_exact_is_close(exact: float, ours: float, close: int) -> None:
    lines = told([row("ours", exact), row("static", 0.2), *given("x2", ours, 0.04)])

    assert any(line.startswith(f"In {close} of 1 rows ours is at most 25 % or 0.1 points later") for line in lines)


def test_what_is_behind_a_peer_or_static_is_counted() -> None:
    said = next(line for line in told([*EXACT, *given("x0.5", 0.3, 0.04)]) if line.startswith("In "))

    assert "in 1 it is behind the best peer that was given the same, in 1 behind static." in said


def test_what_the_product_could_not_play_is_said_and_not_counted() -> None:
    lines = told([*EXACT, *given("absent", None, 0.04)])

    assert any(line.startswith("In 0 of 0 rows") for line in lines)
    assert "| absent | not played | 2.00 | 20.00 | 4.00 keda | - | 3.00 | - |" in lines[-1]


def family(name: str, ours: Sequence[float], keda: float, static: float, given: str = "exact") -> list[Row]:
    late = {"keda": [keda] * len(ours), "static": [static] * len(ours), "ours": ours}
    return [
        row(controller, share, seed, scenario=name, day="judged", given=given)
        for controller, shares in late.items()
        for seed, share in enumerate(shares)
    ]


def test_a_family_is_judged_by_its_worlds_each_of_which_counts_alike() -> None:
    rows = [*family("swaps", [0.02, 0.04, 0.02], 0.1, 0.3), *family("dips", [0.03] * 3, 0.02, 0.3)]
    crowded = [Played(r, [(1e6, 1e6)] * 18) for r in rows if r.scenario == "swaps" and r.seed == 1]

    lines = "\n".join(robust(cases_of(rows, crowded))).splitlines()

    swaps, dips = (next(line for line in lines if line.startswith(f"| {name}")) for name in ("swaps", "dips"))
    assert swaps.startswith("| swaps | 3 | 2.67 | 10.00 keda | -7.33 (-8.00 to -6.00) * | ahead | 30.00 |")
    assert dips.startswith("| dips | 3 | 3.00 | 2.00 keda | +1.00 (+1.00 to +1.00) * | behind | 30.00 |")
    assert any(line.startswith("Ahead in 1 of 2 families that count") and "behind in 1." in line for line in lines)


def test_a_familys_worlds_with_wrong_figures_are_no_worlds_of_the_family() -> None:
    rows = [*family("swaps", [0.02, 0.04], 0.1, 0.3), *family("swaps", [0.2, 0.2], 0.3, 0.3, "x0.8")]

    lines = told(rows)

    assert [line for line in lines if line.startswith("| swaps | 2 |")] == lines[-1:]
    assert "| swaps day judged, 24 GPUs, 60 s to start | x0.8 | 20.00 | 3.00 | 30.00 | 30.00 keda |" in "\n".join(lines)


def test_families_in_which_nobody_is_late_are_ties_and_chance_is_no_lead() -> None:
    rows = [*family("swaps", [0.0009] * 3, 0.0001, 0.0), *family("dips", [0.01, 0.05], 0.02, 0.3)]

    lines = told(rows)

    assert any("| tie |" in line and line.startswith("| swaps") for line in lines)
    assert any("| level |" in line and line.startswith("| dips") for line in lines)
    assert any(line.startswith("Ahead in 0 of 1 families that count") for line in lines)


def test_worlds_that_are_later_than_standing_still_are_counted_over_all_families() -> None:
    rows = [*family("swaps", [0.0121, 0.0119], 0.1, 0.01), *family("dips", [0.0] * 2, 0.1, 0.01)]

    said = next(line for line in told(rows) if line.startswith("Ahead in"))

    assert "Worse than static by more than 0.2 points in 25.0 % of 4 worlds." in said


def test_one_broken_floor_in_fifty_worlds_is_not_rounded_to_none() -> None:
    rows = [*family("swaps", [0.02] * 50, 0.1, 0.3), *family("dips", [0.02] * 2, 0.1, 0.3)]
    assert "Floors were broken 0 times in 52 runs of ours." in "\n".join(told(rows))

    broken = [replace(each, floor_breaches=1) if (each.controller, each.seed) == ("ours", 7) else each for each in rows]
    lines = told(broken)

    assert "Floors were broken 1 time in 52 runs of ours." in "\n".join(lines)
    swaps, dips = (next(line for line in lines if line.startswith(f"| {name}")) for name in ("swaps", "dips"))
    assert (swaps.split(" | ")[-1], dips.split(" | ")[-1]) == ("1 |", "0 |")


def test_a_floor_broken_by_wrong_figures_is_told_and_one_that_nobody_counted_is_not_kept() -> None:
    rows = [*EXACT, *given("x0.5", 0.1, 0.04), row("ours", 0.1, 1, given="x0.5", breaches=2)]
    lines = told(rows)
    assert lines[-1].endswith("| 2 |")
    assert "Floors were broken 2 times in 2 runs of ours." in "\n".join(lines)

    unknown = told([replace(each, floor_breaches=None) for each in rows])
    assert unknown[-1].endswith("| - |")


def test_the_page_leads_with_what_users_get_and_keeps_it_out_of_the_exact_tables() -> None:
    rows = [*EXACT, *given("x0.5", 0.1, 0.04), *family("swaps", [0.02] * 3, 0.1, 0.3)]

    lines = report.tables(rows, "abc", "2026-01-02").splitlines()

    heads = [line for line in lines if line.startswith("### ")]
    assert heads[0].startswith("### Figures and metrics as users have them")
    assert heads[1].startswith("### Families of shapes")
    assert heads[2] == "### Where we lose with exact figures"
    assert heads[3:] == ["### S7: violation, %", "### S7: ours and the best peer"]
    assert any(line.startswith("Against the best tuned peer of each of 1 cases") for line in lines)
