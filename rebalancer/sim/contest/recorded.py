"""Recorded traffic and a policy file as a scenario: what `rebalancer simulate` plays.

A trace is a CSV with the columns of `rebalancer.world.traffic.TRACE_COLUMNS`; the row with the smallest time is second
0. A request is work of prompt tokens / prefill rate + generated tokens x seconds per token / batch, in seconds of one
replica: a prompt has the replica for itself, generated tokens share it with the rest of the batch.
"""

from collections.abc import Mapping, Sequence
from csv import reader
from dataclasses import dataclass, field, replace
from io import BytesIO, StringIO

import numpy as np
from pyarrow import ArrowException, csv

from rebalancer.domain.policy import Model, Policy
from rebalancer.sim.contest.one_pool import joined_nodes, price_of, unpriced
from rebalancer.sim.contest.outcome import Paid
from rebalancer.sim.contest.replica import ReplicaSpeeds
from rebalancer.sim.demand import F64, DemandStreams, Stream
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.world.traffic import TRACE_COLUMNS, BadTrace, check_once, read_trace

SECONDS_MOST = 31 * 86_400  # a month at 1 s is 21 MB per model and array
HEAD_BYTES = 4096  # in which a trace's header is
SLO_SECONDS = 2.0  # where the policy promises nothing


class Unfit(ValueError):
    """Trace, policy and budget do not go together; the text says which, and what to do."""


@dataclass(frozen=True, slots=True)
class ContestTerms:
    """What holds whoever decides. `services`: by model id, the defaults where one is missing."""

    demand: DemandStreams
    services: Mapping[str, ReplicaSpeeds] = field(default_factory=dict)
    gpus_per_node: int = 8


def read_demand(content: bytes, name: str, row_seconds: int = 1) -> DemandStreams:
    """Arrivals of a trace, by second. A row's requests come evenly in the `row_seconds` that begin at its time.

    Raises BadTrace with the line and what it should hold.
    """
    head = content[:HEAD_BYTES].decode("utf-8-sig", "replace").lstrip()
    check_once(next(reader(head.splitlines()), ()))
    try:
        table = csv.read_csv(
            BytesIO(content),
            csv.ReadOptions(use_threads=False),
            convert_options=csv.ConvertOptions(
                include_columns=list(TRACE_COLUMNS),
                column_types={each: "string" if each == "model" else "float64" for each in TRACE_COLUMNS},
                strings_can_be_null=False,
            ),
        )
        columns = {each: table[each].to_numpy() for each in TRACE_COLUMNS if each != "model"}
        models = table["model"].combine_chunks().dictionary_encode()
    except (ArrowException, KeyError) as error:
        _explain(content, str(error))
        raise
    times = columns["t_seconds"]
    numbers = list(columns.values())
    if not len(times) or any(not np.isfinite(each).all() or each.min() < 0 for each in numbers):
        _explain(content)
    begin = float(np.floor(times.min()))
    seconds = int(np.ceil(times.max() - begin)) + row_seconds
    if seconds > SECONDS_MOST:
        raise BadTrace(f"t_seconds goes over {seconds / 86_400:.0f} days, {SECONDS_MOST // 86_400} are the most")
    numbered = models.indices.to_numpy()
    by_model = np.split(np.argsort(numbered, kind="stable"), np.cumsum(np.bincount(numbered))[:-1])
    streams = []
    for model, mine in zip(models.dictionary.to_pylist(), by_model, strict=True):
        sums = [_by_second(times[mine] - begin, each[mine], seconds, row_seconds) for each in numbers[1:]]
        streams.append(Stream(model, *sums))
    return DemandStreams(name, tuple(sorted(streams, key=lambda stream: stream.model)))


def _by_second(times: F64, amounts: F64, seconds: int, row_seconds: int) -> F64:
    """Sums per second; what comes in the second that begins at a fraction belongs to both by its shares."""
    first = times.astype(np.int64)
    after = times - first
    in_one, in_next = amounts * (1.0 - after), amounts * after
    both = np.bincount(first, in_one, seconds + 1) + np.bincount(first + 1, in_next, seconds + 1)
    each: F64 = both[:seconds] / row_seconds
    return _spread(each, row_seconds)


def _spread(each: F64, row_seconds: int) -> F64:
    """Sums of the last `row_seconds` seconds, as sums of powers of two of them: an hour's row takes 12 steps."""
    total, covered = np.zeros(len(each)), 0
    window, width = each, 1  # sums of the last `width` seconds
    while True:
        if row_seconds & width:
            total[covered:] += window[: len(each) - covered]
            covered += width
        if covered == row_seconds:
            return total
        wider = window.copy()
        wider[width:] += window[:-width]
        window, width = wider, 2 * width


def _explain(content: bytes, why: str = "") -> None:
    """The slow reader knows which line is wrong; what it takes is wrong for what pyarrow said. Raises BadTrace."""
    try:
        read_trace(StringIO(content.decode("utf-8-sig"), newline=""))  # what pyarrow read: a BOM is no column's
    except UnicodeDecodeError as error:
        raise BadTrace(f"byte {error.start} is no UTF-8 text") from error
    reason = f" ({why.splitlines()[0]})" if why else ""
    raise BadTrace(f"it cannot be read as a CSV{reason}; the header is {','.join(TRACE_COLUMNS)}")


def with_gpus(policy: Policy, gpus: Mapping[str | None, int]) -> Policy:
    """The policy with other limits of its pools: by pool name, or None for the only one. Raises Unfit."""
    names = [pool.name for pool in policy.pools]
    if None in gpus and len(names) > 1:
        raise Unfit(f"the policy has the pools {', '.join(names)}: say which one, --gpus {names[0]}={gpus[None]}")
    unknown = sorted(each for each in gpus if each is not None and each not in names)
    if unknown:
        raise Unfit(f"no pool {', '.join(unknown)} in the policy; it has {', '.join(names)}")
    pools = [
        pool.model_copy(update={"gpu_limit": gpus.get(pool.name, gpus.get(None, pool.gpu_limit))})
        for pool in policy.pools
    ]
    changed = policy.model_copy(update={"pools": tuple(pools)})
    for pool in pools:
        owned = sum(
            each.entitlement * each.gpus_per_replica for each in changed.models if each.targets[0].pool == pool.name
        )
        if pool.kind == "primary" and owned > pool.gpu_limit:
            raise Unfit(
                f"pool {pool.name} has {pool.gpu_limit} GPUs and {owned} are entitled to models;"
                " give it more or lower the entitlements in the policy"
            )
    return changed


def paid(policy: Policy) -> Paid | None:
    """What its GPUs cost, by pools as they are before `one_pool`; None where one of them has no price."""
    owned = [pool for pool in policy.pools if pool.kind == "primary"]
    rented = [pool for pool in policy.pools if pool.kind != "primary"]
    if unpriced(policy.pools):
        return None
    return Paid(sum(pool.gpu_limit for pool in owned), price_of(owned), price_of(rented))


def scenario_of(policy: Policy, terms: ContestTerms) -> Scenario:
    """The demand on all GPUs of a policy, each model holding what it owns at first; `one_pool` rules it.

    Models of the policy that the trace does not name get no requests. Nodes are of `gpus_per_node` GPUs, the last of
    what is left. Raises Unfit.
    """
    demand = terms.demand
    streams = _by_model(demand, policy)
    gpus = sum(pool.gpu_limit for pool in policy.pools)
    nodes = tuple(_nodes(gpus, terms.gpus_per_node))
    for each in policy.models:
        if each.gpus_per_pod > max(nodes, default=0):
            raise Unfit(
                f"a pod of {each.id} holds {each.gpus_per_pod} GPUs of one node, the largest node has"
                f" {max(nodes, default=0)}; see --gpus-per-node"
            )
        if each.gpus_per_replica > gpus:
            raise Unfit(f"a replica of {each.id} holds {each.gpus_per_replica} GPUs, and there are {gpus}")
    models = [
        _model(
            each,
            streams.get(each.id),
            terms.services.get(each.id, ReplicaSpeeds()),
            demand,
            policy.deferral.deadline_seconds(each),
        )
        for each in policy.models
    ]
    return Scenario(demand.name, "", tuple(models), joined_nodes(nodes, policy), demand.seconds, price_of(policy.pools))


def _by_model(demand: DemandStreams, policy: Policy) -> dict[str, Stream]:
    ids = {alias: each.id for each in policy.models for alias in (each.id, *each.aliases)}
    unknown = [each.model for each in demand.streams if each.model not in ids]
    if unknown:
        raise Unfit(
            f"no model {', '.join(unknown)} in the policy; it has {', '.join(each.id for each in policy.models)}"
            " (a model's other names are its aliases)"
        )
    streams: dict[str, Stream] = {}
    for each in demand.streams:
        known = streams.get(ids[each.model])
        streams[ids[each.model]] = each if known is None else _added(known, each)
    return streams


def _added(one: Stream, other: Stream) -> Stream:
    return replace(
        one,
        requests=one.requests + other.requests,
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        generated_tokens=one.generated_tokens + other.generated_tokens,
    )


def _nodes(gpus: int, each: int) -> Sequence[int]:
    return [each] * (gpus // each) + [gpus % each] * (gpus % each > 0)


def _model(
    of: Model, stream: Stream | None, service: ReplicaSpeeds, demand: DemandStreams, deadline_seconds: float | None
) -> ScenarioModel:
    none = np.zeros(demand.seconds)
    promised = of.slo.latency_seconds if of.slo else SLO_SECONDS
    return ScenarioModel(
        name=of.id,
        work=none if stream is None else service.rates(of).work(stream),
        requests=none if stream is None else stream.requests,
        first=of.entitlement,
        floor=of.min_replicas,
        most=of.max_replicas,
        gpus=of.gpus_per_replica,
        priority=float(of.priority),
        start_seconds=round(of.load_seconds),
        release_seconds=service.release_seconds,
        slo_wait_seconds=promised if deadline_seconds is None else deadline_seconds,
        patience_seconds=service.patience_seconds if deadline_seconds is None else SECONDS_MOST,
        slots=service.rates(of).batch,
        deferred=deadline_seconds is not None,
    )
