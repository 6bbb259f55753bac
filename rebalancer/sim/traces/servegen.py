"""Days of language-model traffic at one second, generated from ServeGen's production rates.

Requests are at the scale of the file, tokens are sums over a second's requests.
"""

from collections.abc import Sequence
from pathlib import Path

from rebalancer.sim.demand import DemandStreams, Stream
from rebalancer.sim.traces.columns import columns, per_slot
from rebalancer.sim.traces.folder import MissingTrace, trace_file

LLM_3 = ("m-large", "m-mid", "m-small")
LLM_5 = (*LLM_3, "deepseek-r1", "mm-image")  # day 0 only
DAY_SECONDS = 86_400


def servegen(folder: Path, day: int, models: Sequence[str] = LLM_3) -> DemandStreams:
    """One day, second by second, the streams in the order of `models`. Raises MissingTrace."""
    path = trace_file(folder, f"servegen_day{day}_1s.parquet")
    names, second, requests, prompt, generated = columns(path, "model", "t", "requests", "in_tokens", "out_tokens")
    streams = []
    for model in models:
        rows = names == model
        if not rows.any():
            raise MissingTrace(f"{str(path)!r} has no rows of model {model!r}")
        streams.append(
            Stream(
                model,
                requests=per_slot(second[rows], requests[rows], DAY_SECONDS),
                prompt_tokens=per_slot(second[rows], prompt[rows], DAY_SECONDS),
                generated_tokens=per_slot(second[rows], generated[rows], DAY_SECONDS),
            )
        )
    return DemandStreams(f"servegen day {day}", tuple(streams))
