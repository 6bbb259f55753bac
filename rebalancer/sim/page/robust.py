"""What a user gets without exact numbers: the same cases with other figures and metrics, and families of shapes.

Peers that are told the future are no measure here: leave their rows out.
"""

from collections.abc import Iterator, Mapping, Sequence

from rebalancer.domain.words import counted
from rebalancer.sim.page.cases import Against, CasePage, Name
from rebalancer.sim.page.cells import difference, headline_cell, markdown, number, peer_cell
from rebalancer.sim.suite.families import FAMILIES
from rebalancer.sim.suite.given import EXACT, GIVEN
from rebalancer.sim.suite.row import OURS, Row, broken_floors, headline

MORE_THAN_EXACT, MORE_POINTS = 1.25, 0.001  # later than with exact figures: whichever is larger is no robust answer
TIE = 0.001  # a family in which both are late less than that says nothing
WORSE_POINTS = 0.002  # later than standing still by more than that: a world that regrets to be rebalanced


def robust(cases: Sequence[CasePage]) -> Iterator[str]:
    """Markdown of what is there of both: a head, some sentences and a table each."""
    by_name = {case.name: case for case in cases}
    given = [case for case in cases if case.name.given != EXACT.name]
    if given:
        yield "### Figures and metrics as users have them: violation, %; S1b lost utility\n"
        yield from _given(sorted(given, key=_place), by_name)
    families = [case for case in cases if case.name.scenario in FAMILIES and case not in given]
    if families:
        yield "### Families of shapes, each world another: violation, %\n"
        yield from _families(families)


def _place(case: CasePage) -> tuple[object, ...]:
    name = case.name
    return name.scenario, name.day, name.gpus, name.start_seconds, list(GIVEN).index(name.given)


def _given(cases: Sequence[CasePage], by_name: Mapping[Name, CasePage]) -> Iterator[str]:
    heads = "case,given,ours,ours exact,static,best peer so given,ours - peer (95 %),peer exact,floor breaches"
    lines, close, behind, below, played = [heads.split(",")], 0, 0, 0, 0
    for case in cases:
        exact = by_name.get(case.name._replace(given=EXACT.name))
        ours, static = case.means.get(OURS), case.means.get("static")
        if ours is not None:
            played += 1
            close += exact is not None and _is_close(ours, exact.means.get(OURS))
            below += _later(ours, static, 0.0)
        behind += case.against is not None and case.against.counts and case.against.difference > 0
        best = case.best
        lines.append(
            [
                str(case.name._replace(given=EXACT.name)),
                case.name.given,
                "not played" if ours is None else headline_cell(ours, case),
                "-" if exact is None else headline_cell(exact.means.get(OURS), exact),
                headline_cell(static, case),
                "-" if best is None else peer_cell(Against(best, best, 0.0, None, None), case),
                "-" if case.against is None else difference(case.against, case),
                "-" if exact is None or best is None else headline_cell(exact.means.get(best.controller), exact),
                "-" if ours is None else number(ours.floor_breaches),
            ]
        )
    yield (
        f"In {close} of {played} rows ours is at most {100 * (MORE_THAN_EXACT - 1):.0f} % or {100 * MORE_POINTS:g}"
        f" points later than with exact figures, whichever is more; in {behind} it is behind the best peer that was"
        f" given the same, in {below} behind static. {_floors(cases)}\n"
    )
    yield markdown(lines)


def _floors(cases: Sequence[CasePage]) -> str:
    rows = [row for case in cases if (row := case.means.get(OURS)) is not None]
    broken = broken_floors(rows)
    times = "Nobody counted broken floors" if broken is None else f"Floors were broken {counted(broken, 'time')}"
    return f"{times} in {counted(sum(case.runs for case in cases), 'run')} of ours."


def _is_close(ours: Row, exact: Row | None) -> bool:
    now, then = headline(ours), None if exact is None else headline(exact)
    return now is not None and then is not None and now <= max(MORE_THAN_EXACT * then, then + MORE_POINTS)


def _later(ours: Row, other: Row | None, points: float) -> bool:
    mine, theirs = headline(ours), None if other is None else headline(other)
    return mine is not None and theirs is not None and mine > theirs + points


def _families(cases: Sequence[CasePage]) -> Iterator[str]:
    heads = "family,worlds,ours,best peer,ours - peer (95 %),stands,static,foresight,worse than static,floor breaches"
    lines = [heads.split(",")]
    stands = [_stands(case) for case in cases]
    beyond = [each for case in cases for each in case.beyond_static]
    for case, stand in zip(cases, stands, strict=True):
        ours, worlds = case.means.get(OURS), case.beyond_static
        lines.append(
            [
                case.name.scenario,
                str(len(worlds)),
                headline_cell(ours, case),
                "-" if case.against is None else peer_cell(case.against, case),
                "-" if case.against is None else difference(case.against, case),
                stand,
                headline_cell(case.means.get("static"), case),
                headline_cell(case.means.get("foresight"), case),
                f"{100 * _worse(worlds):.0f} %" if worlds else "-",
                "-" if ours is None else number(ours.floor_breaches),
            ]
        )
    decided = sum(each in {"ahead", "behind", "level"} for each in stands)
    yield (
        f"Ahead in {stands.count('ahead')} of {decided} families that count (both under {100 * TIE:g} % is a tie),"
        f" behind in {stands.count('behind')}. Worse than static by more than {100 * WORSE_POINTS:g} points in"
        f" {100 * _worse(beyond):.1f} % of {len(beyond)} worlds. {_floors(cases)}\n"
    )
    yield markdown(lines)


def _stands(case: CasePage) -> str:
    """By the interval over worlds, of late requests in the mean over worlds."""
    each = case.against
    if each is None:
        return "-"
    if max(headline(each.ours) or 0.0, headline(each.peer) or 0.0) < TIE:
        return "tie"
    if each.low is None:  # of one world
        return "-"
    if not each.counts:
        return "level"
    return "ahead" if each.difference < 0 else "behind"


def _worse(beyond_static: Sequence[float]) -> float:
    return sum(each > WORSE_POINTS for each in beyond_static) / len(beyond_static) if beyond_static else 0.0
