"""What a start takes beyond its twin that was not restarted: of each model, cycle by cycle."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

HELD_STEPS = 13  # of 5 s, the first cycles: the next one is 70 s after the start, and what votes let go waits no more
BESIDE_STEPS = 2  # of 5 s: a planning period
AHEAD_STEPS = 8  # of 5 s: a planning period and a cooldown of the class `interactive`, as all models here are


class SinceStart(NamedTuple):
    """Of each model, after a cycle: serving replicas that were taken since the start, and what serves still.

    `needed`: how many it needs where no more count, since a start that knows no cycles may let the others go.
    """

    taken: Counter[str]
    serving: Counter[str]
    needed: Counter[str] | None = None


def beyond(sides: Sequence[tuple[SinceStart, SinceStart]]) -> Counter[str]:
    """Replicas that a start takes in a cycle and its twin does not, of models that then serve with fewer than there.

    `sides`: start and twin after each cycle since the start. Models count as a whole: a twin that gave a GPU of one
    pool to somebody has spared the one of another pool that goes as surplus here. And by what they serve with as it
    goes: what the twin withdrew while it loaded may serve here, since a start holds back, and goes later. While it
    holds back it takes nothing sooner than its twin, but by a planning period: rings that differ by 0.1 %
    (`docs/restart.md`) may bring what is on a boundary one plan earlier. Afterwards its demand may fall as much sooner
    as a write of the twin after the start made the twin's cooldown begin anew: a cooldown, and the plan in which it
    ends.
    """
    now = len(sides) - 1
    at = now - (BESIDE_STEPS if now < HELD_STEPS else AHEAD_STEPS)
    if at < 0:
        return Counter()
    mine, then = sides[at]
    _, its = sides[now]
    just = mine.taken - sides[at - 1][0].taken if at > 0 else mine.taken
    more = (mine.taken - its.taken) & (then.serving - mine.serving)
    if mine.needed is not None:
        more &= mine.needed - mine.serving
    return Counter({model: replicas for model, replicas in more.items() if just[model]})
