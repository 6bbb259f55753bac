"""Azure's 2023 traces of language-model inference, one request a row: instants and tokens as recorded."""

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.demand import F64
from rebalancer.sim.traces.columns import columns
from rebalancer.sim.traces.folder import trace_file

Service = Literal["code", "conv"]


class RecordedRequests(NamedTuple):
    """Requests in the order of their instants: seconds from the first, prompt tokens, tokens generated."""

    arrived: F64
    prompt: NDArray[np.int64]
    tokens: NDArray[np.int64]


def azure_requests(folder: Path, service: Service) -> RecordedRequests:
    """An hour of `code` completion (bursts, long prompts) or `conv`ersation. Raises MissingTrace."""
    arrived, prompt, tokens = columns(
        trace_file(folder, f"azure2023_{service}_requests.parquet"), "t", "in_tokens", "out_tokens"
    )
    order = np.argsort(arrived, kind="stable")
    return RecordedRequests(
        arrived[order].astype(np.float64), prompt[order].astype(np.int64), tokens[order].astype(np.int64)
    )
