"""Outlooks written by hand: what every count of replicas costs a model, as a formula of its level that one can read.

`state` makes them from samples by replays; here `Shape` says how lateness falls with replicas, and the rest - priority,
the cost of a move, caution before a decrease, full use of a fixed budget - is as in `rebalancer.domain.outlook`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from rebalancer.domain.arithmetic import converging
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.snapshot import ModelView, Snapshot
from tests.builders import NOW, a_model

REACH = 6  # replicas up and down that a curve knows
HORIZON_SECONDS = 150  # a start of 60 s, and 90 s that it serves
SWITCHING, FULL_USE = 2.0, 1e-6


def smooth(level: float, count: int) -> float:
    """Late requests: all beyond what the replicas carry, and bursts that go over it; convex."""
    return 60.0 * max(0.0, level - count) + 20.0 * math.sqrt(level) * math.exp(-count / (1.0 + math.sqrt(level)))


def cliff(level: float, count: int) -> float:
    """A backlog that needs all its replicas: below level + 2 none of them helps; not convex."""
    return 90.0 * level if count < level + 2.0 else math.exp(-count)


def ladder(level: float, count: int) -> float:
    """Only every second replica helps; not convex."""
    return smooth(level, 2 * (count // 2))


def hopeless(level: float, count: int) -> float:
    """Ten times as much as the GPUs there are could do: every replica saves a little, for ever."""
    return 1000.0 + 600.0 * level - 30.0 * count


SHAPES: dict[str, Callable[[float, int], float]] = {
    "smooth": smooth, "cliff": cliff, "ladder": ladder, "hopeless": hopeless
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """How lateness falls with replicas. `caution`: late requests per replica that a decrease must save."""

    kind: str = "smooth"
    caution: float = 0.0

    def late(self, level: float, count: int) -> float:
        return SHAPES[self.kind](level, count)


def an_outlook(
    late: Mapping[int, float], current: int, model: Model | None = None, caution: float = 0.0, **overrides: object
) -> Outlook:
    """The outlook of a model with `current` replicas and `late` requests by count of replicas."""
    weight = (model or a_model()).priority / 100
    counts = sorted(late)
    assert counts == list(range(counts[0], counts[-1] + 1)), "every count has its cost"
    values = [
        round(
            weight * late[count]
            + weight * SWITCHING / 2 * abs(count - current)
            + weight * caution * max(0, current - count)
            - FULL_USE * count,
            6,
        )
        for count in counts
    ]
    level = 1.0
    found = Outlook(
        at=NOW,
        horizon_seconds=HORIZON_SECONDS,
        current=current,
        least=counts[0],
        values=tuple(values),
        late=tuple(round(late[count], 6) for count in counts),
        errors=(0.0,) * len(counts),
        level=level,
        base=level,
        dispersion=1.0,
        shift=0.0,
        shifted=level,
        excess=0.0,
        replays=30,
        period_seconds=0,
        rho=0.0,
        work_of_one=1.0,
        error=0.2,
        plain_error=0.3,
    )
    return replace(found, **overrides)


def look(snapshot: Snapshot, policy: Policy, levels: Mapping[str, float], shapes: Mapping[str, Shape]) -> Snapshot:
    """The snapshot with an outlook for every model that has a shape; of one that nobody sees any more it is old."""
    views = {view.id: view for view in snapshot.models}
    models = {model.id: model for model in policy.models}
    doomed = {notice.node for notice in snapshot.notices}
    loads = tuple(
        replace(
            load,
            outlook=_outlook_of(
                models[load.model], _current(views[load.model], doomed), levels.get(load.model, 1.0), shape
            )
            if (shape := shapes.get(load.model)) is not None
            else None,
        )
        for load in snapshot.loads
    )
    return replace(snapshot, loads=loads)


def _outlook_of(model: Model, current: int, level: float, shape: Shape) -> Outlook:
    least = max(model.min_replicas, min(current, model.max_replicas) - REACH)
    most = max(least, min(current + REACH, model.max_replicas))
    late = {count: shape.late(level, count) for count in range(least, most + 1)}
    return an_outlook(late, current, model, shape.caution, level=level, base=level, shifted=level)


def _current(view: ModelView, doomed: set[str]) -> int:
    """What its targets go to, without the pods on nodes that go."""
    return sum(
        max(0, converging(target) - sum(pod.node in doomed and pod.phase != "terminating" for pod in target.pods))
        for target in view.targets
        if not target.missing
    )
