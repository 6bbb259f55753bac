"""AIBrix's APA: proportional to a metric per replica, with tolerances, a step limit, and what its controller adds.

From `pkg/controller/podautoscaler` of vllm-project/aibrix: `algorithm/apa.go`, the guard for pending replicas of
`autoscaler.go`, and the cooldown of `podautoscaler_controller.go`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Literal

from rebalancer.sim.controller import Seen
from rebalancer.sim.peers import engine

SYNC_SECONDS = 10


@dataclass(frozen=True, slots=True)
class ApaSettings:
    """Settings of a PodAutoscaler, with AIBrix's defaults.

    target: what the metric shall be per replica, in the metric's unit.
    up_tolerance: share of the target by which the metric may exceed it before replicas are added.
    down_tolerance: share of the target by which the metric may be below it before replicas go.
    max_up: factor by which one decision may multiply the replicas at most.
    max_down: factor by which one decision may divide the replicas at most.
    window_seconds: seconds over which the metric is averaged before it is compared with the target.
    down_window_seconds: seconds whose recommendations a decrease is chosen among.
    cooldown: which of these recommendations a decrease becomes: the `least`, which is what the code does and speeds
        decreases up, or the `most`, which is what a cooldown is for.
    """

    target: float
    up_tolerance: float = 0.1
    down_tolerance: float = 0.1
    max_up: float = 2.0
    max_down: float = 2.0
    window_seconds: int = 180
    down_window_seconds: int = 300
    cooldown: Literal["least", "most"] = "least"


def recommend(replicas: int, use: float, settings: ApaSettings) -> int:
    """Replicas for a use of `use` per replica: in proportion, within tolerance and step limits."""
    ratio = use / settings.target
    wanted = ceil(replicas * ratio)
    if ratio > 1 + settings.up_tolerance:
        return min(wanted, ceil(settings.max_up * replicas))
    if ratio < 1 - settings.down_tolerance:
        return max(wanted, floor(replicas / settings.max_down))
    return replicas


def allow_for_pending(wanted: int, replicas: int, ready: int, use: float, target: float) -> int:
    """Pending replicas count as idle when more are wanted and as at the target when fewer are; never past `replicas`.

    `use` is the mean of those that are ready.
    """
    pending = replicas - ready
    if pending <= 0 or wanted == replicas:
        return wanted
    if wanted > replicas:
        adjusted = ceil(replicas * (use * ready / replicas) / target)
        return min(max(adjusted, replicas), wanted)
    adjusted = ceil(replicas * ((use * ready + target * pending) / replicas) / target)
    return max(min(adjusted, replicas), wanted)


def cool_down(wanted: int, replicas: int, now: int, history: Sequence[tuple[int, int]], settings: ApaSettings) -> int:
    """A decrease is chosen among the recommendations (second, replicas) of the window; an increase goes at once."""
    if wanted >= replicas:
        return wanted
    choose = min if settings.cooldown == "least" else max
    window = [each for second, each in history if second > now - settings.down_window_seconds]
    return min(choose([wanted, *window]), replicas)


class _Autoscaler:
    """One PodAutoscaler: the samples of its metric and its recommendations."""

    def __init__(self, settings: ApaSettings) -> None:
        self._settings = settings
        self._samples: deque[float] = deque(maxlen=max(1, settings.window_seconds // SYNC_SECONDS))
        self._history: deque[tuple[int, int]] = deque(maxlen=settings.down_window_seconds // SYNC_SECONDS)

    def sync(self, now: int, sample: float, replicas: int, ready: int) -> int:
        self._samples.append(sample)
        use = sum(self._samples) / len(self._samples)
        wanted = recommend(replicas, use, self._settings)
        wanted = allow_for_pending(wanted, replicas, ready, use, self._settings.target)
        self._history.append((now, wanted))
        return cool_down(wanted, replicas, now, self._history, self._settings)


class Apa:
    """A controller on KV use (`engine`): one PodAutoscaler per model, every 10 s, floors and ceilings kept."""

    every_seconds = SYNC_SECONDS

    def __init__(self, settings: ApaSettings) -> None:
        self._settings = settings
        self._autoscalers: dict[int, _Autoscaler] = {}

    def decide(self, seen: Seen) -> list[int]:
        """Replicas asked for, by model; a model that shows no metric keeps what it has."""
        return [self._sync(index, seen) for index in range(len(seen.desired))]

    def _sync(self, index: int, seen: Seen) -> int:
        model, replicas = seen.scenario.models[index], seen.desired[index]
        use = engine.kv_use(seen, index, seen.now - seen.delay_seconds)
        if use is None or replicas == 0:
            return replicas
        autoscaler = self._autoscalers.setdefault(index, _Autoscaler(self._settings))
        wanted = autoscaler.sync(seen.now, use, replicas, seen.ready[index])
        return min(max(wanted, model.floor), model.most)
