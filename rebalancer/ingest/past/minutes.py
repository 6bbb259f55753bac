"""The past of each model, step by step: its replicas, how busy they were, who waited. Pure.

Steps are a minute or less where the window is young, some minutes where it is old; each says how long it stands for.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from math import isfinite

from msgspec import Struct

from rebalancer.domain.instant import Instant
from rebalancer.domain.metric_maps import ABOVE
from rebalancer.domain.readings import keeps
from rebalancer.ingest.past.looks import PodLook

LATENCY = "ttftP95Seconds"


class ModelMinute(Struct, frozen=True):
    """One model at one step; what nobody told is None, never zero.

    model: model id.
    at: the step's instant.
    seconds: how long it stands for.
    replicas: pods that were scraped.
    busy: share of their time in which the GPUs had work, 0-1; where nobody tells, share of the pods with a request in
        work.
    by_gpus: whether `busy` is of GPUs.
    running: requests in work.
    waiting: requests in the queue.
    late: whether the slowest twentieth of some pod's requests waited for the first token for longer than the SLO.
    """

    model: str
    at: Instant
    seconds: float
    replicas: int
    busy: float | None = None
    by_gpus: bool = False
    running: float | None = None
    waiting: float | None = None
    late: bool | None = None


def minutes(looks: Iterable[PodLook], seconds: float, slo_seconds: Mapping[str, float]) -> Iterator[ModelMinute]:
    """One of each model at each step; `looks` in the order of time, `slo_seconds` by model where there is one."""
    for at, together in groupby(looks, key=lambda look: look.step_at):
        by_model: dict[str, list[Mapping[str, float]]] = defaultdict(list)
        for look in together:
            by_model[look.pod[0]].append(look.values)
        for model, pods in sorted(by_model.items()):
            yield _minute(model, at, seconds, pods, slo_seconds.get(model))


def _minute(
    model: str, at: float, seconds: float, pods: list[Mapping[str, float]], slo_seconds: float | None
) -> ModelMinute:
    running, used = (_known_readings(pods, name) for name in ("running", "gpuUtilisation"))
    used = [share for share in used if 0.0 <= share <= 1.0]
    busy = used or [float(each > 0.0) for each in running]
    return ModelMinute(
        model=model,
        at=at,
        seconds=seconds,
        replicas=len(pods),
        busy=sum(busy) / len(busy) if busy else None,
        by_gpus=bool(used),
        running=sum(running) if running else None,
        waiting=sum(counts) if (counts := _known_readings(pods, "waiting")) else None,
        late=None if slo_seconds is None else _late(pods, slo_seconds),
    )


def _late(pods: list[Mapping[str, float]], slo_seconds: float) -> bool | None:
    """Whether some pod is late. None where nobody is known to be and of some one it is not known."""
    in_slo = {
        keeps(seconds, slo_seconds, above=above)
        for reading, above in ((LATENCY, False), (ABOVE[LATENCY], True))
        for seconds in _known_readings(pods, reading)
    }
    return True if False in in_slo else False if in_slo == {True} else None


def _known_readings(pods: list[Mapping[str, float]], reading: str) -> list[float]:
    return [pod[reading] for pod in pods if isfinite(pod.get(reading, float("nan")))]
