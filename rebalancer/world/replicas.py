"""Which pods a ReplicaSet deletes when it has too many, and how a rollout replaces those of an older template.

The order is that of Kubernetes' ActivePodsWithRanks, the rollout a RollingUpdate with its defaults.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil

from rebalancer.world.things import Deployment, WorldPod

SURGE = UNAVAILABLE = 0.25  # of the replicas: a Deployment's defaults


def victims(active: Iterable[WorldPod], count: int) -> list[WorldPod]:
    """The `count` pods that go, first to last.

    Without a node before with one, not Ready before Ready, lower deletion cost, more siblings on the node, Ready for
    a shorter time, younger; then by uid. (Kubernetes compares the times by powers of two, which decides nothing but
    ties that it breaks by uid as well.)
    """
    pods = list(active)
    siblings = Counter(pod.node.name for pod in pods if pod.node is not None)
    return sorted(pods, key=lambda pod: _order(pod, siblings))[:count]


def _order(pod: WorldPod, siblings: Counter[str]) -> tuple[bool, bool, int, int, float, float, str]:
    return (
        pod.node is not None,
        pod.ready,
        pod.deletion_cost or 0,
        -siblings[pod.node.name] if pod.node is not None else 0,
        -(pod.ready_at or 0.0),
        -pod.created_at,
        pod.uid,
    )


def to_create(owner: Deployment, active: Sequence[WorldPod]) -> int:
    """Pods of the new template that a rollout makes now: no more together than the replicas and the surge."""
    new = sum(pod.generation == owner.generation for pod in active)
    most = owner.replicas + ceil(SURGE * owner.replicas)
    return max(0, min(owner.replicas - new, most - len(active)))


def to_replace(owner: Deployment, active: Sequence[WorldPod]) -> list[WorldPod]:
    """Pods that a rollout deletes now: whatever is beyond the surge, and old ones as far as enough others are Ready."""
    most = owner.replicas + ceil(SURGE * owner.replicas)
    old = [pod for pod in active if pod.generation < owner.generation]
    beyond = max(0, len(active) - most)
    ready = sum(pod.ready for pod in active)
    spare = max(0, ready - (owner.replicas - int(UNAVAILABLE * owner.replicas)))
    unready = sum(not pod.ready for pod in old)
    gone = victims(old, max(beyond, min(len(old), unready + spare)))
    return gone + victims([pod for pod in active if pod not in gone], max(0, beyond - len(gone)))
