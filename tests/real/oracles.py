"""Promises judged by the audit log alone: floors, budget and a guard's window, over everything the service wrote."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tests.real.occupancy import Pods, scaled
from tests.testbed.audit import Write

# A write reaches the API server a little after the instant at which the service counted it; while Kafka is slow to
# acknowledge its intent, up to this.
WRITTEN_WITHIN_SECONDS = 1.0


@dataclass(frozen=True)
class Step:
    """One successful write to `/scale`: `model` asked for `before` replicas, now for `after`."""

    at: float
    model: str
    before: int
    after: int

    @property
    def lost(self) -> int:
        return max(0, self.before - self.after)


def steps(writes: Iterable[Write], replicas: Mapping[str, int]) -> list[Step]:
    """All of them in order; `replicas` is what each model asked for before the first."""
    writes = list(writes)
    found = []
    for model, first in replicas.items():
        before = first
        for at, after in scaled(writes, model):
            found.append(Step(at, model, before, after))
            before = after
    return sorted(found, key=lambda step: step.at)


def below_floor(taken: Iterable[Step], floors: Mapping[str, int]) -> list[Step]:
    """Writes that ask for less than a floor."""
    return [step for step in taken if step.after < floors[step.model]]


def over_budget(taken: Iterable[Step], replicas: Mapping[str, int], pods: Pods, gpus: int) -> list[str]:
    """Raises after which more than `gpus` pods of 1 GPU are there or asked for; pods on their way out count."""
    asked = dict(replicas)
    found = []
    for step in taken:
        asked[step.model] = step.after
        promised = {model: max(count, pods.at(step.at, f"{model}-")) for model, count in asked.items()}
        if step.after > step.before and sum(promised.values()) > gpus:
            found.append(f"{step}: {promised} is more than {gpus}")
    return found


def over_share(
    taken: Iterable[Step], model: str, kept: Callable[[Step], int], floor: int, share: float, window_seconds: float
) -> list[str]:
    """Losses below `kept` replicas beyond max(1, share of what was held above the floor) in any window.

    Above `kept` replicas go without asking this guard: they are borrowed, or more than the model needs now.
    """
    mine = [step for step in taken if step.model == model and step.lost]
    found = []
    for number, step in enumerate(mine):
        since = step.at - window_seconds + WRITTEN_WITHIN_SECONDS
        window = [each for each in mine[: number + 1] if each.at > since]
        lost = [max(0, min(each.before, kept(each)) - each.after) for each in window]
        most = max(1, math.floor(share * (sum(lost[:-1]) + step.before - floor)))
        if sum(lost) > most:
            found.append(f"{step}: {sum(lost)} lost in {window_seconds:g} s, {most} may be")
    return found
