"""Play the catalogue, or part of it, and write its page: `python -m tests.faults -k kafka --seeds 3`."""

import argparse
import os
import sys

import pytest

from tests.faults.catalogue import GROUPS
from tests.faults.results import PAGE, Play, keep, kept, now, page, shown_by
from tests.machine.page import commit_now


class Reports:
    """A pytest plugin: what became of each test. `tests` gets what each play adds, so that a kill costs one only."""

    def __init__(self, commit: str) -> None:
        self._commit = commit

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the call, or whatever went wrong around it."""
        if report.when != "call" and report.outcome == "passed":
            return
        test = report.nodeid.removeprefix("tests/")
        if report.when == "teardown" and kept().get(test, None) is None:
            return
        keep([Play(test, report.outcome, round(report.duration, 1), _words(report), self._commit, now())])


def _words(report: pytest.TestReport) -> str:
    """The first line of what pytest says of a failure."""
    if report.outcome == "passed":
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash is not None else str(report.longrepr)
    return " ".join(message.split())[:400]


def main() -> int:
    """Play what was asked for; 0 when everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("-k", metavar="WORD", action="append", help="rows whose group, id or fault has this word")
    parser.add_argument("--seeds", type=int, default=3, help="plays of each row (default: %(default)s)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--here", action="store_true", help="leave out what tests elsewhere show")
    where.add_argument("--elsewhere", action="store_true", help="only what tests elsewhere show")
    parser.add_argument("--soak", metavar="SECONDS", help="play faults on one process for so long instead")
    parser.add_argument("--page", action="store_true", help="play nothing, write the page of what was played")
    args = parser.parse_args()
    if args.soak:
        os.environ["REBALANCER_SOAK_SECONDS"] = args.soak
        return int(pytest.main(["-q", "--tb=short", "tests/faults/test_soak.py"]))
    seeds = range(1, args.seeds + 1)
    tests = [
        test
        for group in GROUPS
        for row in group.rows
        if _asked(f"{group.name} {row.id} {row.fault}", args.k)
        and not (args.here if row.deed is None else args.elsewhere)
        for test in shown_by(row, group, seeds)
    ]
    code = 0
    if tests and not args.page:
        files = [f"tests/{test}" for test in dict.fromkeys(tests)]
        code = int(pytest.main(["-p", "no:randomly", "-v", "--tb=short", *files], plugins=[Reports(commit_now())]))
    PAGE.write_text(page(kept(), " ".join(["python -m tests.faults", *sys.argv[1:]]), range(1, 4)))
    sys.stdout.write(f"{PAGE}\n")
    return code


def _asked(words: str, wanted: list[str] | None) -> bool:
    return not wanted or any(each.lower() in words.lower() for each in wanted)


if __name__ == "__main__":
    sys.exit(main())
