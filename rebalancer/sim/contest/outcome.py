"""What one run comes to, in the numbers that `rebalancer simulate` prints: by model and in all."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from rebalancer.sim.record import Record
from rebalancer.sim.requests.arrivals import MINUTE_SECONDS
from rebalancer.sim.score import score

QUANTILE = 0.95  # of a policy's `slo.latencySeconds`


class ModelOutcome(Struct, frozen=True):
    """One model's part of a run.

    model: name of the model.
    requests: requests that arrived.
    violation: share of the requests, 0-1, that waited longer than the SLO; None without requests.
    late_minutes: share of the minutes with requests, 0-1, whose p95 waited longer than the SLO; None without requests.
    lost: requests that nobody served.
    gpu_hours: GPU-hours of its Ready replicas.
    lent_gpu_hours: GPU-hours of its Ready replicas beyond its entitlement.
    """

    model: str
    requests: float
    violation: float | None  # share of the requests that waited longer than the SLO; None without requests
    late_minutes: float | None  # share of the minutes with requests whose p95 waited longer than the SLO
    lost: float  # requests that nobody served
    gpu_hours: float
    lent_gpu_hours: float


class RunOutcome(Struct, frozen=True):
    """What a whole run comes to, over all models.

    name: name of the run, for a tuned peer with its setting.
    requests: requests that arrived.
    violation: share of the requests, 0-1, that waited longer than their model's SLO; None without requests.
    late_minutes: share of all models' minutes with requests, 0-1, whose p95 waited longer than the SLO; None without
        requests.
    worst_model: name of the model with the largest violation, None without requests.
    worst_model_violation: the violation of that model, 0-1; None without requests.
    gpu_hours: GPU-hours of all GPUs held, those of starting and ending replicas included.
    cost_usd: USD for the GPUs that were held, as the scenario prices them; None where it has no prices.
    starts_and_stops: replicas that were started, plus replicas that were stopped.
    lent_gpu_hours: GPU-hours of Ready replicas beyond the entitlement of their model.
    floor_breaches: how often less than a model's floor was asked for.
    models: the part of each model, in the scenario's order.
    owned_usd: USD for the GPUs of primary pools, used or not; None where the side that played names no such prices.
    rented_usd: USD for the GPUs held beyond those, while they were held; None as for `owned_usd`.
    """

    name: str
    requests: float
    violation: float | None
    late_minutes: float | None  # of all models' minutes with requests
    worst_model: str | None
    worst_model_violation: float | None
    gpu_hours: float
    cost_usd: float | None  # None: there are no prices
    starts_and_stops: int
    lent_gpu_hours: float
    floor_breaches: int
    models: tuple[ModelOutcome, ...]
    owned_usd: float | None = None  # for the GPUs of primary pools, used or not; None: there are no prices
    rented_usd: float | None = None  # for GPUs held beyond those

    @property
    def late(self) -> float:
        """Requests that waited longer than their model's SLO."""
        return (self.violation or 0.0) * self.requests


class Paid(Struct, frozen=True):
    """What GPUs cost: those of primary pools are paid for whether used or not, others while somebody holds them.

    gpus: GPUs of the primary pools.
    usd_per_gpu_hour: price of one of them, in USD.
    rented_usd_per_gpu_hour: price of one GPU beyond them, in USD.
    """

    gpus: int
    usd_per_gpu_hour: float
    rented_usd_per_gpu_hour: float

    def bill(self, gpus: NDArray[np.int32]) -> tuple[float, float]:
        """USD for the owned and for the rented GPUs of a run that held so many: `gpus` has shape (seconds,)."""
        rented = np.maximum(gpus - self.gpus, 0).sum() / 3600 * self.rented_usd_per_gpu_hour
        return self.gpus * len(gpus) / 3600 * self.usd_per_gpu_hour, float(rented)


class SimulatedMove(Struct, frozen=True):
    """One write of the service: `second` since the beginning, and what moved and why, as a sentence."""

    second: float
    said: str


@dataclass(frozen=True, slots=True)
class ContestRun:
    """One run with its numbers.

    record: what happened in the run, second by second.
    outcome: the numbers that the run comes to.
    owned: replicas that each model owns, which is its entitlement, in the scenario's order.
    moves: changes of the service's plans, in order; empty for a peer, which explains nothing.
    """

    record: Record
    outcome: RunOutcome
    owned: Sequence[int]
    moves: Sequence[SimulatedMove] = ()


def outcome(record: Record, name: str, entitlements: Sequence[int], paid: Paid | None = None) -> RunOutcome:
    """The numbers of a run; `entitlements`: replicas that each model owns, in the scenario's order."""
    scenario, total = record.scenario, score(record)
    owned_usd, rented_usd = (None, None) if paid is None else paid.bill(record.gpus)
    minutes = [_minutes(record, index) for index in range(len(entitlements))]
    models = tuple(
        _model(record, index, owned, late)
        for index, (owned, late) in enumerate(zip(entitlements, minutes, strict=True))
    )
    with_requests = [each for each in models if each.violation is not None]
    worst = max(with_requests, key=lambda each: each.violation or 0.0, default=None)
    return RunOutcome(
        name=name,
        requests=sum(each.requests for each in models),
        violation=total.violation if with_requests else None,
        late_minutes=_share(np.concatenate(minutes)) if minutes else None,
        worst_model=worst.model if worst else None,
        worst_model_violation=worst.violation if worst else None,
        gpu_hours=total.gpu_hours,
        cost_usd=total.cost_usd if scenario.has_prices else None,
        starts_and_stops=total.starts_and_stops,
        lent_gpu_hours=sum(each.lent_gpu_hours for each in models),
        floor_breaches=total.floor_breaches,
        models=models,
        owned_usd=owned_usd,
        rented_usd=rented_usd,
    )


def _minutes(record: Record, index: int) -> NDArray[np.bool_]:
    """For each minute that has requests, whether its p95 waited longer than the SLO."""
    seconds = record.scenario.seconds
    begins = np.arange(0, seconds, MINUTE_SECONDS)
    requests = np.add.reduceat(record.scenario.models[index].requests[:seconds], begins)
    late = np.add.reduceat(record.late[index, :seconds], begins)
    return (late > (1.0 - QUANTILE) * requests)[requests > 0.0]


def _share(of: NDArray[np.bool_]) -> float | None:
    return float(of.mean()) if len(of) else None


def _model(record: Record, index: int, owned: int, late_minutes: NDArray[np.bool_]) -> ModelOutcome:
    model, ready = record.scenario.models[index], record.ready[index]
    requests = float(model.requests[: record.scenario.seconds].sum())
    gpu_hours = model.gpus / 3600
    return ModelOutcome(
        model=model.name,
        requests=requests,
        violation=float(record.late[index].sum()) / requests if requests else None,
        late_minutes=_share(late_minutes),
        lost=float(record.lost[index].sum()),
        gpu_hours=float(ready.sum()) * gpu_hours,
        lent_gpu_hours=float(np.maximum(ready - owned, 0).sum()) * gpu_hours,
    )
