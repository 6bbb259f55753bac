"""What one run is worth: a row of the table."""

from dataclasses import dataclass

import numpy as np

from rebalancer.sim.demand import F64
from rebalancer.sim.record import Record

BLOCK_SECONDS = 600  # of the paired bootstrap


@dataclass(frozen=True, slots=True)
class Score:
    """`violation`: late requests over all; `late_work_share`: the same weighted by work (what `bound` bounds)."""

    violation: float
    worst_model_violation: float
    late_work_share: float
    gpu_hours: float
    cost_usd: float
    starts_and_stops: int
    floor_breaches: int


def score(record: Record) -> Score:
    """Sums over the whole run."""
    scenario = record.scenario
    requests = np.stack([model.requests[: scenario.seconds] for model in scenario.models])
    work = np.stack([model.work[: scenario.seconds] for model in scenario.models])
    by_model = record.late.sum(axis=1) / np.maximum(requests.sum(axis=1), 1e-12)
    late_work = np.where(record.late > 0.0, work, 0.0).sum()
    gpu_hours = float(record.gpus.sum()) / 3600
    return Score(
        violation=float(record.late.sum() / max(requests.sum(), 1e-12)),
        worst_model_violation=float(by_model.max()),
        late_work_share=float(late_work / max(work.sum(), 1e-12)),
        gpu_hours=gpu_hours,
        cost_usd=gpu_hours * scenario.usd_per_gpu_hour,
        starts_and_stops=record.starts + record.stops,
        floor_breaches=record.floor_breaches,
    )


def violations_by_block(record: Record) -> F64:
    """(blocks, 2): late requests and all requests per 10 minutes; what paired intervals are drawn from."""
    scenario = record.scenario
    blocks = np.arange(0, scenario.seconds, BLOCK_SECONDS)
    late = np.add.reduceat(record.late.sum(axis=0), blocks)
    asked = np.add.reduceat(sum(model.requests[: scenario.seconds] for model in scenario.models), blocks)
    return np.column_stack([late, asked])
