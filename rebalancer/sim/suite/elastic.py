"""The scenarios with an elastic pool: S5's nodes that Karpenter brings, S6's spot machines. They raise MissingTrace."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.scenario import Launches, NodeChange, Scenario
from rebalancer.sim.suite.scenarios import s2
from rebalancer.sim.traces.prices import interruption, usd_per_gpu_hour
from rebalancer.sim.traces.servegen import LLM_3
from rebalancer.sim.traces.spot import bamboo, skypilot

REGION = "us-east-1"
RESERVED_GPUS = 32
RAMP = (17, 20, 23)  # hours: it begins, is at its top, is over: about the busiest hour of both days
RAMP_TIMES = 1.6
INSTANCE = "p5.48xlarge"  # eight H100; p5.4xlarge with one costs the same per GPU
# From an order to a node that takes pods: lognormal with this median and 95th percentile; the share of orders for
# which there is no capacity on demand; and how long until another type is tried.
NODE_SECONDS, NODE_SECONDS_P95 = 150.0, 300.0
NO_CAPACITY_SHARE = 0.05
RETRY_SECONDS = 45
ORDERS = 4096  # more than any day sees
Z_95 = 1.645  # standard deviations to the 95th percentile


def s5(folder: Path, day: int, start_seconds: int, seed: int = 0) -> Scenario:
    """S2 on 32 reserved GPUs, its demand once up to 1.6 times within 3 h and back, and nodes of one GPU on demand.

    Karpenter brings a node in lognormal times, 150 s in the median and 300 s in the 95th percentile; one order in
    twenty finds no capacity. It takes a node after 5 min without pods. Reserved GPUs are paid for anyway and cost
    nothing here.
    """
    whole = s2(folder, day, RESERVED_GPUS, start_seconds)
    begin, top, end = (3600 * hour for hour in RAMP)
    times = np.interp(np.arange(whole.seconds), [begin, top, end], [1.0, RAMP_TIMES, 1.0])
    models = (replace(model, work=model.work * times, requests=model.requests * times) for model in whole.models)
    return replace(
        whole,
        name="S5",
        models=tuple(models),
        elastic_usd_per_gpu_hour=usd_per_gpu_hour(folder, INSTANCE),
        launches=Launches(1, RESERVED_GPUS, launch_times(seed), RETRY_SECONDS),
    )


def launch_times(seed: int) -> tuple[int | None, ...]:
    """What orders come to: seconds until the node takes pods, None without capacity."""
    chance = np.random.default_rng(seed)
    spread = np.log(NODE_SECONDS_P95 / NODE_SECONDS) / Z_95
    took = np.rint(chance.lognormal(np.log(NODE_SECONDS), spread, ORDERS))
    refused = chance.random(ORDERS) < NO_CAPACITY_SHARE
    return tuple(None if none else int(seconds) for seconds, none in zip(took, refused, strict=True))


SPOT_NODES = 8
ON_DEMAND_GPUS = 24
NOTICE_SECONDS = 120  # AWS's, before it takes a spot machine
AWAY_SECONDS = 3600  # until a machine that was taken on a calm day is there again: an assumption
BAMBOO_GROUP = 32  # instances that its group wanted
CALM = "calm"


def s6(folder: Path, day: int, zone: str, start_seconds: int, seed: int = 0) -> Scenario:
    """S2 on 24 GPUs on demand and up to 8 spot machines of one GPU, which come and go as that zone's did for a day.

    `zone`: of the 16-instance series; "bamboo" for an EC2 group that loses machines in bulk, at a quarter of its size;
    "calm" for the Spot Advisor's monthly rate, by chance. A machine is announced lost two minutes before it goes, and
    Karpenter drains it.
    """
    whole = s2(folder, day, ON_DEMAND_GPUS + SPOT_NODES, start_seconds)
    models = (replace(model, first=ON_DEMAND_GPUS // len(LLM_3)) for model in whole.models)
    price = usd_per_gpu_hour(folder, INSTANCE)
    return replace(
        whole,
        name="S6",
        day=f"{day}-{zone}",
        models=tuple(models),
        nodes=(ON_DEMAND_GPUS, *(1,) * SPOT_NODES),
        changes=spot_changes(_spot_there(folder, zone, whole.seconds + NOTICE_SECONDS, seed), whole.seconds),
        usd_per_gpu_hour=price,
        elastic=SPOT_NODES,
        elastic_usd_per_gpu_hour=price * (1 - interruption(folder, REGION, INSTANCE).saving),
    )


def _spot_there(folder: Path, zone: str, seconds: int, seed: int) -> NDArray[np.int64]:
    """How many of the machines could be had, shape (seconds,)."""
    if zone == CALM:
        return calm(interruption(folder, REGION, INSTANCE).per_hour, seconds, seed)
    if zone == "bamboo":
        return bamboo(folder, "p3").per_second(seconds, BAMBOO_GROUP) * SPOT_NODES // BAMBOO_GROUP
    return skypilot(folder, f"{zone}_v100_1").per_second(seconds, SPOT_NODES)


def calm(per_hour: float, seconds: int, seed: int) -> NDArray[np.int64]:
    """Machines that are taken at a constant rate each and are back an hour later; how many there are, by the second."""
    chance = np.random.default_rng(seed)
    there = np.full(seconds, SPOT_NODES)
    for _ in range(SPOT_NODES):
        at = chance.exponential(3600 / per_hour)
        while at < seconds:
            there[int(at) : int(at) + AWAY_SECONDS] -= 1
            at += AWAY_SECONDS + chance.exponential(3600 / per_hour)
    return there


def spot_changes(there: NDArray[np.int64], seconds: int) -> tuple[NodeChange, ...]:
    """Changes of nodes 1, 2, ... when `there` (from second to second, longer than `seconds`) are so many of them.

    The last one is the first to go; it comes back when it is there again for longer than a notice.
    """
    ahead = NOTICE_SECONDS + 1
    least = np.lib.stride_tricks.sliding_window_view(there[: seconds + NOTICE_SECONDS], ahead).min(axis=1)
    changes = []
    before = SPOT_NODES
    for second in np.flatnonzero(np.diff(least, prepend=-1)):
        now = int(least[second])
        notice = NOTICE_SECONDS if second else 0  # what is not there at the beginning never was
        changes += [NodeChange(int(second) + notice, node + 1, 0, notice) for node in range(now, before)]
        changes += [NodeChange(int(second), node + 1, 1) for node in range(before, now)]
        before = now
    return tuple(sorted(changes, key=lambda change: change.second))
