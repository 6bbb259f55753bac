"""Models: what workloads say about themselves, their autoscalers about bounds, and their pods about starts."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Final

from pydantic import TypeAdapter, ValidationError

from rebalancer.domain.cluster import Pod
from rebalancer.domain.part import Dns1123
from rebalancer.domain.target_spec import TargetSpec
from rebalancer.domain.words import counted
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.instants import epoch
from rebalancer.survey.first_policy.autoscalers import Autoscaler
from rebalancer.survey.first_policy.charged import COST_CENTER, TEAM, charged
from rebalancer.survey.first_policy.draft import CHOOSE, GUESS, ModelDraft, Reasoned
from rebalancer.survey.first_policy.homes import Home
from rebalancer.survey.first_policy.recent import DAYS, Use
from rebalancer.survey.first_policy.workloads import GpuWorkload
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import items, text

_MOST_ID: Final = 63  # by the policy's schema, as the next
_MOST_START_SECONDS: Final = 86_400.0
_CARRIES: Final = "what a replica carries is learnt once it is full, or with an slo; or say perReplica"
_NAMESPACE: Final = TypeAdapter[str](Dns1123)
_SHORT: Final = r"(?<![a-z])(?:tgi|nim)(?![a-z])"  # words of their own: `animate` is no NIM
_WRITE_TOKENS: Final = re.compile(rf"vllm|sglang|text-generation|{_SHORT}|lmdeploy|tensorrt-?llm|llama", re.IGNORECASE)
_ENGINES: Final = re.compile(
    rf"vllm|sglang|text-generation|{_SHORT}|triton|lmdeploy|tensorrt|rayproject", re.IGNORECASE
)


@dataclass(frozen=True)
class Around:
    """What a model is drafted from beside its workloads.

    homes: by workload.
    autoscalers: by workload.
    limits: GPUs that a pool may have at most, by its name.
    recent: last week's use by the workload's name; None where nobody was asked.
    """

    homes: Mapping[WorkloadRef, Home]
    autoscalers: Mapping[WorkloadRef, Autoscaler]
    limits: Mapping[str, int]
    recent: Mapping[str, Use] | None


def refused_kind(workload: GpuWorkload) -> str:
    """Why the policy's schema refuses such a target, "" where it takes it."""
    try:
        _NAMESPACE.validate_python(workload.ref.namespace)
        TargetSpec.model_validate(target_of(workload, "pool"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "namespace"
        return f"the policy refuses it as a target: {where}: {first['msg']}"
    return ""


def target_of(workload: GpuWorkload, pool: str) -> dict[str, str]:
    """The policy's words for it; a Deployment is what a target is anyway."""
    target = {"pool": pool, "name": workload.ref.name}
    if workload.ref.kind != "Deployment":
        if "apiVersion" in {field.alias for field in TargetSpec.model_fields.values()}:
            target["apiVersion"] = workload.api_version
        target["kind"] = workload.ref.kind
    return target


def model_of(targets: Sequence[GpuWorkload], around: Around) -> ModelDraft:
    """The draft of one model; its id and aliases may still collide with others', its entitlement may not fit yet."""
    first = targets[0]
    scalers = [around.autoscalers.get(each.ref) for each in targets]
    scaler = next((each for each in scalers if each), None)
    most = _most(targets, around)
    floor = _floor(targets, around, most.value)
    slo = _slo(first, scaler)
    return ModelDraft(
        id=Reasoned(_id(first.ref.name)),
        namespace=Reasoned(first.ref.namespace),
        aliases=Reasoned(first.served, "as its engine's arguments name the model in metrics") if first.served else None,
        targets=tuple(_target(each, around.homes[each.ref]) for each in targets),
        gpus_per_replica=Reasoned(first.gpus, _gpus_why(first)),
        pods_per_replica=Reasoned(first.pods, "the size of its group") if first.pods > 1 else None,
        min_replicas=floor,
        max_replicas=most,
        entitlement=_own(targets, around, floor.value, most.value),
        workload_class=_class(scaler),
        team=charged(targets, TEAM),
        slo=slo,
        load_seconds=_load(targets),
        signals=_signals(first, scaler, promised=not slo.off),
        cost_center=charged(targets, COST_CENTER),
        notes=tuple(_notes(targets, [each for each in scalers if each])),
    )


def distinct(models: Sequence[ModelDraft]) -> tuple[ModelDraft, ...]:
    """The same models with ids that are unique, and only those aliases that name one model."""
    counts = Counter(model.id.value for model in models)
    used: set[str] = set()
    renamed = []
    for model in models:
        name = model.id.value
        if counts[name] > 1:
            name = _id(f"{model.namespace.value}-{name}")
        number = 2
        while name in used:
            name = f"{_id(model.id.value)[: _MOST_ID - 4]}-{number}"
            number += 1
        used.add(name)
        renamed.append(replace(model, id=replace(model.id, value=name)))
    names = Counter(alias for model in renamed if model.aliases for alias in dict.fromkeys(model.aliases.value))
    return tuple(_with_own_names(model, names, used) for model in renamed)


def _with_own_names(model: ModelDraft, names: Counter[str], ids: set[str]) -> ModelDraft:
    if model.aliases is None:
        return model
    given = tuple(dict.fromkeys(model.aliases.value))
    own = tuple(alias for alias in given if names[alias] == 1 and alias not in ids)
    shared = [alias for alias in given if names[alias] > 1]
    notes = model.notes
    if shared:
        notes = (
            *notes,
            f"{', '.join(shared)} is the name of several models here: as an alias it would name none of them",
        )
    return replace(model, aliases=replace(model.aliases, value=own) if own else None, notes=notes)


def _id(name: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())[:_MOST_ID].strip("-") or "model"


def _target(workload: GpuWorkload, home: Home) -> Reasoned[dict[str, str]]:
    return Reasoned(target_of(workload, home.pool.name), home.why)


def _gpus_why(workload: GpuWorkload) -> str:
    each = f"{workload.resource} in its template"
    return each if workload.pods == 1 else f"{workload.pods} pods with {workload.gpus // workload.pods} {each} each"


def _floor(targets: Sequence[GpuWorkload], around: Around, most: int) -> Reasoned[int]:
    parts = []
    for each in targets:
        scaler = around.autoscalers.get(each.ref)
        today = f"{GUESS}the {counted(each.replicas, 'replica')} it has today; {CHOOSE}what must serve whatever happens"
        parts.append(scaler.minimum if scaler else Reasoned(each.replicas, today))
    total = sum(max(0, part.value) for part in parts)
    return Reasoned(min(total, most), _joined(parts))


def _most(targets: Sequence[GpuWorkload], around: Around) -> Reasoned[int]:
    parts = []
    for each in targets:
        scaler, pool = around.autoscalers.get(each.ref), around.homes[each.ref].pool
        room = max(around.limits[pool.name] // each.gpus, each.replicas, 1)
        why = f"{GUESS}no autoscaler says; as many fit the gpuLimit of pool {pool.name}"
        parts.append(scaler.maximum if scaler else Reasoned(room, why))
    return Reasoned(min(max(1, sum(part.value for part in parts)), 100_000), _joined(parts))


def _joined(parts: Sequence[Reasoned[int]]) -> str:
    if len(parts) == 1:
        return parts[0].why
    return " + ".join(f"{part.value} ({part.why})" for part in parts)


def _own(targets: Sequence[GpuWorkload], around: Around, floor: int, most: int) -> Reasoned[int]:
    """Last week's median, else what it has today, between floor and maximum."""
    first = targets[0]
    use = (around.recent or {}).get(str(first.ref))
    if use is not None and use.hours >= 1:
        own, why = (
            use.replicas(),
            f"the median of replicas at work in the last {DAYS} days ({use.hours:.0f} h seen, most {use.most:g})",
        )
    else:
        own, why = (
            first.replicas,
            f"{GUESS}the {counted(first.replicas, 'replica')} it has today; {CHOOSE}last week's median use",
        )
        if around.recent is not None:
            why += " (Prometheus has none)"
    bounded = min(max(own, floor), most)
    return Reasoned(bounded, why if bounded == own else f"{why}; held between floor and maximum")


def _class(scaler: Autoscaler | None) -> Reasoned[str]:
    if scaler and scaler.votes.batch:
        return Reasoned("batch", f"{GUESS}its work waits in a queue: {scaler.votes.batch}")
    return Reasoned("interactive", f"{CHOOSE}realtime, interactive or batch: how fast its demand is followed", off=True)


def _slo(workload: GpuWorkload, scaler: Autoscaler | None) -> Reasoned[dict[str, float]]:
    """What a trigger holds of what the SLO is held against: of an engine that writes tokens the first one."""
    first = scaler.votes.first_token if scaler else None
    whole = scaler.votes.whole_answer if scaler else None
    tokens = any(map(_WRITE_TOKENS.search, workload.engine))
    if promise := first or (None if tokens else whole):
        return Reasoned({"latencySeconds": float(promise.value)}, promise.why)
    why = f"{CHOOSE}the p95 time to first token that its users were promised"
    if whole:
        why += f"; {whole.value:g} s is held for whole answers today"
    return Reasoned({"latencySeconds": 2.0}, why, off=True)


def _signals(workload: GpuWorkload, scaler: Autoscaler | None, *, promised: bool) -> dict[str, Reasoned[object]]:
    signals = dict(scaler.votes.signals) if scaler else {}
    if not promised:
        signals.pop("latency", None)  # it votes against the SLO
    counts = any(map(_ENGINES.search, workload.engine))
    known = "its engine counts requests in flight" if counts else "send its requests in flight (docs/install.md)"
    default: Reasoned[object] = Reasoned({}, f"{known}; {_CARRIES}")
    return {"concurrency": signals.pop("concurrency", default), **signals}


def _notes(targets: Sequence[GpuWorkload], scalers: Iterable[Autoscaler]) -> Iterator[str]:
    if len(targets) > 1:
        names = " and ".join(str(each.ref) for each in targets)
        yield f"{GUESS}{names} are one model: the same image and arguments, each in a pool of its own"
    for each in targets:
        if each.owner:
            yield f"{each.ref} is controlled by {each.owner}, which may write its replicas back"
        if not each.placement.selector and not each.placement.terms:
            yield f"{each.ref} selects no nodes: its pods may land in any pool that tolerates them"
    for scaler in scalers:
        yield from (*scaler.notes, *scaler.votes.notes)


def _load(targets: Sequence[GpuWorkload]) -> Reasoned[float]:
    """The median from placed to Ready; the wait for a free GPU is no part of a start."""
    starts = sorted(seconds for each in targets for pod, raw in each.seen if (seconds := _start(pod, raw)) is not None)
    if not starts:
        return Reasoned(60.0, f"{CHOOSE}from pod created to Ready; no Ready pod was seen", off=True)
    of = f"the median of {len(starts)} pods" if len(starts) > 1 else "one pod"
    return Reasoned(
        median_low(starts),
        f"{of}, from placed to Ready ({starts[0]:g} to {starts[-1]:g} s)"
        if len(starts) > 1
        else f"{of}, from placed to Ready",
    )


def _start(pod: Pod, raw: Object) -> float | None:
    if not pod.ready or pod.ready_at is None:
        return None
    placed = pod.created_at
    for each in items(raw, "status", "conditions"):
        if text(each, "type") == "PodScheduled" and (since := text(each, "lastTransitionTime")):
            try:
                placed = max(placed, epoch(since))
            except ValueError:
                return None
    seconds = float(round(pod.ready_at - placed))
    return seconds if 0 < seconds <= _MOST_START_SECONDS else None
