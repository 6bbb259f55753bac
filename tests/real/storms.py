"""Storms of notices: how soon each is answered, how long before its deadline its node is empty, as histograms."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.kube import Kube

Json = dict[str, Any]

NOTICE = "io.rebalancer.capacity.notice.v1"
ANSWERED_EDGES = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)  # seconds, as of rebalancer_notice_action_seconds
SPARE_EDGES = (0.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0)


async def told(traffic: Traffic, node: str, deadline: float) -> None:
    """A spot notice about this node, acknowledged by Kafka."""
    until = datetime.fromtimestamp(deadline, UTC).isoformat()
    await traffic.event("notices", NOTICE, {"kind": "spot-interruption", "node": node, "deadline": until})


async def gone(kube: Kube, namespace: str, nodes: Iterable[str], at: float) -> None:
    """From `at` on the nodes are no more, nor what ran there."""

    async def due() -> bool:
        return time.time() >= at

    await kube.wait_for(due, "the nodes' end", max(1.0, at - time.time() + 1.0))
    for node in nodes:
        await kube.delete("Node", node)
    for pod in await kube.items("Pod", namespace):
        if pod["spec"].get("nodeName") in {*nodes}:
            await kube.delete("Pod", pod["metadata"]["name"], namespace, gracePeriodSeconds=0)


async def accounts_of(service: Service, nodes: Iterable[str]) -> dict[str, Json]:
    """What the service tells of each node's notice, by node."""
    return {node: (await service.node(node))["accounts"][-1] for node in nodes}


def instant(account: Json, name: str) -> float | None:
    """One of an account's instants as epoch seconds; None: it has not come."""
    text = account.get(name)
    return None if text is None else datetime.fromisoformat(text).timestamp()


def histogram(seconds: Sequence[float], edges: Sequence[float]) -> str:
    """`<= 0.5 s: 3, <= 1 s: 7` with the buckets that hold any, then the middle one, p99 and the last."""
    ordered = sorted(seconds)
    if not ordered:
        return "none"
    cells = []
    for low, high in zip((float("-inf"), *edges), (*edges, float("inf")), strict=True):
        if count := sum(1 for each in ordered if low < each <= high):
            cells.append(f"<= {high:g} s: {count}" if high in edges else f"more: {count}")
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    figures = f"p50 {ordered[len(ordered) // 2]:.2f}, p99 {p99:.2f}, least {ordered[0]:.2f}, most {ordered[-1]:.2f} s"
    return f"{', '.join(cells)} ({figures}, of {len(ordered)})"


def told_by_metrics(metrics: Mapping[str, float], name: str) -> str:
    """A histogram of the service's own, as /metrics has it: `<= 0.5 s: 3, <= 1 s: 7` with the buckets that hold any."""
    cells, below = list[str](), 0.0
    for series, total in metrics.items():
        if series.startswith(f'{name}_bucket{{le="'):
            if total > below:
                cells.append(f"<= {series.split(chr(34))[1]} s: {total - below:.0f}")
            below = total
    return f"{', '.join(cells) or 'none'} (of {metrics.get(f'{name}_count', 0.0):.0f})"
