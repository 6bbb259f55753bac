"""What a trap is: something that many do, that looks right, and that hurts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rebalancer.survey.case import Case
from rebalancer.survey.objects import Object


class Verdict(NamedTuple):
    """One object that a trap was looked for in. `problem`: one sentence, "" when it is not in it; `fix`: what to do."""

    about: Object
    problem: str = ""
    fix: str = ""


def found_if(there: bool, about: Object, problem: str, fix: str) -> Verdict:  # noqa: FBT001 - reads as an if
    """The verdict on `about`: `problem` and `fix` where the trap is `there`."""
    return Verdict(about, problem, fix) if there else Verdict(about)


Look = Callable[[Case], Iterator[Verdict]]
"""Looks for one trap: a verdict for each object that can have it, the good ones too. Pure."""


@dataclass(frozen=True)
class Trap:
    """A trap as the page about them has it.

    key: its name, and its anchor in the page.
    state: what a find counts as, WARN or FAIL. FAIL: it does harm, or is refused, as it stands.
    why: one sentence that holds for every find.
    fix: what to do, in general.
    look: finds it.
    """

    key: str
    state: str
    why: str
    fix: str
    look: Look
