"""What an operator chooses when Kueue rations the replicas that KEDA asks for."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, get_args

from rebalancer.sim.peers.kueue.quota import QueueQuota
from rebalancer.sim.scenario import Scenario, ScenarioModel

Signal = Literal["work", "gpu-util", "kv-queue"]
Nominal = Literal["equal", "owned", "demand", "half", "floors"]
Sharing = Literal["first-come", "fair", "weighted"]
Borrowing = Literal["never", "lower"]
Limits = Literal["none", "lend-half", "borrow-half", "borrow-once"]
Window = Literal["300", "60"]


@dataclass(frozen=True, slots=True)
class KueueSettings:
    """What the operator chooses, with the guide's choices as defaults.

    signal: what KEDA looks at: the `work` that arrives, `gpu-util`, or KV use and waiting requests (`kv-queue`).
    nominal: how the GPUs are dealt to the queues: `equal` parts; as each model begins (`owned`); by the mean `demand`
        of the day that is played, which nobody knows beforehand: in its favour; `half` of what equal parts give beyond
        the floors; or the `floors` alone. What is left is the cohort's.
    sharing: no fair sharing (`first-come`), or fair sharing with equal weights (`fair`) or with the models' priorities
        as weights (`weighted`).
    borrowing: `borrowWithinCohort`, with the models' priorities as their classes: lower priorities are preempted by who
        borrows (`lower`), or not (`never`).
    limits: half of the nominal quota may be lent (`lend-half`); half of it (`borrow-half`), or as much again
        (`borrow-once`), may be borrowed; or there are no limits (`none`).
    window: seconds that KEDA looks back on its way down, as text.
    """

    signal: Signal = "work"
    nominal: Nominal = "equal"
    sharing: Sharing = "first-come"
    borrowing: Borrowing = "never"
    limits: Limits = "none"
    window: Window = "300"

    @property
    def name(self) -> str:
        """The signal, and what differs from the guide: `work+floors+fair`."""
        words = (self.nominal, self.sharing, self.borrowing, self.limits, self.window)
        usual = (USUAL.nominal, USUAL.sharing, USUAL.borrowing, USUAL.limits, USUAL.window)
        return "+".join([self.signal, *(word for word, same in zip(words, usual, strict=True) if word != same)])


USUAL = KueueSettings()


def every() -> Iterator[KueueSettings]:
    """All that may be chosen."""
    kinds = (Signal, Nominal, Sharing, Borrowing, Limits, Window)
    return (KueueSettings(*words) for words in product(*(get_args(kind) for kind in kinds)))


def other_nominal(of: KueueSettings) -> list[KueueSettings]:
    """The same with quotas dealt otherwise; the other knobs likewise."""
    return [replace(of, nominal=nominal) for nominal in get_args(Nominal) if nominal != of.nominal]


def other_sharing(of: KueueSettings) -> list[KueueSettings]:
    """With fair sharing, or without."""
    return [replace(of, sharing=sharing) for sharing in get_args(Sharing) if sharing != of.sharing]


def other_window(of: KueueSettings) -> list[KueueSettings]:
    """Quicker on the way down, or slower."""
    return [replace(of, window=window) for window in get_args(Window) if window != of.window]


def other_borrowing(of: KueueSettings) -> list[KueueSettings]:
    """Taking from lower priorities while borrowing, or not."""
    return [replace(of, borrowing=borrowing) for borrowing in get_args(Borrowing) if borrowing != of.borrowing]


def other_limits(of: KueueSettings) -> list[KueueSettings]:
    """Other limits of lending and borrowing."""
    return [replace(of, limits=limits) for limits in get_args(Limits) if limits != of.limits]


KNOBS = (other_nominal, other_sharing, other_window, other_borrowing, other_limits)  # what matters most first


def queues(scenario: Scenario, settings: KueueSettings) -> tuple[list[QueueQuota], float]:
    """The models' ClusterQueues, and what is left to the cohort.

    All GPUs that there can be at a time are dealt, those of machines that may go and of nodes to be brought included:
    quotas do not follow machines.
    """
    gpus = _gpus(scenario)
    nominal = _dealt(scenario.models, gpus, settings.nominal)
    by_model = [
        QueueQuota(
            quota,
            borrowing_limit={"borrow-half": quota / 2, "borrow-once": quota}.get(settings.limits),
            lending_limit=quota / 2 if settings.limits == "lend-half" else None,
            while_borrowing=settings.borrowing == "lower",
            weight=model.priority if settings.sharing == "weighted" else 1.0,
        )
        for model, quota in zip(scenario.models, nominal, strict=True)
    ]
    return by_model, gpus - sum(nominal)


def _gpus(scenario: Scenario) -> int:
    most = list(scenario.nodes)
    for change in scenario.changes:
        most[change.node] = max(most[change.node], change.gpus)
    return sum(most) + (scenario.launches.gpus * scenario.launches.most if scenario.launches else 0)


def _dealt(models: tuple[ScenarioModel, ...], gpus: int, how: Nominal) -> list[int]:
    """GPUs by model: its floor, then replica by replica whoever is furthest below its part."""
    dealt = [model.floor * model.gpus for model in models]
    left = 0 if how == "floors" else gpus - sum(dealt)
    if how == "half":
        left //= 2
    parts = _parts(models, how)
    while True:
        below = {index: parts[index] * gpus - dealt[index] for index, model in enumerate(models) if model.gpus <= left}
        index = max(below, key=lambda each: below[each], default=None)
        if index is None:
            return dealt
        dealt[index] += models[index].gpus
        left -= models[index].gpus


def _parts(models: tuple[ScenarioModel, ...], how: Nominal) -> list[float]:
    match how:
        case "owned":
            weights = [float(model.first * model.gpus) for model in models]
        case "demand":
            weights = [float(model.work.mean()) * model.gpus for model in models]
        case _:
            weights = [1.0] * len(models)
    return [each / sum(weights) for each in weights]
