"""A pytest plugin that `make oldest` asks for (`-p tests.testbed.page`): what became of each file of the real tier.

The page is `results/LINE.md` beside this module. A file that was played in full gets its row anew, with the commit and
the day; the rows of other files stay, so the tier may be played file by file.
"""

import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.testbed.build import pinned_version
from tests.testbed.line import chosen_line

_ROOT = Path(__file__).parents[2]
_FOLDER = Path(__file__).parent / "results"
_PARTS = {"KEDA": "keda", "Karpenter": "karpenter"}
_HEAD = "| file | passed | skipped | failed | s | commit | day |"


class Row(NamedTuple):
    """One file of tests: `failures` are names of tests, `commit` ends with + where files differed from it."""

    file: str
    passed: int
    skipped: int
    failures: tuple[str, ...]
    seconds: float
    commit: str
    day: str

    def __str__(self) -> str:
        failed = ", ".join(f"`{name}`" for name in self.failures) or "0"
        cells = (f"`{self.file}`", self.passed, self.skipped, failed, f"{self.seconds:.0f}", self.commit, self.day)
        return f"| {' | '.join(map(str, cells))} |"


class Page:
    """Counts the reports of a session, and writes the page at its end."""

    def __init__(self, page: Path, commit: str) -> None:
        self._page, self._commit = page, commit
        self._to_play: Counter[str] = Counter()
        self._outcomes: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._to_play.update(_file(item.nodeid) for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, outcomes = _file(report.nodeid), self._outcomes[_file(report.nodeid)]
        self._seconds[file] += report.duration
        if report.failed or report.nodeid not in outcomes or report.skipped:
            outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.config.option.keyword or any("::" in argument for argument in session.config.args):
            return  # parts of files
        rows = {file: self._row(file) for file, count in self._to_play.items() if len(self._outcomes[file]) == count}
        if rows:
            self._page.parent.mkdir(exist_ok=True)
            self._page.write_text(page(_rows_of(self._page) | {file: str(row) for file, row in rows.items()}))

    def _row(self, file: str) -> Row:
        outcomes = self._outcomes[file]
        count = Counter(outcomes.values())
        failures = tuple(sorted(test.partition("::")[2] for test, outcome in outcomes.items() if outcome == "failed"))
        day = f"{datetime.now(UTC):%Y-%m-%d}"
        return Row(file, count["passed"], count["skipped"], failures, self._seconds[file], self._commit, day)


def pytest_configure(config: pytest.Config) -> None:
    """Have the page of the line that this process plays."""
    config.pluginmanager.register(Page(_FOLDER / f"{chosen_line().name}.md", _commit()))


def page(rows: Mapping[str, str]) -> str:
    """The page with these lines of its table, by file."""
    line = chosen_line()
    versions = ", ".join(f"{name} {pinned_version(piece)}" for name, piece in _PARTS.items())
    lines = [
        f"# The real tier on the {line.name} line",
        "",
        f"Kubernetes {line.kubernetes}, {versions}: every test that is marked `real` and not `proof`, by file. Made by",
        f"`make {line.name}`, one file by `make {line.name} ARGS=tests/real/test_gate.py`; a row has the commit of its",
        "last play, with + where files differed from it.",
        "",
        _HEAD,
        "|---|---:|---:|---|---:|---|---|",
        *(rows[file] for file in sorted(rows)),
    ]
    return "\n".join(lines) + "\n"


def _rows_of(file: Path) -> dict[str, str]:
    lines: Iterable[str] = file.read_text().splitlines() if file.exists() else ()
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}


def _file(test: str) -> str:
    return test.partition("::")[0]


def _commit() -> str:
    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "--", ":!tests/testbed/results")
    return git("rev-parse", "--short=8", "HEAD") + ("+" if changed else "")
