"""An hour of two language-model services of Azure, 2023, second by second."""

from pathlib import Path
from typing import Literal

from rebalancer.sim.demand import DemandStreams, Stream
from rebalancer.sim.traces.columns import columns, per_slot
from rebalancer.sim.traces.folder import trace_file

Service = Literal["code", "conv"]


def azure_llm(folder: Path, service: Service) -> DemandStreams:
    """One service's arrivals with their tokens. Raises MissingTrace."""
    path = trace_file(folder, f"azure2023_{service}_1s.parquet")
    second, requests, prompt, generated = columns(path, "t", "requests", "in_tokens", "out_tokens")
    seconds = int(second.max()) + 1
    stream = Stream(service, *(per_slot(second, each, seconds) for each in (requests, prompt, generated)))
    return DemandStreams(f"azure 2023 {service}", (stream,))
