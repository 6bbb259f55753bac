"""The batching model against published profiles; every number is printed (`pytest -s`)."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from rebalancer.sim.batching.engine import BatchingEngine
from rebalancer.sim.batching.engines import LLAMA2_7B
from rebalancer.sim.batching.profiles import Cell, Median, aibrix, splitwise
from rebalancer.sim.batching.single import alone

pytestmark = pytest.mark.timeout(300)  # the first run compiles the kernel: 15 s of an idle core

WITHIN = 0.15
NAMED = ((512, 128), (1024, 256), (2048, 512))
# What the engines were calibrated on: six numbers from 14 cells of 280, by least squares of the logarithms.
CALIBRATED = {
    "a100": (
        *((128, 512, 1), (128, 512, 64), (256, 4, 64), (128, 32, 32), (512, 128, 8), (512, 128, 64)),
        *((2048, 128, 64), (2048, 4, 16), (2048, 512, 1), (2048, 512, 64), (1024, 256, 4), (1024, 256, 64)),
        *((1024, 8, 16), (2048, 16, 8)),
    ),
    "a40": (
        *((128, 512, 1), (128, 512, 64), (256, 4, 64), (128, 32, 16), (512, 128, 4), (512, 128, 64)),
        *((2048, 128, 64), (2048, 4, 8), (2048, 512, 1), (2048, 512, 64), (1024, 256, 2), (1024, 256, 64)),
        *((1024, 8, 8), (2048, 16, 4)),
    ),
}
# The profile's harness hands a request to an idle engine only when the next one arrives (every second time), which is
# no property of an engine: with arrivals 1 s apart it adds 0.35 s to 0.06 s. Cells in which more than this share of
# arrivals find the engine idle are printed, and judged by their throughput alone.
IDLE_SHARE = 0.1


# Where the end-to-end mean is off by more than WITHIN, all of them, and why.
EDGE = "throughput is within 9 %, but so near to what the engine can do the wait of 100 requests hangs on an iteration"
ALONE = "the profile is alone with it: the cells beside it, of other rates and answers, are on the model's side"
OUTSIDE = {
    ("a100", 256, 4, 64): EDGE,
    ("a40", 128, 4, 64): EDGE,
    ("a40", 128, 8, 64): EDGE,
    ("a40", 128, 16, 64): EDGE,
    ("a40", 256, 4, 64): EDGE,
    ("a40", 256, 8, 64): EDGE,
    ("a40", 256, 16, 16): ALONE,  # 1.4 s, where 8 tokens take 0.5 s
    ("a40", 1024, 512, 1): EDGE,
    ("a40", 1024, 512, 32): ALONE,  # 42 s and 1.2 a second; 74 and 75 s and 0.9 a second at rates 16 and 64
    ("a40", 2048, 8, 4): ALONE,  # 3.8 s, where 4 tokens take 4.5 s
    ("a40", 2048, 8, 8): ALONE,  # 5 s and 3.9 a second; 14 s and 2.9 a second at rate 16
}


class Result(NamedTuple):
    cell: Cell
    end_to_end_seconds: float
    throughput: float
    idle_share: float

    @property
    def errors(self) -> tuple[float, float]:
        return (
            self.end_to_end_seconds / self.cell.end_to_end_seconds - 1,
            self.throughput / self.cell.throughput - 1,
        )

    @property
    def calibrates(self) -> bool:
        return (self.cell.prompt, self.cell.tokens, self.cell.rate) in CALIBRATED[self.cell.gpu]


def played(cell: Cell) -> Result:
    """The profile's run: 100 requests, a Poisson process drawn with NumPy's old generator, seed 0."""
    gaps = np.random.RandomState(0).exponential(size=99) / cell.rate
    arrived = np.concatenate([[0.0], np.cumsum(gaps)])
    log = alone(LLAMA2_7B[cell.gpu], arrived, np.full(100, cell.prompt), np.full(100, cell.tokens))
    over = np.maximum.accumulate(arrived + log[:, 1])
    return Result(cell, float(log[:, 1].mean()), 100 / float(over[-1]), float(np.mean(arrived[1:] >= over[:-1])))


def told(*lines: str) -> None:
    print("\n".join(lines))  # noqa: T201  # a gate shows both numbers


def line(result: Result) -> str:
    cell, (late, through) = result.cell, result.errors
    marks = "calibrates " * result.calibrates + "idle " * (result.idle_share > IDLE_SHARE)
    return (
        f"  {cell.prompt:4d}/{cell.tokens:<3d} @ {cell.rate:2.0f}:"
        f" {cell.end_to_end_seconds:7.3f} {result.end_to_end_seconds:7.3f} {late:+7.1%};"
        f" {cell.throughput:6.3f} {result.throughput:6.3f} {through:+6.1%} {marks}"
    )


def _key(result: Result) -> tuple[str, int, int, int]:
    cell = result.cell
    return cell.gpu, cell.prompt, cell.tokens, round(cell.rate)


@pytest.mark.parametrize("gpu", ["a100", "a40"])
def test_end_to_end_and_throughput_are_those_of_the_aibrix_profile(traces: Path, gpu: str) -> None:
    results = [played(cell) for cell in aibrix(traces) if cell.gpu == gpu]
    told(
        f"\n{gpu}: prompt/tokens @ requests/s: end-to-end s profile, model, error; requests/s profile, model, error",
        *map(line, results),
    )
    busy = [result for result in results if result.idle_share <= IDLE_SHARE]
    fresh = [result for result in busy if not result.calibrates]
    close = [result for result in fresh if abs(result.errors[0]) <= WITHIN]
    mean = float(np.mean([abs(result.errors[0]) for result in fresh]))
    through = [abs(result.errors[1]) for result in results]
    outside = [result for result in busy if abs(result.errors[0]) > WITHIN]
    named = [result for result in results if (result.cell.prompt, result.cell.tokens) in NAMED]
    worst = max(abs(error) for result in named for error in result.errors)
    told(
        f"{gpu}: {len(results)} cells; {len(busy)} busy, {len(fresh)} of them not calibrated on",
        f"  end-to-end within {WITHIN:.0%}: {len(close)} of {len(fresh)}, mean error {mean:.1%}",
        *(f"  outside: {'/'.join(map(str, _key(result)))}: {OUTSIDE.get(_key(result), '?')}" for result in outside),
        f"  throughput within {WITHIN:.0%}: {sum(e <= WITHIN for e in through)} of {len(through)}",
        f"  {', '.join(f'{p}/{t}' for p, t in NAMED)} at all rates: worst of both {worst:.1%} (bound {WITHIN:.0%})",
    )
    assert len(named) == 21
    assert worst <= WITHIN
    assert {_key(result) for result in outside} == {key for key in OUTSIDE if key[0] == gpu}
    assert all(abs(result.errors[1]) <= 0.09 for result in outside if OUTSIDE[_key(result)] == EDGE)
    assert mean <= 0.06
    assert sum(error <= WITHIN for error in through) >= 0.99 * len(through)


def token_seconds(engine: BatchingEngine, batch: int, tokens: int = 32) -> float:
    """A batch that starts at once and stays together."""
    log = alone(engine, np.zeros(batch), np.full(batch, 512), np.full(batch, tokens))
    return float(np.mean((log[:, 1] - log[:, 0]) / (tokens - 1)))


def test_time_per_token_by_batch_is_that_of_splitwise(traces: Path) -> None:
    """Interpolated from the medians at 1, 32 and 64; the other batches are what is tested."""
    groups: dict[tuple[str, str, int], list[Median]] = {}
    for median in splitwise(traces):
        if median.prompt == 512:
            groups.setdefault((median.model, median.hardware, median.tensor_parallel), []).append(median)
    errors = []
    for group, medians in groups.items():
        at = {median.batch: median.token_seconds for median in medians}
        known = [batch for batch in (1, 32, 64) if batch in at]
        engine = BatchingEngine(
            prefill_per_second=1e9,
            batches=tuple(known),
            seconds_at=tuple(at[batch] for batch in known),
            kv_tokens=10**6,
            tokens_per_iteration=64 * 512 + 65,  # one iteration computes all prompts: the batch stays together
        )
        played = {batch: token_seconds(engine, batch) for batch in sorted(at)}
        errors += [played[batch] / at[batch] - 1 for batch in at]
        cells = ", ".join(f"{batch}: {at[batch] * 1000:.1f} {played[batch] * 1000:.1f}" for batch in sorted(at))
        told(f"{' '.join(map(str, group))}: batch: ms per token measured, model: {cells}")
    told(f"worst of {len(errors)}: {max(map(abs, errors)):.1%} (bound {WITHIN:.0%})")
    assert len(errors) >= 70
    assert max(map(abs, errors)) <= WITHIN
