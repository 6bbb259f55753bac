"""Work that a plan does once for a pool, not once for each model: 1,000 models times 1,250 nodes take a second."""

from collections.abc import Iterator

from msgspec.structs import replace

from rebalancer.domain.memory import Memory, NodeGrant
from rebalancer.domain.policy import Policy
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.snapshot import Snapshot, TargetView
from rebalancer.planning import plan
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.cluster import on_target


class Walked(tuple[NodeView, ...]):
    """Nodes that count how often they are looked through."""

    __slots__ = ()
    walks = 0

    def __iter__(self) -> Iterator[NodeView]:
        type(self).walks += 1
        return super().__iter__()


def walks(snapshot: Snapshot, policy: Policy, *grants: NodeGrant) -> int:
    """How often one plan looks through the nodes of the pool."""
    (pool,) = snapshot.pools
    snapshot = replace(snapshot, pools=(replace(pool, nodes=Walked(pool.nodes)),))
    Walked.walks = 0
    plan(snapshot, policy, Memory(node_grants=grants))
    return Walked.walks


def of_the_short(models: int) -> int:
    """Walks where each model lacks replicas: one node is full, one with free GPUs is cordoned."""
    names = [f"m{number}" for number in range(models)]
    policy = a_policy(*(a_model(name, entitlement=3) for name in names), pools=(a_pool(gpus=2 * models),))
    busy = {name: {"concurrency": 40.0} for name in names}
    snapshot = a_snapshot(policy, dict.fromkeys(names, 1), busy, nodes={"a100": 2})
    (pool,) = snapshot.pools
    full, other = pool.nodes
    nodes = (replace(full, gpus=models), replace(other, gpus=models, schedulable=False))
    return walks(replace(snapshot, pools=(replace(pool, nodes=nodes),)), policy)


def waiting(target: TargetView) -> TargetView:
    """Its pods have no node."""
    return replace(target, pods=tuple(replace(pod, node=None, phase="pending") for pod in target.pods))


def with_grants(models: int) -> int:
    """Walks where each model has an open node grant, and its one pod finds a place without a new node."""
    names = [f"m{number}" for number in range(models)]
    policy = a_policy(*(a_model(name, pools=("spot",)) for name in names), pools=(an_elastic_pool("spot", 80),))
    snapshot = a_snapshot(
        policy, dict.fromkeys(names, 1), {name: {"concurrency": 2.0} for name in names}, nodes={"spot": 5}
    )
    for name in names:
        snapshot = on_target(snapshot, name, "spot", waiting)
    at = snapshot.at
    grants = (NodeGrant(f"g-{name}", name, "spot", "spot", 1, 1, at - 60.0, at + 900.0) for name in names)
    return walks(snapshot, policy, *grants)


def test_the_nodes_that_take_no_pods_are_looked_for_once_however_many_models_are_short() -> None:
    assert of_the_short(20) == of_the_short(2)


def test_limits_of_node_pools_are_not_summed_for_grants_whose_models_lack_no_node() -> None:
    assert with_grants(20) == with_grants(2)
