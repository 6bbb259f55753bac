"""What makes a rule decisive, as an order of deeds with its timing: chance alone rarely meets two of them in a minute.

Histories draw from all of it, `undone` from what its rows name. Each recipe is random still: which node, which model,
how long, how many steps between.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

from tests.machine.deeds import LATE, Deed

ALL = (0.0, 1.0)
NOTHING = "nothing"


class Turn(NamedTuple):
    """One deed so many steps after the one before.

    `of`: turns with the same number hit the same thing. `x`, `y`: within which bounds a deed's numbers are drawn.
    """

    name: str
    after: tuple[int, int] = (0, 0)
    y: tuple[float, float] = ALL
    of: int = 0
    x: tuple[float, float] = ALL


BUSY = Turn("everybody is busy", y=(0.7, 1.0), of=9)
# One borrows what another leaves, then the owner's users come back: GPUs go home.
LOAN = (BUSY, Turn("traffic changes", (0, 0), (0.08, 0.2), 5), Turn("traffic changes", (18, 26), (0.9, 1.0), 5))
FIGHT = (
    Turn("somebody writes once", y=(0.34, 0.66), of=1),
    Turn("somebody writes once", (2, 4), (0.67, 1.0), of=1),
)
_LEAVES = (0.48, 0.4899)  # of `policy is reloaded`: a model leaves
_WITHOUT_CYCLES = (0.0, 0.1499)  # of `service restarts`: on another node, and no cycle in Kafka
_LIMIT_FALLS = (0.55, 0.5599)  # a pool's limit is lowered to what its models own

RECIPES: dict[str, tuple[Turn, ...]] = {
    "devices gone for long": (BUSY, Turn("device plugin drops", (4, 26), (0.75, 1.0))),
    "devices gone for good": (BUSY, Turn("fewer devices", (4, 26), (0.5, 1.0))),
    "all devices gone": (Turn("all device plugins drop", (1, 10), (0.5, 1.0)),),
    "machine starts anew": (
        BUSY,
        Turn("node falls silent", (4, 26), (0.5, 1.0)),
        Turn("device plugin drops", (9, 14), (0.6, 1.0)),
    ),
    "dead for minutes": (BUSY, Turn("node falls silent", (2, 10), (0.85, 1.0)), Turn(NOTHING, (66, 66))),
    "dead under a loan": (
        *LOAN[:2],
        Turn("node falls silent", (18, 24), (0.85, 1.0), 3),
        Turn(NOTHING, (66, 66)),
    ),
    "gone under the owner": (
        BUSY,
        Turn("traffic changes", (1, 6), (0.08, 0.3), 1),
        Turn("node goes before its pods", (14, 18), (0.85, 1.0)),
        Turn("traffic changes", (0, 3), (0.9, 1.0), 1),
    ),
    "scaled by hand": (BUSY, Turn("somebody writes once", (4, 26), (0.34, 0.66))),
    "fought upwards": (
        BUSY,
        Turn("somebody writes once", (4, 12), (0.34, 0.66), 1),
        Turn("somebody writes once", (2, 4), (0.34, 0.66), 1),
        Turn(NOTHING, (8, 8)),
    ),
    "a hundred by hand": (BUSY, Turn("somebody writes once", (4, 26), (0.0, 0.33))),
    "asleep for good": (*LOAN[:2], Turn("somebody scales to zero", (18, 24), (0.7, 1.0)), Turn(NOTHING, (10, 10))),
    "template of twice the GPUs": (BUSY, Turn("template changes GPUs", (4, 26), (0.6, 1.0))),
    "mistaken policy": (BUSY, Turn(NOTHING, (20, 20))),
    "hung rollout under notice": (
        BUSY,
        Turn("rollout hangs", (2, 10), (0.8, 1.0)),
        Turn("machine is taken", (2, 12), (0.3, 0.7)),
        Turn(NOTHING, (60, 66)),
    ),
    "home under notice": (*LOAN[:2], Turn("machine is taken", (8, 16), (0.3, 0.8)), LOAN[2]),
    "notice without marks": (BUSY, Turn("machine is taken", (2, 10), (0.3, 0.9))),
    "notice": (BUSY, Turn("machine is taken", (2, 10), (0.3, 0.9))),
    "drift": (BUSY, Turn("Karpenter drains", (20, 40))),
    "loan": LOAN,
    "repaired": (*FIGHT, Turn("numbers are put back", (2, 4), of=1)),
    "repaired and needed": (
        *FIGHT,
        Turn("traffic changes", (0, 0), of=1),
        Turn("numbers are put back", (1, 3), of=1),
        Turn("everybody is busy", (0, 1)),
    ),
    "held elsewhere": (BUSY, Turn("another installation holds", (2, 12), (0.5, 1.0))),
    "stood up": (*FIGHT, Turn("person says stand-up", (1, 2), of=1), Turn(NOTHING, (6, 6))),
    "stood up and fought again": (
        *FIGHT,
        Turn("person says stand-up", (1, 2), of=1),
        Turn("somebody writes once", (3, 6), (0.34, 0.66), 1),
        Turn("everybody is busy", (0, 0)),
        Turn("somebody writes once", (2, 4), (0.67, 1.0), 1),
        Turn(NOTHING, (12, 12)),
    ),
    "fought under a wrong clock": (
        Turn("clock steps", (1, 4), (0.0, 0.4), 2, (0.5, 0.9)),
        Turn("somebody writes once", (1, 3), (0.34, 0.66), of=1),
        Turn("somebody writes once", (2, 4), (0.67, 1.0), of=1),
        Turn(NOTHING, (60, 60)),
    ),
    "leaves after it got a node": (
        BUSY,
        Turn("policy is reloaded", (6, 14), _LEAVES, 7),
        Turn("service restarts", (1, 3), (0.9, 1.0), x=_WITHOUT_CYCLES),
    ),
    "leaves between plan and write": (BUSY, Turn("policy is reloaded", (1, 20), _LEAVES)),
    "leaves the policy": (BUSY, Turn("policy is reloaded", (4, 12), _LEAVES), Turn(NOTHING, (30, 40))),
    "others come first": (BUSY, Turn("others take GPUs", (1, 2), (0.6, 1.0), 3)),
    "node goes first": (BUSY, Turn("node goes before its pods", (1, 2), of=3)),
    "surplus beside the silent": (
        BUSY,
        Turn("node falls silent", (24, 32), (0.5, 1.0), 3, (0.0, 0.49)),
        Turn("everybody is busy", (0, 4), (0.0, 0.1), 9),
        Turn(NOTHING, (10, 10)),
    ),
    "restarted while a node comes": (BUSY, Turn("service restarts", (7, 12))),
    "node goes while GPUs go home": (*LOAN, Turn("node goes before its pods", (0, 2), of=3)),
    "restarted under notice": (
        BUSY,
        Turn("machine is taken", (2, 6), (0.3, 0.9)),
        Turn("service restarts", (7, 30)),
    ),
    "restarted in a fight": (
        *FIGHT,
        Turn("everybody is busy", (0, 0)),
        Turn("service restarts", (7, 12)),
        Turn("traffic changes", (0, 1), of=1),
    ),
    "restarted as demand fell": (
        BUSY,
        Turn("traffic changes", (14, 26), (0.08, 0.3), 1),
        Turn("service restarts", (2, 12)),
    ),
    "restarted as GPUs go home": (*LOAN, Turn("service restarts", (1, 8))),
    "restarted as a limit falls": (
        BUSY,
        Turn("policy is reloaded", (24, 36), _LIMIT_FALLS),
        Turn("service restarts", (2, 5)),
    ),
}
# Recipes that say something only where Karpenter brings nodes.
OF_KARPENTER = {
    "drift",
    "leaves after it got a node",
    "surplus beside the silent",
    "restarted while a node comes",
}
# Where each model has an autoscaler of this kind.
OWNERS = {"asleep for good": "hpa"}
# Where a machine takes longer to come than what is not there is believed.
SLOW_LAUNCHES = {"restarted while a node comes"}
SLOW_LAUNCH_SECONDS = 150.0
# Where a model may lose so little at a time that what it lost before a start binds for longer than a start holds back.
SLOW_STEPS = {"restarted as a limit falls"}
# Where the policy says one GPU of pods that hold two.
MISTAKEN = {"mistaken policy"}
# Where no pod is marked before others of its kind go.
WITHOUT_MARKS = {"notice without marks"}
# Recipes whose last deed comes between a plan that writes and its writes.
_LATE_AT_LAST = {
    "leaves between plan and write",
    "node goes while GPUs go home",
    "others come first",
    "node goes first",
}


def deeds(name: str, first_step: int, rng: random.Random) -> Iterator[Deed]:
    """The recipe's deeds from that step on."""
    step, ordered = first_step, RECIPES[name]
    things: dict[int, float] = {}
    for number, turn in enumerate(ordered, 1):
        step += rng.randint(*turn.after)
        x = things.setdefault(turn.of, rng.uniform(*turn.x))
        y = rng.uniform(*turn.y)
        late = number == len(ordered) and name in _LATE_AT_LAST and turn.name in LATE
        if turn.name != NOTHING:
            yield Deed(step, turn.name, x, y, late)


def turns(name: str) -> set[str]:
    """The deeds that it is made of."""
    return {turn.name for turn in RECIPES[name]} - {NOTHING}


def length(name: str) -> int:
    """Steps that the recipe may take."""
    return sum(turn.after[1] for turn in RECIPES[name])
