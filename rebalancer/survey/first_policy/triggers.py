"""What a KEDA trigger or an HPA metric measures, in the policy's words for signals."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from rebalancer.domain.words import listed
from rebalancer.survey.first_policy.draft import GUESS, Reasoned
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import mapped, part, text

_RUNNING: Final = re.compile(
    r"num_requests_running|num_running_reqs|concurren|in_?flight|active_requests", re.IGNORECASE
)
_WAITING: Final = re.compile(r"num_requests_waiting|queue|waiting|pending_request", re.IGNORECASE)
_CACHE: Final = re.compile(r"cache_usage|kv_cache|token_usage", re.IGNORECASE)
_BUSY: Final = re.compile(r"DCGM_FI_DEV_GPU_UTIL|DCGM_FI_PROF_GR_ENGINE_ACTIVE|gpu_?util|duty_cycle", re.IGNORECASE)
_FIRST_TOKEN: Final = re.compile(r"time_to_first_token|ttft|first_response", re.IGNORECASE)
_WHOLE_ANSWER: Final = re.compile(
    r"(?<!inter_token_)(?<!e2e_request_)latency|request_duration",  # between tokens; of engines that write tokens
    re.IGNORECASE,
)
# How many requests came, or a share of them; it is a time all the same with a quantile, or as a mean by _sum.
_COUNTS: Final = re.compile(r"_(count|bucket|total)\b|ratio\b|\b(i?rate|increase)\s*\(", re.IGNORECASE)
_TIME: Final = re.compile(r"quantile|_sum\b", re.IGNORECASE)
_MILLISECONDS: Final = re.compile(r"milli|_ms(\b|_)", re.IGNORECASE)
_AVERAGE: Final = re.compile(r"^\s*(avg|max|min|quantile|histogram_quantile)\b")
_BACKLOGS: Final = frozenset(
    {
        "activemq", "apache-kafka", "artemis-queue", "aws-kinesis-stream", "aws-sqs-queue", "azure-eventhub",
        "azure-queue", "azure-servicebus", "gcp-pubsub", "kafka", "nats-jetstream", "pulsar", "rabbitmq", "redis",
        "redis-streams",
    }
)  # fmt: skip
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)(m?)")
_CALENDAR: Final = "cron"

_MOST_THRESHOLD: Final = 100_000  # by the policy's schema
_MOST_PROMISE_SECONDS: Final = 3600.0  # no promise of latency is longer; a threshold that is counts something else


@dataclass(frozen=True)
class Trigger:
    """One trigger of a ScaledObject, or one metric of an HPA.

    at: which one it is, counted from 0, as `trigger 0 (kafka)`.
    kind: its type, as it stands in the object.
    query: what it measures: its query, the metric's name, or where that is read.
    threshold: its threshold, in its own unit; None where none can be read.
    by_replica: whether the threshold is of one replica, not of all together.
    """

    at: str
    kind: str
    query: str
    threshold: float | None
    by_replica: bool


@dataclass(frozen=True)
class Votes:
    """What the triggers of one autoscaler come to.

    signals: by the policy's names.
    first_token: seconds that a trigger holds until the first token, None without one.
    whole_answer: seconds that a trigger holds for a whole answer, None without one.
    batch: the trigger that watches a broker's queue, "" without one.
    notes: what has no counterpart.
    """

    signals: dict[str, Reasoned[object]] = field(default_factory=dict)
    first_token: Reasoned[float] | None = None
    whole_answer: Reasoned[float] | None = None
    batch: str = ""
    notes: tuple[str, ...] = ()


def votes_of(about: str, triggers: Sequence[Trigger]) -> Votes:
    """The signals that measure what the triggers of `about` do; of two for one signal the first counts."""
    signals: dict[str, Reasoned[object]] = {}
    promises: dict[bool, Reasoned[float]] = {}  # by whether it is of the first token
    unlike: list[str] = []
    notes: list[str] = []
    for each in triggers:
        where = f"{each.at} of {about}"
        if (seconds := _promise(each)) is not None:
            promise = Reasoned(seconds, f"{GUESS}what {where} holds; the promise to users may be another")
            promises.setdefault(_FIRST_TOKEN.search(each.query) is not None, promise)
            signals.setdefault("latency", Reasoned(value=True, why=f"{where} asks for it"))
        elif (signal := _signal(each, where)) is not None:
            signals.setdefault(*signal)
        elif each.kind == _CALENDAR:
            notes.append(f"{where} is a calendar: write it as `schedules`")
        elif each.kind not in _BACKLOGS:
            unlike.append(each.at)
    if unlike:
        notes.append(f"no signal measures what {listed(unlike)} of {about} does: it goes on asking within the bounds")
    batch = next((f"{each.at} of {about}" for each in triggers if each.kind in _BACKLOGS), "")
    return Votes(signals, promises.get(True), promises.get(False), batch, tuple(notes))


def keda_trigger(number: int, raw: Object) -> Trigger:
    """Trigger `number` of a ScaledObject."""
    metadata, kind = mapped(raw, "metadata"), text(raw, "type") or "of no type"
    query = " ".join(metadata[key] for key in ("query", "metricName", "valueLocation", "url") if metadata.get(key))
    threshold = next((metadata[key] for key in ("threshold", "targetValue", "value") if key in metadata), "")
    per_replica = (text(raw, "metricType") or "AverageValue") == "AverageValue"
    average = _AVERAGE.match(metadata.get("query", "")) is not None
    return Trigger(f"trigger {number} ({kind})", kind, query, _number(threshold), per_replica or average)


def hpa_metric(number: int, raw: Object) -> Trigger:
    """Metric `number` of an HPA."""
    kind = text(raw, "type")
    source = part(raw, kind[:1].lower() + kind[1:])
    name, target = text(source, "metric", "name") or text(source, "name"), part(source, "target")
    threshold = text(target, "averageValue") or text(target, "value")
    return Trigger(f"metric {number} ({kind} {name})", kind, name, _number(threshold), "averageValue" in target)


def _signal(each: Trigger, where: str) -> tuple[str, Reasoned[object]] | None:
    """The signal that measures the same, with its threshold; None for what no signal of ours measures."""
    level = each.threshold if each.threshold and each.threshold <= _MOST_THRESHOLD else None
    if _RUNNING.search(each.query):
        known = level is not None and each.by_replica
        return "concurrency", Reasoned(
            {"perReplica": level} if known else {}, f"{GUESS}threshold of {where}" if known else where
        )
    if _CACHE.search(each.query) and level is not None:
        high = level / 100 if level > 1 else level
        if 0 < high <= 1:
            return "kvCache", Reasoned({"high": high, "low": high / 2}, f"{where}; {GUESS}low is half of it")
    if _BUSY.search(each.query):
        return "utilisation", Reasoned(value=True, why=f"{where}; by the watermarks of the class, not by its threshold")
    if _WAITING.search(each.query) and level is not None and each.by_replica:
        return "queue", Reasoned({"high": level}, f"threshold of {where}")
    return None


def _promise(each: Trigger) -> float | None:
    """A latency threshold in seconds; None where there is none, or none that a promise could be."""
    late = _FIRST_TOKEN.search(each.query) or _WHOLE_ANSWER.search(each.query)
    counts = _COUNTS.search(each.query) and not _TIME.search(each.query)
    if not each.threshold or not late or counts:
        return None
    seconds = each.threshold / 1000 if _MILLISECONDS.search(each.query) else each.threshold
    return seconds if 0 < seconds <= _MOST_PROMISE_SECONDS else None


def _number(word: str) -> float | None:
    quantity = _QUANTITY.fullmatch(word.strip())
    if quantity is None:
        return None
    number = float(quantity[1]) / (1000 if quantity[2] else 1)
    return int(number) if number == int(number) else number
