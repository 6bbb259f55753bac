"""What a long run came to, with where it came from: one page."""

import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from tests.machine.deeds import DEEDS
from tests.machine.verdicts import Verdict


class Found(NamedTuple):
    """A history that broke a rule."""

    seed: int
    verdict: Verdict
    deeds: list[str]

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.verdict}; after {', '.join(self.deeds)}"


def page(
    arguments: Sequence[str],
    commit: str,
    steps: int,
    histories: int,
    seconds: float,
    met: Counter[str],
    counts: Counter[str],
    found: Sequence[Found],
) -> str:
    """How much was played, what disturbed it in which part of the steps, what the service did, what was broken.

    `commit`: of the code that was played, as `commit_now` said before the first step.
    """
    rules = Counter(one.verdict.rule for one in found)
    lines = [
        f"python -m {' '.join(['tests.machine', *arguments])}",
        f"commit {commit}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",  # noqa: TID251  # when it was
        f"{steps} steps in {histories} histories, {seconds:.0f} s, {steps / seconds:.0f} steps/s",
        "",
        "disturbances, in so much of the steps:",
        *(f"  {100 * met[name] / steps:6.2f} %  {met[name]:7d}  {name}" for name in DEEDS),
        "",
        "what the service did: " + ", ".join(f"{number} {name}" for name, number in sorted(counts.items())),
        "broken: " + (", ".join(f"({rule}) {number}" for rule, number in sorted(rules.items())) or "nothing"),
    ]
    return "\n".join(lines)


def commit_now() -> str:
    """The commit that is checked out, short; with a + where files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own words
    return found.stdout.strip()
