"""Each rule undone in turn, and how many steps the machine needs to notice: `python -m tests.machine.undone`.

A history counts where it breaks a rule with the patch and none without it. A row names the rule of the issue, the patch
(the mutants of `tests.mutants` where there is one) and the deeds that lead there fastest; none named: all of them.
"""

import sys
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import pytest

from tests.machine.deeds import DEEDS
from tests.machine.histories import History, Played, a_history, play
from tests.machine.oracle import Verdict
from tests.machine.quiet import be_quiet
from tests.mutants.mutant import Mutant
from tests.mutants.rules import RULES

MOST_STEPS = 60_000
TRAFFIC = "traffic changes"
# The mutants' names -> the rule's number in the issue, and what brings it to light.
NUMBERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "allocatable": ("1", ("device plugin drops", "fewer devices", "several pods crash", "pod is stuck loading")),
    "dead": ("2, 3", ("node falls silent", "somebody scales to zero")),
    "others": ("4", ("GitOps writes again and again", "somebody writes once")),
    "gpus": ("10", ("template changes GPUs", "rollout")),
    "asleep": ("13", ("somebody scales to zero", "KEDA is paused")),
    "gone": ("2", ("node goes before its pods", "machine is taken")),
    "notice": ("9", ("maintenance weeks ahead", "machine is taken")),
    "disruption": ("9", ("Karpenter drains", "cloud has none")),
    "repair": ("15", ("GitOps writes again and again", "somebody writes once")),
    "rollout": ("13", ("rollout hangs", "machine is taken")),
}


class Undone(NamedTuple):
    """One row: what was undone, and after how many steps which history showed it."""

    number: str
    mutant: Mutant
    steps: int
    seed: int | None = None
    verdict: Verdict | None = None

    def __str__(self) -> str:
        what = f"{self.number:6}{self.mutant!s:36}"
        if self.verdict is None:
            return f"{what}{self.steps:7} steps  NOT FOUND"
        return f"{what}{self.steps:7} steps  seed {self.seed}: {self.verdict}"


def undo(mutant: Mutant, most_steps: int = MOST_STEPS) -> Undone:
    """Play histories with the patch until one breaks that does not break without."""
    number, deeds = NUMBERS.get(mutant.guard, ("", ()))
    names = [*deeds, TRAFFIC] if deeds else list(DEEDS)
    steps = 0
    for seed in count(1):
        history = a_history(seed, names=names)
        found = _with(mutant, history)
        steps += found.steps
        if found.verdict is not None and play(history).verdict is None:
            return Undone(number, mutant, steps, seed, found.verdict)
        if steps >= most_steps:
            break
    return Undone(number, mutant, steps)


def _with(mutant: Mutant, history: History) -> Played:
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        return play(history)


def table(mutants: tuple[Mutant, ...] = RULES, most_steps: int = MOST_STEPS) -> Iterator[Undone]:
    """A row per mutant, as they come."""
    return (undo(mutant, most_steps) for mutant in mutants)


def main() -> int:
    """Print the table; 1 when an undone rule was not found."""
    be_quiet()
    missed = 0
    for row in table():
        missed += row.verdict is None
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
