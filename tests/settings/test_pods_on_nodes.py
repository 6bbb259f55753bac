"""What a good policy allows and does less than its author may believe is a warning."""

import pytest

from rebalancer.settings.doubts import warnings_of
from rebalancer.settings.policy_file import checked_bytes

POLICY = """\
apiVersion: rebalancer.io/v1alpha1
kind: Policy
pools:
  - {name: big, kind: primary, nodeLabels: {pool: big}, gpuLimit: 32, %s}
models:
  - {id: chat, namespace: serving, targets: [{pool: big, name: chat%s}], gpusPerReplica: 8, podsPerReplica: %s,
     minReplicas: 0, maxReplicas: 4, entitlement: 0, signals: {queue: {high: 10}}}
"""
GROUP = ", kind: LeaderWorkerSet, apiVersion: leaderworkerset.x-k8s.io/v1"


@pytest.mark.parametrize(
    ("nodes", "pods", "have"),
    [
        ("nodePools: [big]", 1, [1]),
        ("nodePools: [big], gpusPerNode: 4", 1, [4]),
        ("nodePools: [big], gpusPerNode: 8", 1, []),
        ("nodePools: [big], gpusPerNode: 4", 2, []),
        ("gpusPerNode: 4", 1, []),
    ],
)
def test_a_pod_that_is_larger_than_the_nodes_that_are_added_for_it_is_warned_of(
    nodes: str, pods: int, have: list[int]
) -> None:
    text = POLICY % (nodes, GROUP if pods > 1 else "", pods)
    warnings = warnings_of(checked_bytes(text.encode(), "policy.yaml"), "policy.yaml", own_topics=())
    assert [(each.path, each.line, each.what) for each in warnings] == [
        (
            "models.chat.gpusPerReplica",
            6,
            f"a pod of 8 GPUs fits on no node that is added to pool big: they have {each}",
        )
        for each in have
    ]
