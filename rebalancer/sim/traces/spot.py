"""Spot capacity as it was: how many instances of a zone or a group could be had, tick by tick."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.traces.columns import columns
from rebalancer.sim.traces.folder import MissingTrace, trace_file


@dataclass(frozen=True, slots=True)
class SpotSeries:
    """`available`: (ticks,), instances from each tick to the next, `tick_seconds` apart."""

    name: str
    tick_seconds: float
    available: NDArray[np.int64]

    def per_second(self, seconds: int, most: int) -> NDArray[np.int64]:
        """How many of at most `most` instances there are, shape (seconds,). A series that ends starts again."""
        ticks = (np.arange(seconds) / self.tick_seconds).astype(np.int64) % len(self.available)
        return np.minimum(self.available[ticks], most)


def skypilot(folder: Path, zone: str, nodes: int = 16) -> SpotSeries:
    """A zone's series for groups of `nodes` instances, such as us-west-2a_v100_1. Raises MissingTrace.

    16 instances: us-west-2a, us-west-2c and us-east-2b, 300 s apart, 11 to 16 days.
    """
    path = trace_file(folder, "spot/skypilot_spot_traces.parquet")
    sizes, zones, gaps, order, values = columns(path, "nodes", "zone", "gap_s", "i", "value")
    rows = np.flatnonzero((sizes == f"{nodes}-node") & (zones == zone))
    if not len(rows):
        there = ", ".join(sorted(set(zones[sizes == f"{nodes}-node"].tolist())))
        raise MissingTrace(f"{str(path)!r} has no series of {nodes} instances in {zone!r}; it has: {there or 'none'}")
    gap = gaps[rows][0]
    rows = rows[gaps[rows] == gap]  # a zone observed twice: the first series
    rows = rows[np.argsort(order[rows], kind="stable")]
    return SpotSeries(zone, float(gap), np.rint(values[rows].astype(np.float64)).astype(np.int64))


def bamboo(folder: Path, group: Literal["p3", "g4dn"], tick_seconds: int = 60) -> SpotSeries:
    """How many instances of an EC2 spot group ran, over eleven hours; they go in bulk. Raises MissingTrace."""
    path = trace_file(folder, f"spot/bamboo_{group}_events.parquet")
    at, events = columns(path, "t_ms", "event")
    ticks = (at.astype(np.int64) // 1000) // tick_seconds
    change = np.zeros(int(ticks.max()) + 1, np.int64)
    np.add.at(change, ticks, np.where(events == "add", 1, -1))
    return SpotSeries(f"bamboo {group}", float(tick_seconds), np.cumsum(change))
