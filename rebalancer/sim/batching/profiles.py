"""Published profiles of serving engines, read from the folder of traces: what the model is held against."""

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rebalancer.sim.traces.folder import trace_file


class Cell(NamedTuple):
    """AIBrix's profile at one rate: means over 100 requests, all alike.

    gpu: kind of GPU, `a100` or `a40`.
    prompt: prompt tokens of each request.
    tokens: tokens that each request generates.
    rate: requests that arrive per second.
    end_to_end_seconds: mean seconds from a request's arrival to its last token.
    throughput: requests that were finished per second.
    """

    gpu: str
    prompt: int
    tokens: int
    rate: float
    end_to_end_seconds: float
    throughput: float


class Median(NamedTuple):
    """Splitwise's measurement of one batch: medians of its runs.

    model: name of the model, as `llama2-70b`.
    hardware: kind of GPU, as `h100-80gb`.
    tensor_parallel: GPUs over which the model is split.
    batch: requests of the batch.
    prompt: prompt tokens of each request.
    prompt_seconds: seconds to compute the prompts of the whole batch.
    token_seconds: seconds from one token of a request to its next.
    """

    model: str
    hardware: str
    tensor_parallel: int
    batch: int
    prompt: int
    prompt_seconds: float
    token_seconds: float


def aibrix(folder: Path) -> list[Cell]:
    """Llama-2-7B on A100 and A40, in the file's order. Raises MissingTrace."""
    means: dict[tuple[str, int, int, float], dict[str, float]] = defaultdict(dict)
    for row in _rows(trace_file(folder, "service/aibrix_llama2-7b_profile.csv.gz")):
        key = row["gpu"], int(row["input_tokens"]), int(row["output_tokens"]), float(row["request_rate"])
        means[key][row["metric"]] = float(row["mean"])
    return [Cell(*key, of["E2E"], of["TPUT"]) for key, of in means.items()]


def splitwise(folder: Path) -> list[Median]:
    """Llama-2-70B and BLOOM-176B on A100 and H100, in the file's order. Raises MissingTrace."""
    return [
        Median(
            row["model"],
            row["hardware"],
            int(row["tensor_parallel"]),
            int(row["batch_size"]),
            int(row["prompt_size"]),
            float(row["prompt_ms"]) / 1000,
            float(row["tpot_ms"]) / 1000,
        )
        for row in _rows(trace_file(folder, "service/splitwise_llm_perf.csv.gz"))
    ]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
        yield from csv.DictReader(text)
