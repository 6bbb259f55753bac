"""What a drain writes, on a snapshot: a part of the tiny cluster's physics."""

from collections.abc import Callable

from msgspec.structs import replace

from rebalancer.domain.plan import DrainChange
from rebalancer.domain.snapshot import Snapshot, TargetView

OnTarget = Callable[[Snapshot, str, str, Callable[[TargetView], TargetView]], Snapshot]


def drained(snapshot: Snapshot, change: DrainChange, on_target: OnTarget) -> Snapshot:
    """A node is cordoned under our name or free again; a pod is being deleted: no disruption budget is in the way."""
    if not change.pod:
        cordon = change.kind == "cordon"
        pools = tuple(
            replace(
                pool,
                nodes=tuple(
                    replace(node, schedulable=not cordon, cordoned=cordon) if node.name == change.node else node
                    for node in pool.nodes
                ),
            )
            for pool in snapshot.pools
        )
        return replace(snapshot, pools=pools)
    return on_target(
        snapshot,
        change.model,
        change.pool,
        lambda target: replace(
            target,
            pods=tuple(
                replace(pod, phase="terminating", since=snapshot.at) if pod.uid == change.uid else pod
                for pod in target.pods
            ),
        ),
    )
