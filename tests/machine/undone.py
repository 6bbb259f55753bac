"""Each rule undone in turn, and how many steps the machine needs to notice: `python -m tests.machine.undone`.

A history counts where it breaks a rule with the patch and none without it. A row names the rule of the issue, the patch
(the mutants of `tests.mutants` where there is one) and the deeds that lead there fastest; none named: all of them.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import NamedTuple

import pytest

from tests.machine.deeds import DEEDS
from tests.machine.histories import (
    History,
    Played,
    a_history,
    play,
    play_apart,
    play_restarted,
    play_without_cycles,
)
from tests.machine.quiet import be_quiet
from tests.machine.twins import TWINS, WHOLES
from tests.machine.verdicts import Verdict
from tests.mutants.mutant import Mutant
from tests.mutants.rules import RULES

MOST_STEPS = 60_000
COOKED_OF = 4  # histories: of so many all but one follow a recipe
TRAFFIC = "traffic changes"
# The mutants' names -> the rule's number in the issue, and the deeds that bring it to light.
NUMBERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "allocatable": ("1", ("device plugin drops", "fewer devices", "several pods crash", "pod is stuck loading")),
    "dead": ("2, 3", ("node falls silent", "somebody scales to zero")),
    "others": ("4", ("GitOps writes again and again", "somebody writes once")),
    "gpus": ("10", ("template changes GPUs", "rollout")),
    "asleep": ("13", ("somebody scales to zero", "KEDA is paused")),
    "gone": ("2", ("node goes before its pods", "machine is taken")),
    "marks": ("", ("machine is taken",)),
    "notice": ("9", ("maintenance weeks ahead", "machine is taken")),
    "disruption": ("9", ("Karpenter drains", "cloud has none")),
    "repair": ("15", ("GitOps writes again and again", "somebody writes once")),
    "rollout": ("13", ("rollout hangs", "machine is taken")),
    "stranger": ("5", ("policy is reloaded",)),
    "apart": ("5", ("GitOps writes again and again", "somebody writes once", "template changes GPUs")),
    "restart": ("6", ("machine is taken", "Kafka is away", "others take GPUs")),
    "restoring": ("7", ("policy is reloaded",)),
    "serves": ("8", ("several pods crash", "pod fails", "node goes before its pods")),
    "surplus": ("1", ("node falls silent", "cloud has none", "somebody scales to zero")),
    "clock": ("12", ("clock steps", "GitOps writes again and again", "somebody scales to zero")),
    "foreign": ("", ("another installation holds",)),
    "lending": ("14", ()),
    "standup": ("15", ("somebody writes once", "person says stand-up")),
    "owed": ("11", ()),
}
# And the recipes, which are played first: `rule what` before `rule`.
COOKED: dict[str, tuple[str, ...]] = {
    "allocatable": ("devices gone for long", "devices gone for good"),
    "allocatable owes at once": ("machine starts anew",),
    "allocatable takes 0 for known": ("all devices gone",),
    "allocatable owes for who waits": ("gone under the owner", "scaled by hand"),
    "allocatable believes a node, at once": ("devices gone for long",),
    "dead": ("dead for minutes", "dead under a loan"),
    "others": ("a hundred by hand",),
    "others is obliged by them": ("fought upwards",),
    "gpus counts the policy's everywhere": ("mistaken policy",),
    "gpus": ("template of twice the GPUs",),
    "asleep": ("asleep for good",),
    "gone": ("gone under the owner", "node goes while GPUs go home"),
    "gone releases the lost": ("notice without marks", "gone under the owner"),
    "marks": ("notice without marks",),
    "notice": ("home under notice", "notice"),
    "disruption": ("drift",),
    "repair": ("repaired",),
    "repair ends it at once": ("repaired and needed",),
    "foreign": ("held elsewhere",),
    "standup": ("stood up",),
    "standup forgets for ever": ("stood up and fought again",),
    "rollout": ("hung rollout under notice",),
    "stranger": ("leaves after it got a node",),
    "restart": ("restarted as demand fell", "restarted as GPUs go home"),
    "restart forgets notices": ("restarted under notice",),
    "restart forgets who fought": ("restarted in a fight",),
    "restoring": ("leaves the policy",),
    "restart reads no writes": ("restarted as a limit falls",),
    "serves": ("others come first", "node goes first", "node goes while GPUs go home"),
    "surplus": ("surplus beside the silent",),
    "clock": ("fought under a wrong clock",),
}
# Of these truth sees nothing here, and why.
UNSEEN: dict[str, str] = {
    "allocatable owes at once": "what serves is on GPUs that count: undone with `believes a node` it is found",
    "gone believes the lost": "whoever is on a node that went is doomed as well: both undone, it is found",
    "gone forgets the node": "pods of a node that is not listed are lost as well: both undone, it is found",
    "others is obliged by them": "only who waits for a GPU gives way to them, and waits on: truth sees who serves",
    "gpus counts the policy's": "the gate counts again: undone there as well, it is found",
    "borrower": "it changes what an unmet need says of who keeps the GPUs, and no replica",
    "lender": "it changes in whose name a loan is booked (17), and no replica while the loan lasts",
    "lending": "a replica lent a moment before it is called home is a start lost, which no rule here forbids",
    "sudden": "the guard asks for 1,000 models here: of two to five any calm would look like an outage",
    "disruption": "Karpenter's pods end at once here, and ask anew as pods that wait, whatever their end is called",
    "rollout": "a pod asked for while a rollout hangs has the template here that never becomes Ready",
    "deadline": "no model here is batch work with a deadline: `tests.planning.test_scenarios_deadline` judges it",
    "owed": "flapping is a rate over hours: `tests.sim.constant` judges it, a history ends after minutes",
}
# Where memory is made again from the journal, no start holds back and none reads its writes.
PLAYS: dict[str, Callable[[History], Played]] = {
    "apart": play_apart,
    "restart": play_restarted,
    "restart holds nothing back": play_without_cycles,
    "restart reads no writes": play_without_cycles,
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
            return f"{what}{self.steps:7} steps  NOT FOUND  {_unseen(self.mutant)}".rstrip()
        return f"{what}{self.steps:7} steps  seed {self.seed}: {self.verdict}"


def undo(mutant: Mutant, most_steps: int = MOST_STEPS) -> Undone:
    """Play histories with the patch until one breaks that does not break without."""
    number, deeds = NUMBERS.get(mutant.guard, ("", ()))
    names = [*deeds, TRAFFIC] if deeds else list(DEEDS)
    playing = PLAYS.get(str(mutant), PLAYS.get(mutant.guard, play))
    steps = 0
    for seed in count(1):
        cooked = COOKED.get(str(mutant), COOKED.get(mutant.guard, ())) if seed % COOKED_OF else ()
        history = a_history(seed, apart=playing is play_apart, names=names, cooked=cooked)
        found = _with(mutant, history, playing)
        steps += found.steps
        if found.verdict is not None and playing(history).verdict is None:
            return Undone(number, mutant, steps, seed, found.verdict)
        if steps >= most_steps:
            break
    return Undone(number, mutant, steps)


def _with(mutant: Mutant, history: History, playing: Callable[[History], Played]) -> Played:
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        return playing(history)


def _unseen(mutant: Mutant) -> str:
    return UNSEEN.get(str(mutant), UNSEEN.get(mutant.guard, ""))


def table(mutants: Iterable[Mutant], most_steps: int = MOST_STEPS) -> Iterator[Undone]:
    """A row per mutant, as they come; where truth sees nothing, nothing is played."""
    for mutant in mutants:
        if _unseen(mutant):
            yield Undone(NUMBERS.get(mutant.guard, ("", ()))[0], mutant, 0)
        else:
            yield undo(mutant, most_steps)


def main() -> int:
    """Print the table; 1 when an undone rule was not found that should have been."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine.undone", description=__doc__)
    parser.add_argument("--steps", type=int, default=MOST_STEPS, help="at most so many a row")
    parser.add_argument("--only", action="append", default=[], metavar="RULE", help="rows of this rule, or one row")
    options = parser.parse_args()
    be_quiet()
    missed = 0
    chosen = [one for one in (*TWINS, *WHOLES, *RULES) if not options.only or {one.guard, str(one)} & {*options.only}]
    for row in table(chosen, options.steps):
        missed += row.verdict is None and not _unseen(row.mutant)
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
