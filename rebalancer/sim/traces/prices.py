"""What a GPU costs: AWS on-demand prices, and how often spot instances are taken back and what they save."""

import csv
import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log1p
from pathlib import Path

from rebalancer.sim.traces.folder import MissingTrace, trace_file

ON_DEMAND = "prices/aws_ondemand_gpu.csv.gz"
ADVISOR = "spot/aws_spot_advisor_gpu.csv.gz"


HOURS_PER_MONTH = 730.5
# The middle of each of the advisor's buckets; the last has no end: a quarter.
_MONTHLY_SHARE = {"<5%": 0.025, "5-10%": 0.075, "10-15%": 0.125, "15-20%": 0.175, ">20%": 0.25}


@dataclass(frozen=True, slots=True)
class Interruption:
    """`label`: the advisor's monthly share of instances taken back, such as "<5%"; `saving`: 0-1 of the price."""

    label: str
    saving: float

    @property
    def per_hour(self) -> float:
        """How often one instance is taken back, as a constant rate that comes to its bucket's share in a month."""
        return -log1p(-_MONTHLY_SHARE[self.label]) / HOURS_PER_MONTH


def usd_per_gpu_hour(folder: Path, instance_type: str) -> float:
    """On demand in us-east-1. Raises MissingTrace."""
    path = trace_file(folder, ON_DEMAND)
    for row in _rows(path):
        if row["instance_type"] == instance_type:
            return float(row["usd_per_hour"]) / int(row["gpus"])
    raise MissingTrace(f"{str(path)!r} has no price of {instance_type!r}")


def interruption(folder: Path, region: str, instance_type: str) -> Interruption:
    """How often the type is interrupted, as the Spot Instance Advisor has it. Raises MissingTrace."""
    path = trace_file(folder, ADVISOR)
    for row in _rows(path):
        if (row["region"], row["instance_type"]) == (region, instance_type):
            return Interruption(row["interruption_label"], int(row["savings_pct"]) / 100)
    raise MissingTrace(f"{str(path)!r} has nothing of {instance_type!r} in {region!r}")


def _rows(path: Path) -> Iterator[Mapping[str, str]]:
    with gzip.open(path, "rt", newline="") as lines:
        yield from csv.DictReader(lines)
