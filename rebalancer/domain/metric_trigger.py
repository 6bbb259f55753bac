"""KEDA's metrics-api trigger by which a ScaledObject asks us for its replicas, and whether its HPA follows exactly.

The HPA divides the answer by the trigger's `targetValue` and rounds up; of several triggers the highest number counts.
It leaves a number alone that differs from what runs by no more than its tolerance, and waits out its stabilisation
windows and policies. KEDA asks when the HPA does, every 15 s, unless it caches. Facts are from KEDA's source at 2.21
and the HPA's at Kubernetes 1.34.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.words import counted

VALUE_LOCATION = "replicas"
HPA_TOLERANCE = 0.1  # of kube-controller-manager, where neither its flag nor `behavior` says otherwise
HPA_STABILIZATION_SECONDS = 300  # before a decrease, where `behavior` says nothing
HPA_STEP, HPA_STEP_SECONDS = 4, 15  # it adds 4 replicas at once, or as many as run, where `behavior` says nothing
LOWERING = frozenset({"", "static", "currentReplicasIfLower", "scalingModifiers"})  # fallbacks that may end replicas


class Fallback(Struct, frozen=True):
    """What KEDA does once nobody of ours has answered a few times.

    replicas: replicas that it then asks for.
    behavior: how, in KEDA's words; "": `static`.
    """

    replicas: int
    behavior: str = ""


class HpaPolicy(NamedTuple):
    """By how many replicas, or by what percentage of those that run, an HPA may move within so many seconds."""

    value: int
    seconds: int
    percent: bool = False

    def replicas(self, running: int) -> int:
        """Replicas that come or go of so many; the HPA rounds a part of one up, both ways."""
        return math.ceil(running * self.value / 100) if self.percent else self.value


class HpaPace(Struct, frozen=True):
    """How the HPA follows in one direction.

    tolerance: by what part a number may differ from what runs and be left alone.
    stabilization_seconds: how long it waits, in seconds.
    disabled: whether it never moves that way.
    dropped: whether a tolerance was asked for that the HPA does not have: the API server drops it where the feature
        gate HPAConfigurableTolerance is off.
    policies: how far it moves at a time; none where `behavior` says nothing.
    least: whether the policy that moves it least counts; else the one that moves it most.
    """

    tolerance: float = HPA_TOLERANCE
    stabilization_seconds: int = 0
    disabled: bool = False
    dropped: bool = False
    policies: tuple[HpaPolicy, ...] = ()
    least: bool = False

    def step(self, running: int) -> tuple[int, int] | None:
        """Replicas by which its policies let it move of so many, and in how many seconds; None: as by default."""
        steps = [(one.replicas(running), -one.seconds) for one in self.policies]
        if not steps:
            return None
        replicas, seconds = min(steps) if self.least else max(steps)
        usual = replicas >= max(HPA_STEP, running) and -seconds <= HPA_STEP_SECONDS
        return None if usual else (replicas, -seconds)

    def stored(self, tolerance: float | None) -> "HpaPace":
        """The same pace in an HPA that has this tolerance, None for one without."""
        if tolerance is not None or self.tolerance == HPA_TOLERANCE:
            return self
        return replace(self, tolerance=HPA_TOLERANCE, dropped=True)


class MetricTrigger(Struct, frozen=True):
    """A ScaledObject's trigger whose URL is one of ours.

    path: path of that URL.
    host: name of the host in it.
    faults: what makes the HPA come to another number than the answer, each a sentence.
    everybody: whether KEDA asks each replica of ours and takes the highest answer; else one of them.
    fallback: what KEDA does without an answer; None: it leaves things as they are.
    up: how the HPA follows upwards.
    down: how it follows downwards.
    cached_seconds: how old the answer may be by which the HPA goes, where KEDA keeps it for a while; else 0.
    """

    path: str
    host: str = ""
    faults: tuple[str, ...] = ()
    everybody: bool = False
    fallback: Fallback | None = None
    up: HpaPace = HpaPace()
    down: HpaPace = HpaPace(stabilization_seconds=HPA_STABILIZATION_SECONDS)
    cached_seconds: int = 0

    def followed_by(self, tolerances: tuple[float | None, float | None]) -> "MetricTrigger":
        """The same trigger, where the HPA of its ScaledObject has these tolerances, upwards and downwards."""
        up, down = tolerances
        return replace(self, up=self.up.stored(up), down=self.down.stored(down))


def desired_path(model: str, pool: str) -> str:
    """The path below which a target's replicas are answered."""
    return f"/v1/models/{model}/desired/{pool}"


def is_ours(url: str) -> bool:
    """Whether a trigger's URL asks for a target's replicas."""
    parts = _path(url).split("/")
    return len(parts) == 6 and (parts[1], parts[2], parts[4]) == ("v1", "models", "desired")  # noqa: PLR2004  as above


def metric_trigger(
    triggers: tuple[tuple[str, str, dict[str, str]], ...],
    formula: str,
    fallback: Fallback | None,
    up: HpaPace,
    down: HpaPace,
) -> MetricTrigger | None:
    """How a ScaledObject asks us, None where it does not. `triggers`: type, metricType and metadata of each."""
    asks = next((one for one in triggers if one[0] == "metrics-api" and is_ours(one[2].get("url", ""))), None)
    if asks is None:
        return None
    _, metric_type, metadata = asks
    url = urlsplit(metadata["url"])
    faults = list(_faults(metric_type or "AverageValue", metadata))
    if len(triggers) > 1:
        faults.append(f"it has {counted(len(triggers) - 1, 'trigger')} beside, and the highest number wins")
    if formula:
        faults.append("its scalingModifiers make another number of the answer")
    faults += [f"its behavior never scales {way}" for way, pace in (("up", up), ("down", down)) if pace.disabled]
    everybody = metadata.get("aggregateFromKubeServiceEndpoints") == "true" and metadata.get("aggregationType") == "max"
    return MetricTrigger(url.path, url.hostname or "", tuple(faults), everybody, fallback, up, down)


def misfits(trigger: MetricTrigger, path: str, floor: int, bounds: tuple[int, int]) -> tuple[str, ...]:
    """Why the target at `path` would not follow, or not keep its floor without us. `bounds`: the ScaledObject's."""
    misfitting = list(trigger.faults)
    if trigger.path != path:
        misfitting.append(f"its trigger asks for {trigger.path}, and this target is {path}")
    if bounds[1] < floor:
        misfitting.append(f"its maxReplicaCount {bounds[1]} is below the floor {floor}")
    fallback = trigger.fallback
    if fallback is not None and fallback.behavior in LOWERING and fallback.replicas < floor:
        misfitting.append(f"its fallback goes to {fallback.replicas} while nobody answers, below the floor {floor}")
    return tuple(misfitting)


def limits(trigger: MetricTrigger, wanted: tuple[int, int], bounds: tuple[int, int]) -> tuple[str, ...]:
    """What is followed late, or not in every case. `wanted`: fewest and most replicas by the policy."""
    return tuple(_limits(trigger, wanted, bounds))


def _limits(trigger: MetricTrigger, wanted: tuple[int, int], bounds: tuple[int, int]) -> Iterator[str]:
    low, high = max(wanted[0], bounds[0]), min(wanted[1], bounds[1])
    if (low, high) != wanted:
        yield f"its bounds admit {bounds[0]} to {bounds[1]} of the policy's {wanted[0]} to {wanted[1]} replicas"
    up, down = trigger.up, trigger.down
    if high > 1 and 1 / (high - 1) <= up.tolerance:
        yield _ignored("up", up)
    if high > 0 and 1 / high <= down.tolerance:
        yield _ignored("down", down)
    yield from _late("up", up, max(low, 1), high)
    yield from _late("down", down, high, low)
    if trigger.cached_seconds > 0:
        yield f"KEDA keeps an answer for {trigger.cached_seconds} s: set useCachedMetrics of its trigger to false"
    if trigger.fallback is None:
        yield "it has no fallback: while nobody answers it stays as it is, below its floor, too"
    elif trigger.fallback.behavior in LOWERING:
        yield (
            f"its fallback goes to {trigger.fallback.replicas} whatever runs: set fallback.behavior to"
            " currentReplicasIfHigher"
        )
    if not trigger.everybody and trigger.host.endswith((".svc", ".svc.cluster.local")):
        yield (
            "KEDA asks one replica of ours, and those that stand by do not know: set"
            ' aggregateFromKubeServiceEndpoints to "true" and aggregationType to max'
        )


def _late(way: str, pace: HpaPace, start: int, end: int) -> Iterator[str]:
    """What of the longest step, from `start` to `end` replicas, comes late."""
    key = f"behavior.scale{way.capitalize()}"
    if pace.stabilization_seconds > 0:
        yield f"a step {way} is followed {pace.stabilization_seconds} s late: set {key}.stabilizationWindowSeconds to 0"
    step = pace.step(start)
    if step is not None and step[0] < abs(end - start):
        yield (
            f"a step {way} from {counted(start, 'replica')} goes by {step[0]} in {step[1]} s at most:"
            f" leave {key}.policies out"
        )


def _ignored(way: str, pace: HpaPace) -> str:
    key = f"behavior.scale{way.capitalize()}.tolerance"
    todo = (
        f"its HPA has no {key}, since this API server drops it: turn on the feature gate HPAConfigurableTolerance"
        if pace.dropped
        else f"set {key} to 0"
    )
    return f"a step {way} of {pace.tolerance:.0%} of what runs or less is not followed: {todo}"


def _faults(metric_type: str, metadata: dict[str, str]) -> Iterator[str]:
    """What is wrong in the trigger itself."""
    if metric_type != "AverageValue":
        yield f"its metricType is {metric_type}, not AverageValue"
    if metadata.get("valueLocation") != VALUE_LOCATION:
        yield f"its valueLocation is {metadata.get('valueLocation', 'not set')}, not {VALUE_LOCATION}"
    if _number(metadata.get("targetValue", "")) != 1:
        yield f"its targetValue is {metadata.get('targetValue', 'not set')}, not 1"
    if metadata.get("format", "json") != "json":
        yield f"its format is {metadata['format']}, not json"
    if _number(metadata.get("activationTargetValue", "0")) != 0:
        yield f"its activationTargetValue is {metadata['activationTargetValue']}, not 0"
    if metadata.get("aggregateFromKubeServiceEndpoints") == "true" and metadata.get("aggregationType") != "max":
        yield f"its aggregationType is {metadata.get('aggregationType', 'average')}, not max"


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""
