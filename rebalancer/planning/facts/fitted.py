"""The snapshot in the policy's terms: nothing of it stands for a pool or model that the policy does not name.

The two differ where a snapshot was taken under another policy: in a replay by a changed one, in a preview. Whoever
looks a pool or model of the policy up behind this finds it.
"""

from msgspec.structs import replace

from rebalancer.domain.policy import Policy
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.snapshot import Snapshot


def fitted(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """`snapshot` without pools and models that the policy does not name; a named pool that it lacks has no nodes."""
    pools, models = {pool.name for pool in policy.pools}, {model.id for model in policy.models}
    views = {view.name: view for view in snapshot.pools}
    if views.keys() != pools:
        snapshot = replace(snapshot, pools=tuple(views.get(name) or PoolView(name) for name in sorted(pools)))
    if not models.issuperset([view.id for view in snapshot.models]):
        snapshot = replace(snapshot, models=tuple(view for view in snapshot.models if view.id in models))
    if not models.issuperset([load.model for load in snapshot.loads]):
        snapshot = replace(snapshot, loads=tuple(load for load in snapshot.loads if load.model in models))
    return snapshot
