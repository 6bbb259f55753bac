"""llm-d's Workload Variant Autoscaler, V1: one replica more or less of a model by the spare its replicas report.

From `internal/saturation/analyzer.go` and `internal/engines/pipeline/greedy_saturation_algorithm.go` of
llm-d/llm-d-workload-variant-autoscaler at b08b1c7.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rebalancer.sim.controller import Seen
from rebalancer.sim.peers import engine

PEAK_SECONDS = 60  # both metrics are read as their maximum over the last minute


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds for a saturated replica, and for the spare of the others, with the project's defaults.

    kv: KV use, 0-1, from which on a replica is saturated.
    queue: waiting requests from which on a replica is saturated.
    spare_kv: KV use, 0-1, that must be left below `kv`, as a mean over the replicas that are not saturated; with less
        the model grows.
    spare_queue: waiting requests that must be left below `queue` in the same way.
    """

    kv: float = 0.80
    queue: float = 5.0
    spare_kv: float = 0.10
    spare_queue: float = 3.0


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """What one replica reports.

    variant: name of its variant.
    kv: its KV use, 0-1.
    queue: requests that wait there.
    cost: cost of one replica of its variant, in any unit: costs are only compared.
    """

    variant: str
    kv: float
    queue: float
    cost: float = 1.0


@dataclass(frozen=True, slots=True)
class VariantLoad:
    """A variant's replicas that report.

    name: name of the variant.
    replicas: replicas that report.
    saturated: how many of these are saturated.
    cost: cost of one of its replicas, in any unit: costs are only compared.
    """

    name: str
    replicas: int
    saturated: int = 0
    cost: float = 1.0


@dataclass(frozen=True, slots=True)
class Analysis:
    """A model over all its variants. Spares are means over the replicas that are not saturated.

    variants: the variants whose replicas report, by name.
    replicas: replicas that report.
    unsaturated: how many of these are not saturated.
    spare_kv: KV use, 0-1, that is left to the threshold; 0 where all replicas are saturated.
    spare_queue: waiting requests that are left to the threshold; 0 where all replicas are saturated.
    grow: whether the model needs a replica more.
    may_shrink: whether both spares would still be large enough with a replica less.
    """

    variants: tuple[VariantLoad, ...] = ()
    replicas: int = 0
    unsaturated: int = 0
    spare_kv: float = 0.0
    spare_queue: float = 0.0
    grow: bool = False
    may_shrink: bool = False


@dataclass(frozen=True, slots=True)
class VariantState:
    """Replicas that a variant has, and those that were last decided for it (0: none yet)."""

    name: str
    current: int
    desired: int = 0


@dataclass(slots=True)
class Wish:
    """What a variant was decided to get, and what the limiter made of it.

    name: name of the variant.
    current: replicas that it has.
    target: replicas that it was decided to get; after `limit` those that it does get.
    spare: spare KV use of its model, 0-1; the least spare is served first.
    cost: cost of one of its replicas, in any unit; of equal spares the cheaper one is served first.
    gpus: GPUs of one replica; 0 counts as 1.
    least: the least number of replicas that an increase leads to, GPUs or not; None where there is no bound.
    most: the largest number of replicas that GPUs are handed out for, None where there is no bound.
    gpus_granted: GPUs that were handed out to its increase.
    limited: whether there were too few GPUs for its whole increase.
    """

    name: str
    current: int
    target: int
    spare: float
    cost: float = 1.0
    gpus: int = 1
    least: int | None = None
    most: int | None = None
    gpus_granted: int = 0
    limited: bool = False


def analyse(loads: Sequence[ReplicaLoad], limits: Thresholds) -> Analysis:
    """Whether a model needs a replica more, or could spare one: the load of N on N - 1 leaves both spares."""
    if not loads:
        return Analysis()
    easy = [load for load in loads if load.kv < limits.kv and load.queue < limits.queue]
    spare_kv = sum(limits.kv - load.kv for load in easy) / len(easy) if easy else 0.0
    spare_queue = sum(limits.queue - load.queue for load in easy) / len(easy) if easy else 0.0
    return Analysis(
        variants=tuple(_variant(name, loads, easy) for name in sorted({load.variant for load in loads})),
        replicas=len(loads),
        unsaturated=len(easy),
        spare_kv=spare_kv,
        spare_queue=spare_queue,
        grow=spare_kv < limits.spare_kv or spare_queue < limits.spare_queue,
        may_shrink=len(easy) > 1
        and _spare_with_one_less(limits.kv, spare_kv, len(easy)) >= limits.spare_kv
        and _spare_with_one_less(limits.queue, spare_queue, len(easy)) >= limits.spare_queue,
    )


def _spare_with_one_less(limit: float, spare: float, replicas: int) -> float:
    return limit - (limit - spare) * replicas / (replicas - 1)


def _variant(name: str, loads: Sequence[ReplicaLoad], easy: Sequence[ReplicaLoad]) -> VariantLoad:
    own = [load for load in loads if load.variant == name]
    return VariantLoad(name, len(own), len(own) - sum(load.variant == name for load in easy), own[0].cost)


def targets(analysis: Analysis, states: Sequence[VariantState]) -> dict[str, int]:
    """Replicas by variant: +1 on the cheapest, -1 on the dearest above one, nothing while the model is in transition.

    In transition: some variant has other replicas than decided, or than report.
    """
    by_name = {state.name: state for state in states}
    if not analysis.variants:
        return {state.name: state.current for state in states}
    pairs = [(variant, by_name[variant.name]) for variant in analysis.variants]
    if any(_moving(state) or variant.replicas != state.current for variant, state in pairs):
        return {state.name: state.desired if _moving(state) else state.current for _, state in pairs}
    wanted = {variant.name: variant.replicas for variant in analysis.variants}
    if analysis.grow:
        cheapest = min(analysis.variants, key=lambda variant: (variant.cost, variant.name))
        wanted[cheapest.name] += 1
    elif analysis.may_shrink:
        above_one = [variant for variant in analysis.variants if variant.replicas > 1]
        if above_one:
            dearest = max(above_one, key=lambda variant: (variant.cost, variant.name))
            wanted[dearest.name] -= 1
    return wanted


def _moving(state: VariantState) -> bool:
    return state.desired not in {0, state.current}


def limit(wishes: Sequence[Wish], free_gpus: int) -> int:
    """Hand free GPUs to increases, least spare first, then cheapest, in whole replicas; returns the GPUs left over.

    GPUs too few for one replica are lost to those behind, as the project's allocator takes what it can. `least` holds
    even without GPUs.
    """
    for wish in sorted(wishes, key=lambda wish: (wish.spare, wish.cost)):
        more = min(wish.target, wish.most or wish.target) - wish.current
        if more <= 0:
            continue
        gpus = max(1, wish.gpus)
        taken = min(more * gpus, free_gpus)
        free_gpus -= taken
        granted = taken // gpus
        wish.gpus_granted, wish.limited = granted * gpus, granted < more
        wish.target = max(wish.current + granted, wish.least or 0)
    return free_gpus


class Wva:
    """A controller: every model one variant, equal replicas; every `every_seconds` (its default is 60)."""

    def __init__(self, limits: Thresholds | None = None, every_seconds: int = 60) -> None:
        self.every_seconds = every_seconds
        self._limits = limits or Thresholds()

    def decide(self, seen: Seen) -> list[int]:
        """Replicas asked for, by model, floors and ceilings kept; increases only as far as GPUs are free."""
        models = seen.scenario.models
        wishes = [self._wish(index, seen) for index in range(len(models))]
        used = sum(replicas * model.gpus for replicas, model in zip(seen.desired, models, strict=True))
        limit(wishes, seen.scenario.gpus - used)
        return [min(max(wish.target, model.floor), model.most) for wish, model in zip(wishes, models, strict=True)]

    def _wish(self, index: int, seen: Seen) -> Wish:
        model, replicas = seen.scenario.models[index], seen.desired[index]
        peak = engine.peak(seen, index, PEAK_SECONDS)
        loads = [ReplicaLoad(model.name, *peak)] * seen.ready[index] if peak else []
        analysis = analyse(loads, self._limits)
        target = targets(analysis, [VariantState(model.name, replicas)])[model.name]
        return Wish(model.name, replicas, target, analysis.spare_kv, gpus=model.gpus)
