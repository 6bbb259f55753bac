from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalancer.sim.traces.azure import azure_requests
from rebalancer.sim.traces.azure_llm import azure_llm
from rebalancer.sim.traces.folder import MissingTrace
from tests.beside import recorded_traffic


def test_requests_come_in_the_order_of_their_instants(tmp_path: Path) -> None:
    table = pa.table({"t": [2.5, 0.0, 1.25], "in_tokens": [3, 1, 2], "out_tokens": [30, 10, 20]})
    pq.write_table(table, tmp_path / "azure2023_code_requests.parquet")
    recorded = azure_requests(tmp_path, "code")
    assert recorded.arrived.tolist() == [0.0, 1.25, 2.5]
    assert recorded.prompt.tolist() == [1, 2, 3]
    assert recorded.tokens.tolist() == [10, 20, 30]


def test_a_trace_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingTrace, match="azure2023_conv_requests"):
        azure_requests(tmp_path, "conv")


@pytest.mark.parametrize("service", ["code", "conv"])
def test_requests_add_up_to_the_trace_by_the_second(service: str) -> None:
    folder = recorded_traffic()
    recorded = azure_requests(folder, service)  # type: ignore[arg-type]  # one of the two
    stream = azure_llm(folder, service).streams[0]  # type: ignore[arg-type]  # one of the two
    assert np.array_equal(np.bincount(recorded.arrived.astype(int)), stream.requests)
    assert recorded.prompt.sum() == stream.prompt_tokens.sum()
    assert recorded.tokens.sum() == stream.generated_tokens.sum()
