"""Runs the tests named after a guard while that guard is broken."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass

from tests.mutants.broken import NAMED, VARIABLE

NOTICED, UNNOTICED = 1, 0  # pytest's exit codes: some failed, none did


@dataclass(frozen=True, slots=True)
class Verdict:
    """`killers`: the tests that failed; `sound`: pytest ran and ended as it does with or without failures."""

    guard: str
    killers: tuple[str, ...]
    sound: bool

    def __str__(self) -> str:
        return f"{self.guard:8} {len(self.killers)} killed it: {', '.join(self.killers) or 'NOBODY'}"


def verdict(guard: str) -> Verdict:
    """What the tests named after `guard` say when it lets everything pass."""
    command = [sys.executable, "-m", "pytest", NAMED[guard], "-p", "tests.mutants.broken"]
    done = subprocess.run(  # noqa: S603  # our own command line
        [*command, "-q", "--tb=no", "-p", "no:cacheprovider"],
        env={**os.environ, VARIABLE: guard},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    killers = tuple(re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.MULTILINE))
    return Verdict(guard, killers, done.returncode in {NOTICED, UNNOTICED})
