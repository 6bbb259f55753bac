"""Recorded days played again with the service in the simulator: under the recorded policy, and under another.

The work of each second is the recorded one (`days`), and so are the replicas at the beginning; from there on the
service decides in the simulated cluster, as in `rebalancer simulate`. All pools are played as one whose GPUs are always
there: the most that were recorded at once, at most `gpuLimit`. Where the other policy has a higher `gpuLimit`, as many
more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from rebalancer.domain.policy import Policy
from rebalancer.report.days import ModelDay, RecordedDay
from rebalancer.report.fitting import fit
from rebalancer.report.lateness import late_with, served
from rebalancer.sim.contest.contest import Side, contest
from rebalancer.sim.contest.one_pool import joined_nodes, one_pool, unpriced
from rebalancer.sim.contest.outcome import ContestRun
from rebalancer.sim.contest.recorded import paid
from rebalancer.sim.contest.replica import ReplicaSpeeds
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.score import BLOCK_SECONDS
from rebalancer.sim.suite.names import Ours, contender

METRICS_DELAY_SECONDS = 1  # as `rebalancer simulate` has it


@dataclass(slots=True)
class PolicyCourse:
    """What came of all days under one policy; of models whose requests are counted.

    late: late requests, by model.
    gpu_hours: GPUs held, those of starting and ending replicas included.
    usd: for GPUs of primary pools, used or not, and for others while they are held; None where a pool has no price.
    ready_hours: GPU-hours of Ready replicas, by model.
    blocks: late requests and all requests per 10 minutes, shape (blocks, 2), a day each.
    """

    late: dict[str, float] = field(default_factory=dict)
    gpu_hours: float = 0.0
    usd: float | None = 0.0
    ready_hours: dict[str, float] = field(default_factory=dict)
    blocks: list[NDArray[np.float64]] = field(default_factory=list)

    def add(self, run: ContestRun, counted: set[str], names: Mapping[str, str]) -> None:
        """A day more, or a part of one; `names`: what its models are called here, where that is not their own id."""
        outcome = run.outcome
        self.gpu_hours += outcome.gpu_hours
        usd = None if outcome.owned_usd is None else outcome.owned_usd + (outcome.rented_usd or 0.0)
        self.usd = None if usd is None or self.usd is None else self.usd + usd
        for each in outcome.models:
            name = names.get(each.model, each.model)
            self.ready_hours[name] = self.ready_hours.get(name, 0.0) + each.gpu_hours
            if each.model in counted:
                late = (each.violation or 0.0) * each.requests
                self.late[name] = self.late.get(name, 0.0) + late
        self.blocks.append(_blocks(run.record, counted))


@dataclass(slots=True)
class Courses:
    """The courses of the recorded and the other policy over the recorded days.

    seconds: time that was played.
    requests: requests that came, by model of the other policy; of those whose requests are counted.
    late_recorded: late requests with the replicas as they were recorded, in the same model of the world.
    before: under the recorded policy.
    after: under the other.
    uncounted: models of which nobody counts requests.
    unpriced: pools of either policy that have GPUs and no price, as they are recorded.
    """

    seconds: int = 0
    requests: dict[str, float] = field(default_factory=dict)
    late_recorded: float = 0.0
    before: PolicyCourse = field(default_factory=PolicyCourse)
    after: PolicyCourse = field(default_factory=PolicyCourse)
    uncounted: set[str] = field(default_factory=set)
    unpriced: set[str] = field(default_factory=set)


def play_both(day: RecordedDay, other: Policy, into: Courses, tell: Callable[[str, float], None]) -> None:
    """Play one day twice, and add it up. Model ids are the other policy's where it has the model.

    Each stretch in which the recorded policy named the same models is played by itself.
    """
    for part in day.stretches():
        _play_both(part, other, into, tell)


def _play_both(day: RecordedDay, other: Policy, into: Courses, tell: Callable[[str, float], None]) -> None:
    fitted = fit(day.policy, other)
    who = contender("ours")
    if not isinstance(who, Ours):
        raise TypeError("ours is the service")
    counted = {name for name, of in day.models.items() if of.requests[: day.seconds].any()}
    into.uncounted |= {name for name, of in day.models.items() if name not in counted and of.work.any()}
    known = {name: day.models[old] for old, name in fitted.names.items() if old in day.models}
    sides = (
        side_of(who, day.policy, day, day.models, "recorded"),
        side_of(who, other, day, known, "proposed", more_gpus=_limit(other) - _limit(day.policy)),
    )
    _, runs = contest("journal", sides, tell, metrics_delay_seconds=METRICS_DELAY_SECONDS)
    into.seconds += day.seconds
    into.unpriced.update(unpriced(day.policy.pools), unpriced(fitted.policy.pools))
    for name in counted & fitted.names.keys():
        of, new = day.models[name], fitted.names[name]
        into.requests[new] = into.requests.get(new, 0.0) + float(of.requests[: day.seconds].sum())
        into.late_recorded += float(late_with(served(of, day), of.ready[: day.seconds]).sum())
    into.before.add(runs[0], {name for name in counted if name in fitted.names}, fitted.names)
    into.after.add(runs[1], {fitted.names[name] for name in counted if name in fitted.names}, {})


def _blocks(record: Record, counted: set[str]) -> NDArray[np.float64]:
    """(blocks, 2): late requests and all requests of these models."""
    models = record.scenario.models
    mine = [index for index, model in enumerate(models) if model.name in counted]
    begins = np.arange(0, record.scenario.seconds, BLOCK_SECONDS)
    requests = [models[index].requests[: record.scenario.seconds] for index in mine] or [
        np.zeros(record.scenario.seconds)
    ]
    late = np.add.reduceat(record.late[mine].sum(axis=0), begins)
    return np.column_stack([late, np.add.reduceat(np.sum(requests, axis=0), begins)])


def _limit(policy: Policy) -> int:
    return sum(pool.gpu_limit for pool in policy.pools)


def side_of(  # noqa: PLR0913  # what one side of a contest is made of
    who: Ours, policy: Policy, day: RecordedDay, known: Mapping[str, ModelDay], called: str, more_gpus: int = 0
) -> Side:
    """The service under `policy` in that day's simulated cluster; `known`: what was recorded, by the policy's ids."""
    nodes = _nodes(day.nodes, min(_limit(policy), sum(day.nodes) + max(0, more_gpus)))
    whole = one_pool(policy)
    (pool,) = whole.pools
    whole = whole.model_copy(update={"pools": (pool.model_copy(update={"gpu_limit": sum(nodes)}),)})
    models = tuple(_model(policy, name, known, day) for name in [entry.id for entry in policy.models])
    if sum(model.first * model.gpus for model in models) > sum(nodes):
        owned = {entry.id: entry.entitlement for entry in policy.models}
        models = tuple(replace(model, first=owned[model.name]) for model in models)
    nodes = joined_nodes(nodes, policy)
    world = Scenario("journal", "", models, nodes, day.seconds, whole.pools[0].price_per_gpu_hour)
    price = paid(policy)
    if price is not None:
        price = msgspec.structs.replace(price, gpus=min(_owned(policy, day), sum(nodes)))  # not the limit
    return Side(who, world, whole, called, {model.name: model.slots for model in models}, price)


def _owned(policy: Policy, day: RecordedDay) -> int:
    """GPUs of its primary pools: the most of that day, and as many more as their `gpuLimit` is higher."""
    limits = {pool.name: pool.gpu_limit for pool in day.policy.pools}
    primary = [pool for pool in fit(day.policy, policy).policy.pools if pool.kind == "primary"]
    more = {pool.name: max(0, pool.gpu_limit - limits.get(pool.name, 0)) for pool in primary}
    return sum(min(pool.gpu_limit, day.pool_gpus[pool.name] + more[pool.name]) for pool in primary)


def _model(policy: Policy, name: str, known: Mapping[str, ModelDay], day: RecordedDay) -> ScenarioModel:
    (entry,) = (each for each in policy.models if each.id == name)
    recorded = known.get(name)
    if recorded is None:
        recorded = ModelDay(entry, entry.min_replicas, (entry.min_replicas, entry.max_replicas))
    of = replace(recorded, entry=entry, bounds=(entry.min_replicas, entry.max_replicas))
    rates = ReplicaSpeeds()
    return replace(
        served(of, replace(day, policy=policy)),
        first=max(recorded.first, entry.min_replicas),
        release_seconds=rates.release_seconds,
        slots=rates.rates(recorded.entry).batch,  # the same engines, whatever the policy takes them for
    )


def _nodes(recorded: Sequence[int], gpus: int) -> tuple[int, ...]:
    """Nodes with so many GPUs together: the recorded ones, then more of the largest size."""
    nodes: list[int] = []
    for size in recorded:
        nodes += [min(size, gpus - sum(nodes))] if sum(nodes) < gpus else []
    largest = max(recorded, default=gpus)
    while sum(nodes) < gpus:
        nodes.append(min(largest, gpus - sum(nodes)))
    return tuple(nodes)
