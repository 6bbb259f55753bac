"""Promises judged by the audit log alone: floors, budget and a guard's window, over everything the service wrote."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rebalancer.act.originals import ANNOTATION as ORIGINALS
from tests.real.occupancy import Pods, bounded, scaled
from tests.testbed.audit import Write

# A write reaches the API server a little after the instant at which the service counted it; while Kafka is slow to
# acknowledge its intent, up to this.
WRITTEN_WITHIN_SECONDS = 1.0


@dataclass(frozen=True)
class Step:
    """One successful write to a number of replicas: `model` asked for `before`, now for `after`."""

    at: float
    model: str
    before: int
    after: int

    @property
    def lost(self) -> int:
        return max(0, self.before - self.after)


def steps(
    writes: Iterable[Write],
    replicas: Mapping[str, int],
    asked: Callable[[Iterable[Write], str], list[tuple[float, int]]] = scaled,
) -> list[Step]:
    """All of them in order; `replicas` is what each model asked for before the first."""
    writes = list(writes)
    found = []
    for model, first in replicas.items():
        before = first
        for at, after in asked(writes, model):
            found.append(Step(at, model, before, after))
            before = after
    return sorted(found, key=lambda step: step.at)


def least_asked(writes: Iterable[Write], name: str) -> list[tuple[float, int]]:
    """As `scaled`, with the lower bounds of an HPA that we hold."""
    writes = list(writes)
    return sorted([*scaled(writes, name), *((at, low) for at, low, _ in _held(writes, name))])


def most_asked(writes: Iterable[Write], name: str) -> list[tuple[float, int]]:
    """As `scaled`, with the upper bounds of an HPA that we hold."""
    writes = list(writes)
    return sorted([*scaled(writes, name), *((at, high) for at, _, high in _held(writes, name))])


def _held(writes: Iterable[Write], name: str) -> list[tuple[float, int, int]]:
    """Bounds that it was given while it carried our mark: without that its own came back."""
    ours = [write for write in writes if ORIGINALS in write.response.get("metadata", {}).get("annotations", {})]
    return bounded(ours, name, "horizontalpodautoscalers")


def below_floor(taken: Iterable[Step], floors: Mapping[str, int]) -> list[Step]:
    """Writes that ask for less than a floor."""
    return [step for step in taken if step.after < floors[step.model]]


def over_budget(
    taken: Iterable[Step], replicas: Mapping[str, int], pods: Pods, gpus: int | Callable[[float], int]
) -> list[str]:
    """Raises after which more than `gpus` (at the instant) pods of 1 GPU are there or asked for.

    Pods on their way out count; those whose Node is gone do not, and are made anew once somebody ends them.
    """
    asked = dict(replicas)
    found = []
    for step in taken:
        asked[step.model] = step.after
        promised = {
            model: max(count - pods.ghosts(step.at, f"{model}-"), pods.at(step.at, f"{model}-"))
            for model, count in asked.items()
        }
        most = gpus(step.at) if callable(gpus) else gpus
        if step.after > step.before and sum(promised.values()) > most:
            found.append(f"{step}: {promised} is more than {most}")
    return found


def unserved(taken: Iterable[Step], floors: Mapping[str, int], pods: Pods) -> list[str]:
    """Ready pods that went by a decrease of ours though fewer than the floor were left, on nodes that are there.

    A decrease is the last thing that we asked of a model before a ReplicaSet ended its pod.
    """
    taken, found = list(taken), []
    for name, (at, user) in pods.ended.items():
        for model, floor in floors.items():
            last = [step for step in taken if step.model == model and step.at <= at][-1:]
            left = len(pods.serving(at, f"{model}-"))
            if name in pods.serving(at - 0.001, f"{model}-") and left < floor and last and last[0].lost:
                found.append(f"{last[0]}: {user} ended {name}, {left} of {model} serve, and its floor is {floor}")
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
