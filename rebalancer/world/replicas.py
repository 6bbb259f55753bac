"""Which pods a ReplicaSet deletes when it has too many: the order of Kubernetes' ActivePodsWithRanks."""

from collections import Counter
from collections.abc import Iterable

from rebalancer.world.things import Pod


def victims(active: Iterable[Pod], count: int) -> list[Pod]:
    """The `count` pods that go, first to last.

    Without a node before with one, not Ready before Ready, lower deletion cost, more siblings on the node, Ready for
    a shorter time, younger; then by uid. (Kubernetes compares the times by powers of two, which decides nothing but
    ties that it breaks by uid as well.)
    """
    pods = list(active)
    siblings = Counter(pod.node.name for pod in pods if pod.node is not None)
    return sorted(pods, key=lambda pod: _order(pod, siblings))[:count]


def _order(pod: Pod, siblings: Counter[str]) -> tuple[bool, bool, int, int, float, float, str]:
    return (
        pod.node is not None,
        pod.ready,
        pod.deletion_cost or 0,
        -siblings[pod.node.name] if pod.node is not None else 0,
        -(pod.ready_at or 0.0),
        -pod.created_at,
        pod.uid,
    )
