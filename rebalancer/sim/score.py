"""What one run is worth: the numbers of a row of the table."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.demand import F64
from rebalancer.sim.record import Record

BLOCK_SECONDS = 600  # of the paired bootstrap
CALM_SECONDS = 60  # without a violation: the surge is over for its users


@dataclass(frozen=True, slots=True)
class Score:
    """The numbers of one run. Shares are from 0 to 1.

    violation: share of all requests that were late.
    worst_model_violation: the same share for the model where it is largest.
    late_work_share: share of all work that came to a model in a second of which requests were late (what `bound`
        bounds).
    gpu_hours: GPU-hours held, those of starting and ending replicas included.
    cost_usd: USD that GPUs cost over the run, 0 without prices.
    starts_and_stops: replicas that were started and replicas that were ended, together.
    floor_breaches: how often a model was asked to have fewer replicas than its floor.
    recover_p95_seconds: 95th percentile, over the scenario's surges, of the seconds from the first late second to the
        last one before 60 s without any; 0 for a surge in which nothing was late, None without surges.
    """

    violation: float
    worst_model_violation: float
    late_work_share: float
    gpu_hours: float
    cost_usd: float
    starts_and_stops: int
    floor_breaches: int
    recover_p95_seconds: float | None = None


def score(record: Record) -> Score:
    """Sums over the whole run."""
    scenario = record.scenario
    requests = np.stack([model.requests[: scenario.seconds] for model in scenario.models])
    work = np.stack([model.work[: scenario.seconds] for model in scenario.models])
    by_model = record.late.sum(axis=1) / np.maximum(requests.sum(axis=1), 1e-12)
    late_work = np.where(record.late > 0.0, work, 0.0).sum()
    gpu_hours = float(record.gpus.sum()) / 3600
    recovered = recoveries(record.late.sum(axis=0) > 0.0, scenario.surges)
    return Score(
        violation=float(record.late.sum() / max(requests.sum(), 1e-12)),
        worst_model_violation=float(by_model.max()),
        late_work_share=float(late_work / max(work.sum(), 1e-12)),
        gpu_hours=gpu_hours,
        cost_usd=gpu_hours * scenario.usd_per_gpu_hour if record.usd is None else record.usd,
        starts_and_stops=record.starts + record.stops,
        floor_breaches=record.floor_breaches,
        recover_p95_seconds=float(np.quantile(recovered, 0.95)) if recovered else None,
    )


def recoveries(late: NDArray[np.bool_], surges: tuple[int, ...]) -> list[int]:
    """Seconds that each surge took to pass, 0 where nothing was late until the next one began.

    `late`: (seconds,), whether any request of that second was.
    """
    taken = []
    for begin, end in zip(surges, (*surges, len(late))[1:], strict=True):
        seconds = np.flatnonzero(late[begin:end])
        if not len(seconds):
            taken.append(0)
            continue
        calm = np.flatnonzero(np.diff(seconds) > CALM_SECONDS)
        last = seconds[calm[0]] if len(calm) else seconds[-1]
        taken.append(int(last - seconds[0]) + 1)
    return taken


def violations_by_block(record: Record) -> F64:
    """(blocks, 2): late requests and all requests per 10 minutes; what paired intervals are drawn from."""
    scenario = record.scenario
    blocks = np.arange(0, scenario.seconds, BLOCK_SECONDS)
    late = np.add.reduceat(record.late.sum(axis=0), blocks)
    requests = np.add.reduceat(sum(model.requests[: scenario.seconds] for model in scenario.models), blocks)
    return np.column_stack([late, requests])
