"""What a rebalancer wrote to and nobody moves as it should, in words: what is so, and what to do about it."""

from collections.abc import Iterator
from typing import NamedTuple

from rebalancer.api.ports.status import Status
from rebalancer.api.text.words import counted, printable, some
from rebalancer.domain.pinned import DEPARTED, HELD, OTHER, UNNAMED, Pinned

DEFAULT_INSTALLATION = "rebalancer/rebalancer"  # what `hand-back` means when it is told nothing


class PinnedText(NamedTuple):
    """Half a sentence each."""

    what: str
    todo: str


def said_pinned(status: Status) -> Iterator[PinnedText]:
    """One per kind of trouble, what a command ends first."""
    named = "" if status.installation in {"", DEFAULT_INSTALLATION} else f" --installation {status.installation}"
    hand_back = f"run rebalancer hand-back{named}"
    of = {state: [each for each in status.pinned if each.state == state] for state in (HELD, DEPARTED, UNNAMED, OTHER)}
    acts = status.write_mode == "act"
    if not acts and (still := sorted(of[HELD] + of[DEPARTED])):
        yield PinnedText(
            f"bounds or limits of ours are still on {_objects(still)}: KEDA cannot move past them", hand_back
        )
    if of[UNNAMED]:
        what = f"bounds or limits of no installation by name are on {_objects(of[UNNAMED])}, not in the policy"
        yield PinnedText(what, f"{hand_back} --unnamed")
    if of[OTHER]:
        others = some(sorted({each.by for each in of[OTHER]}))
        what = f"installation {others} holds {_objects(of[OTHER])} of our policy: nothing is written there"
        yield PinnedText(printable(what), "take them out of one of the two policies")
    if acts and of[DEPARTED]:
        what = f"bounds or limits of ours are on {_objects(of[DEPARTED])}, not in the policy: they are given back"
        yield PinnedText(what, "where that lasts, the service's log says why")


def _objects(pinned: list[Pinned]) -> str:
    """`2 objects (scaledobject/serving/a, nodepool/spot)`."""
    return printable(f"{counted(len(pinned), 'object')} ({some([str(each) for each in pinned])})")
