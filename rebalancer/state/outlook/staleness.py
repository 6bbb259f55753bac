"""Which models need a new curve: it depends on its own model alone, and most change little in ten seconds."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalancer.state.outlook.past import F64, I64
from rebalancer.state.outlook.rule import KEPT_LEVEL, KEPT_SECONDS, SHIFT_LEAST


class Glance(NamedTuple):
    """The figures from which curves are made, (models,) each.

    ready: replicas that serve.
    starting: replicas that start.
    backlog: replica-seconds of work that waits.
    level: offered work that is expected on average, in replicas.
    shift: probability that the level has shifted, 0-1.
    at: the second of the look, 0: never.
    """

    ready: I64
    starting: I64
    backlog: F64
    level: F64
    shift: F64
    at: I64


def stale(then: Glance, now: Glance, turn: I64, every_seconds: int) -> NDArray[np.bool_]:
    """Which models want a new curve, (models,).

    `turn`: a fixed number of each model, the same for those that are best renewed together; beside what has changed,
    each model's curve is renewed once a minute, some models in every plan of `every_seconds`, so that no plan has to
    renew all of them.
    """
    moved = (then.ready != now.ready) | (then.starting != now.starting)
    risen = np.abs(now.level - then.level) >= KEPT_LEVEL * np.sqrt(now.level)
    piled = np.abs(now.backlog - then.backlog) >= np.maximum(now.ready, 1)
    shifts = np.maximum(then.shift, now.shift) >= SHIFT_LEAST
    plans = max(1, KEPT_SECONDS // every_seconds)
    plan = now.at // every_seconds
    its_turn = ((plan + turn) % plans == 0) & (then.at // every_seconds != plan)
    wanted: NDArray[np.bool_] = moved | risen | piled | shifts | its_turn | (now.at - then.at >= KEPT_SECONDS)
    return wanted
