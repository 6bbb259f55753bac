from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalancer.sim.traces.azure_functions import azure_functions
from rebalancer.sim.traces.azure_llm import azure_llm
from rebalancer.sim.traces.folder import MissingTrace, trace_file, traces_folder
from rebalancer.sim.traces.servegen import servegen


def test_the_option_goes_before_the_environment(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()

    assert traces_folder(other, {"REBALANCER_TRACES": str(tmp_path)}) == other
    assert traces_folder(None, {"REBALANCER_TRACES": str(tmp_path)}) == tmp_path


@pytest.mark.parametrize("environment", [{}, {"REBALANCER_TRACES": ""}])
def test_without_a_folder_the_error_says_how_to_name_one(environment: dict[str, str]) -> None:
    with pytest.raises(MissingTrace, match="--traces FOLDER or set REBALANCER_TRACES"):
        traces_folder(None, environment)


def test_a_folder_that_is_not_there_is_named_with_where_it_came_from(tmp_path: Path) -> None:
    with pytest.raises(MissingTrace, match=r"REBALANCER_TRACES is '.*gone'"):
        traces_folder(None, {"REBALANCER_TRACES": str(tmp_path / "gone")})
    with pytest.raises(MissingTrace, match=r"--traces is '.*gone'"):
        traces_folder(tmp_path / "gone", {})


def test_a_missing_file_is_named_with_its_folder(tmp_path: Path) -> None:
    with pytest.raises(MissingTrace, match=r"no trace 'a.parquet' in '.*'"):
        trace_file(tmp_path, "a.parquet")


def test_servegen_adds_up_the_rows_of_a_second_and_keeps_the_order_asked_for(tmp_path: Path) -> None:
    rows = {
        "model": ["m-large", "m-mid", "m-large", "m-large"],
        "t": [3, 3, 3, 86_399],
        "requests": [1, 2, 4, 8],
        "in_tokens": [10, 20, 40, 80],
        "out_tokens": [1, 2, 3, 4],
    }
    pq.write_table(pa.table(rows), tmp_path / "servegen_day0_1s.parquet")

    demand = servegen(tmp_path, 0, ("m-mid", "m-large"))

    mid, large = demand.streams
    assert (mid.model, mid.requests[3], large.requests[3], large.prompt_tokens[3]) == ("m-mid", 2, 5, 50)
    assert (large.requests[86_399], large.generated_tokens[86_399]) == (8, 4)
    assert demand.seconds == 86_400
    with pytest.raises(MissingTrace, match="no rows of model 'm-small'"):
        servegen(tmp_path, 0)


def test_a_file_without_a_column_is_refused_with_its_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": [0], "requests": [1]}), tmp_path / "azure2023_code_1s.parquet")

    with pytest.raises(MissingTrace, match="in_tokens"):
        azure_llm(tmp_path, "code")


def test_a_file_that_is_no_parquet_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "azure2023_code_1s.parquet").write_text("t,requests\n")

    with pytest.raises(MissingTrace, match=r"azure2023_code_1s.parquet.* is not a Parquet file"):
        azure_llm(tmp_path, "code")


def test_functions_of_one_day_are_put_in_the_order_of_their_names(tmp_path: Path) -> None:
    rows = {"function": ["b", "a", "b", "c"], "day": [8, 8, 8, 9], "minute": [0, 1439, 5, 0], "requests": [1, 2, 3, 4]}
    pq.write_table(pa.table(rows), tmp_path / "azurefn2019_1min.parquet")

    day = azure_functions(tmp_path, 8)

    assert day.names == ("a", "b")
    assert (day.counts[0, 1439], day.counts[1, 0], day.counts[1, 5], day.counts.sum()) == (2, 1, 3, 6)
    with pytest.raises(MissingTrace, match="day 10"):
        azure_functions(tmp_path, 10)
