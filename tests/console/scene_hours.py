"""The last hours of the scene: who held the GPUs, and one model beside them."""

from msgspec.structs import replace

from rebalancer.api.pages.history import HistoryPage, ModelGpus, ModelHistory, PoolHistory
from tests.console.scene import BADGES, NOW, TIMELINE

STEPS = 360
GAP = range(200, 231)  # the service was down for half an hour
FIRST_AT = NOW - NOW % 60 - (STEPS - 1) * 60


def _steps(*levels: tuple[int, int]) -> tuple[int | None, ...]:
    """(from which step, how many), each until the next; nothing is known in the gap."""
    values = [[count for begin, count in levels if begin <= n][-1] for n in range(STEPS)]
    return tuple(None if n in GAP else value for n, value in enumerate(values))


def _amounts(*levels: tuple[int, float]) -> tuple[float | None, ...]:
    return tuple(
        None if each is None else each / 10 for each in _steps(*((n, round(10 * value)) for n, value in levels))
    )


HISTORY = HistoryPage(
    at=NOW,
    first_at=FIRST_AT,
    step_seconds=60,
    steps=STEPS,
    pools=(
        PoolHistory(
            "a100",
            "primary",
            _steps((0, 32)),
            (
                ModelGpus("llama-70b", _steps((0, 8), (345, 12), (357, 16))),
                ModelGpus("qwen-32b", _steps((0, 12), (357, 8))),
                ModelGpus("mixtral-8x7b", _steps((0, 12), (300, 10), (310, 12), (345, 8))),
                ModelGpus("", _steps((0, 0), (300, 2), (310, 0))),
            ),
        ),
        PoolHistory(
            "spot",
            "elastic",
            _steps((0, 16)),
            (ModelGpus("sdxl", _steps((0, 8))), ModelGpus("llama-70b", _steps((0, 4)))),
        ),
    ),
    late_per_minute=_amounts((0, 0), (340, 12.5), (350, 0)),
    late=("llama-70b",),
    timeline=tuple(each for each in TIMELINE if each.kind in {"notice", "override"} or each.shift),
    badges=BADGES,
)

MODEL_HISTORY = replace(
    HISTORY,
    pools=tuple(
        replace(pool, models=tuple(each for each in pool.models if each.model == "llama-70b")) for pool in HISTORY.pools
    ),
    models=(
        ModelHistory(
            model="llama-70b",
            slo_seconds=2.0,
            work=_amounts((0, 1.5), (335, 5.2)),
            demand=_steps((0, 3), (335, 7)),
            allocation=_steps((0, 3), (345, 7)),
            ready=_steps((0, 3), (357, 5)),
            latency_seconds=_amounts((0, 0.4), (340, 3.1), (350, 1.2)),
            late_per_minute=HISTORY.late_per_minute,
        ),
    ),
)
