"""Whether the node that a notice names is one: a notice of a node that nobody sees is heeded by nobody."""

import asyncio

from rebalancer.cli.failure import USAGE, Failed
from rebalancer.cli.remote.answers import decoded
from rebalancer.cli.remote.client import open_api
from rebalancer.cli.remote.where import Where
from rebalancer.cli.terminal.wrong import nearest
from rebalancer.domain.snapshot import Snapshot

LOOK_SECONDS = 3.0  # a notice is urgent: it does not wait for a service that is away


def node_name(given: str) -> str:
    """The name of `node/NAME`, as kubectl prints it, or of a plain NAME. Raises Failed where it is neither."""
    name = given.removeprefix("node/")
    if not name or "/" in name:
        raise Failed(f"{given} is no node: say NAME or node/NAME", USAGE)
    return name


async def doubt(where: Where, node: str) -> str:
    """A line for people where the service sees no such node; "" where it does, or cannot be asked."""
    try:
        async with asyncio.timeout(LOOK_SECONDS), open_api(where) as api:
            snapshot = decoded(await api.get("/v1/snapshot"), Snapshot)
    except (Failed, TimeoutError):
        return ""
    seen = [each.name for pool in snapshot.pools for each in pool.nodes]
    if node in seen:
        return ""
    return f"warning: no such node is seen in the policy's pools: {node}{nearest(node, seen)}"
