"""Which pods go when a Deployment shrinks."""

import random

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import Deployment, WorldNode, WorldPod
from rebalancer.world.replicas import victims

OWNER = Deployment(WorkloadRef("serving", "Deployment", "a"), "uid-a", "a", 8, 1, 0.0)
NODES = [WorldNode(f"n{number}", f"uid-n{number}", 8, {}, 0.0) for number in range(1, 9)]


def a_pod(
    name: str, node: int | None = 1, ready_at: float | None = 50.0, born: float = 10.0, cost: int | None = None
) -> WorldPod:
    place = None if node is None else NODES[node - 1]
    return WorldPod(name, f"uid-{name}", OWNER, born, node=place, ready_at=ready_at, deletion_cost=cost)


ORDERED = [
    a_pod("pending", node=None, ready_at=None, cost=900),
    a_pod("loading", node=2, ready_at=None, cost=800),
    a_pod("cheap", node=3, cost=-5),
    a_pod("crowded-1", node=4, ready_at=20.0),
    a_pod("crowded-2", node=4, ready_at=15.0),
    a_pod("fresh", node=5, ready_at=90.0),
    a_pod("young", node=6, ready_at=50.0, born=40.0),
    a_pod("old", node=7, ready_at=50.0, born=5.0),
    a_pod("dear", node=8, cost=7),
]


@given(st.randoms(use_true_random=False), st.integers(0, len(ORDERED)))
def test_pods_go_in_kubernetes_order_whatever_the_order_they_are_given_in(chance: random.Random, count: int) -> None:
    """No node, not Ready, deletion cost, crowded nodes, Ready for a short time, young."""
    shuffled = chance.sample(ORDERED, len(ORDERED))
    assert [pod.name for pod in victims(shuffled, count)] == [pod.name for pod in ORDERED[:count]]


def test_a_deletion_cost_does_not_save_a_pod_that_serves_nobody() -> None:
    serving, loading = a_pod("serving", cost=-100), a_pod("loading", node=2, ready_at=None, cost=100)
    assert victims([serving, loading], 1) == [loading]


def test_equal_pods_go_by_uid() -> None:
    assert [pod.name for pod in victims([a_pod("b", node=2), a_pod("a", node=1)], 1)] == ["a"]
