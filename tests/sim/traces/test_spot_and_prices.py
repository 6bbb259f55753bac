import gzip
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalancer.sim.traces.folder import MissingTrace
from rebalancer.sim.traces.prices import HOURS_PER_MONTH, Interruption, interruption, usd_per_gpu_hour
from rebalancer.sim.traces.spot import bamboo, skypilot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spot").mkdir()
    (tmp_path / "prices").mkdir()
    return tmp_path


def test_a_zone_is_read_in_the_order_of_its_ticks(folder: Path) -> None:
    rows = {
        "nodes": ["16-node", "16-node", "16-node", "1-node"],
        "zone": ["a", "a", "b", "a"],
        "gap_s": [300.0, 300.0, 300.0, 60.0],
        "i": [1, 0, 0, 0],
        "value": [12.0, 3.0, 9.0, 1.0],
    }
    pq.write_table(pa.table(rows), folder / "spot" / "skypilot_spot_traces.parquet")

    series = skypilot(folder, "a")

    assert (series.tick_seconds, series.available.tolist()) == (300.0, [3, 12])
    with pytest.raises(MissingTrace, match="it has: a, b"):
        skypilot(folder, "c")


def test_what_is_available_is_at_most_what_is_wanted_and_starts_again_at_its_end(folder: Path) -> None:
    rows = {"nodes": ["16-node"] * 2, "zone": ["a"] * 2, "gap_s": [2.0] * 2, "i": [0, 1], "value": [3.0, 12.0]}
    pq.write_table(pa.table(rows), folder / "spot" / "skypilot_spot_traces.parquet")

    assert skypilot(folder, "a").per_second(6, most=8).tolist() == [3, 3, 8, 8, 3, 3]


def test_a_group_counts_who_came_and_who_went(folder: Path) -> None:
    rows = {
        "t_ms": [0, 0, 60_000, 180_000, 180_000],
        "event": ["add", "add", "add", "remove", "remove"],
        "node": ["1", "2", "3", "1", "2"],
    }
    pq.write_table(pa.table(rows), folder / "spot" / "bamboo_p3_events.parquet")

    assert bamboo(folder, "p3").available.tolist() == [2, 3, 3, 1]


def test_a_price_is_that_of_one_gpu(folder: Path) -> None:
    with gzip.open(folder / "prices" / "aws_ondemand_gpu.csv.gz", "wt") as file:
        file.write("region,instance_type,gpu,gpus,usd_per_hour\nus-east-1,x.large,H100,8,56\n")

    assert usd_per_gpu_hour(folder, "x.large") == 7.0
    with pytest.raises(MissingTrace, match=r"y\.large"):
        usd_per_gpu_hour(folder, "y.large")


def test_the_advisor_says_how_often_and_how_much_cheaper(folder: Path) -> None:
    with gzip.open(folder / "spot" / "aws_spot_advisor_gpu.csv.gz", "wt") as file:
        file.write("region,instance_type,interruption_bucket,interruption_label,savings_pct\nr,x,0,<5%,65\n")

    told = interruption(folder, "r", "x")

    assert (told.label, told.saving) == ("<5%", 0.65)
    with pytest.raises(MissingTrace, match="'x' in 's'"):
        interruption(folder, "s", "x")


@pytest.mark.parametrize(("label", "share"), [("<5%", 0.025), ("10-15%", 0.125), (">20%", 0.25)])
def test_an_interruption_rate_comes_to_its_share_in_a_month(label: str, share: float) -> None:
    rate = Interruption(label, saving=0.5).per_hour

    assert 1 - math.exp(-rate * HOURS_PER_MONTH) == pytest.approx(share)
