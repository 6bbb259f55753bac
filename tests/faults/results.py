"""What became of each play, kept from run to run, and the page that is made of it."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.faults.catalogue import CATALOGUE, GROUPS
from tests.faults.row import Group, Row

FOLDER = Path(__file__).parent / "results"
PLAYS = FOLDER / "plays.jsonl"
PAGE = FOLDER / "catalogue.md"
_WORDS = 160


class Play(NamedTuple):
    """One row with one seed, or one test elsewhere: `outcome` is pytest's, `words` say what broke."""

    test: str
    outcome: str
    seconds: float
    words: str
    commit: str
    at: str


def kept() -> dict[str, Play]:
    """The last play of each test, by its name."""
    if not PLAYS.exists():
        return {}
    plays = [Play(*json.loads(line)) for line in PLAYS.read_text().splitlines()]
    return {play.test: play for play in plays}


def keep(plays: Iterable[Play]) -> dict[str, Play]:
    """Add these, each in the place of an earlier one; all there are, written in the order of their names."""
    known = kept() | {play.test: play for play in plays}
    FOLDER.mkdir(exist_ok=True)
    PLAYS.write_text("".join(json.dumps(known[test]) + "\n" for test in sorted(known)))
    return known


def now() -> str:
    """For a play: the minute."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M}"


def shown_by(row: Row, group: Group, seeds: Iterable[int]) -> list[str]:
    """The tests that show a row, by their names below `tests/`."""
    if row.deed is None:
        return list(row.elsewhere)
    name = "faults/test_rows.py::test_whatever_fails_while_gpus_change_hands_every_invariant_holds"
    return [f"{name}[{group.name}-{row.id}-seed{seed}]" for seed in seeds]


def page(plays: dict[str, Play], command: str, seeds: Iterable[int]) -> str:
    """The whole catalogue with what became of each row, as Markdown."""
    seeds = list(seeds)
    rows = [(row, group) for group in CATALOGUE for row in group.rows]
    states = Counter(row.state for row, _ in rows)
    results = Counter(_in_a_word(_result(row, group, plays, seeds)) for row, group in rows)
    lines = [
        "# The fault catalogue",
        "",
        "Each fault is injected while GPUs change hands between two models: a real API server with its controllers, a",
        "real broker, the service as a process behind a link to each that can be cut, slowed, spoilt and silenced.",
        "Then state must become as desired within 60 s and stay so for 5 s, and the invariants I1 to I16",
        "are judged by audit log, journal, checkpoint, /readyz, /proc and the links. A seed chooses the moment.",
        "",
        "A row that is *shown elsewhere* is injected by the tests that it names, on the parts that those run on,",
        "without the judge of the invariants: those tests look at what they are about.",
        "",
        f"`{command}`, last {now()} UTC; each line has the day and the commit of its last play:",
        "with + files differed from it, with < it was played on the work that became it. The judge was that commit's.",
        "",
        f"{sum(states.values())} rows: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        + ". Results: " + ", ".join(f"{count} {result}" for result, count in sorted(results.items())) + ".",
    ]  # fmt: skip
    for group in GROUPS:
        lines += ["", f"## {group.title}", "",
                  "| id | fault | must hold | result | s | last played | commit | as played |",
                  "|---|---|---|---|---:|---|---|---|"]  # fmt: skip
        lines += [_line(row, group, plays, seeds) for row in group.rows]
    return "\n".join(lines) + "\n"


def _line(row: Row, group: Group, plays: dict[str, Play], seeds: list[int]) -> str:
    played = _played(shown_by(row, group, seeds), plays)
    seconds = f"{sum(play.seconds for play in played) / len(played):.0f}" if played else ""
    last = max(played, key=lambda play: play.at, default=None)
    day, commit = (last.at.partition(" ")[0], last.commit) if last is not None else ("", "")
    where = "; ".join(dict.fromkeys(f"`{test.partition('::')[0]}`" for test in row.elsewhere))
    said = "; ".join(filter(None, (row.as_played, where and f"elsewhere: {where}", row.cannot)))
    cells = (row.id, row.fault, row.holds, _result(row, group, plays, seeds), seconds, day, commit, said)
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def _played(tests: list[str], plays: dict[str, Play]) -> list[Play]:
    """The plays of these tests; of one that is named without its parameters those with each of them."""
    return [play for test, play in plays.items() if test in tests or test.partition("[")[0] in tests]


def _in_a_word(result: str) -> str:
    return next((word for word in ("held", "shown elsewhere", "broke") if result.startswith(word)), result)


def _result(row: Row, group: Group, plays: dict[str, Play], seeds: list[int]) -> str:
    if row.state in {"cannot", "not built yet"}:
        return "cannot happen here" if row.cannot else "not built yet"
    tests = shown_by(row, group, seeds)
    played = _played(tests, plays)
    if not played:
        return "not played"
    broken = [play for play in played if play.outcome != "passed"]
    if not broken and row.deed is None:
        plays_of_it = f"{len(played)} play{'s' if len(played) > 1 else ''}"
        return f"shown elsewhere, {plays_of_it}, without the judge"
    if not broken:
        return f"held {len(played)} of {len(tests)} seeds"
    return f"broke {len(broken)} of {len(played)}: {broken[0].outcome}, {broken[0].words[:_WORDS]}"
