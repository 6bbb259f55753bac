"""The status of Cluster Autoscaler, and what marks a placeholder among pods."""

import json

import msgspec
import pytest

from rebalancer.domain.cluster import ClusterObject, NodePool, Pod
from rebalancer.domain.node_groups import AutoscalerStatus, NodeGroup
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.objects import SHAPES, SHAPES_BESIDE, Unusable, value_of
from tests.ingest.manifests import node_pool, pod
from tests.ingest.node_groups import STATUS, status

SHAPE = SHAPES_BESIDE["autoscalerstatus"]


def read(text: str) -> ClusterObject | Unusable:
    return value_of("autoscalerstatus", msgspec.json.decode(json.dumps(status(text)), type=SHAPE.wire))


def test_each_node_group_with_what_it_has_and_may_have_and_why_it_adds_none() -> None:
    quota = "QUOTA_EXCEEDED: Quota 'NVIDIA_H100_GPUS' exceeded. Limit: 8.0 in region eu-west4."
    assert read(STATUS) == AutoscalerStatus(
        "kube-system",
        "cluster-autoscaler-status",
        "uid-cas",
        "7",
        epoch("2026-10-02T14:29:00Z"),
        (
            NodeGroup("aks-gpu1-25795745-vmss", 2, 3, 5, leaving=1),
            NodeGroup(
                "https://cloud.example/zones/b/instanceGroups/gke-prod-gpu-1a2b3c4d-grp",
                *(1, 1, 4),
                refuses=f"after a scale-up that failed it adds none for a while ({quota})",
            ),
            NodeGroup("eks-gpu-0cc8d4ef", 0, 2, 4, refuses="it is unhealthy, and Cluster Autoscaler adds none to it"),
        ),
    )


def test_without_a_time_of_its_own_it_is_as_old_as_the_last_look_at_all_nodes() -> None:
    found = read(STATUS[: STATUS.index("time: ")])
    assert isinstance(found, AutoscalerStatus)
    assert found.told_at == epoch("2026-10-02T14:29:00Z")


@pytest.mark.parametrize("rest", ["", "nodeGroups: null\n", "nodeGroups: []\n"])
def test_a_status_without_groups_tells_of_none(rest: str) -> None:
    found = read(f"autoscalerStatus: Initializing\n{rest}")
    assert isinstance(found, AutoscalerStatus)
    assert (found.told_at, found.groups) == (None, ())


@pytest.mark.parametrize(
    "text",
    [
        "Cluster-autoscaler status at 2020-11-25 08:19:44 UTC:\nCluster-wide:\n  Health:  Healthy (ready=4)\n",
        "autoscalerStatus: Running\nnodeGroups: [{health: {maxSize: many}, name: a}]",
        "nodeGroups: [" * 2000,
        "autoscalerStatus: Running\ntime: tomorrow +0000 UTC",
        "&a [*a]",
    ],
    ids=("prose", "no-number", "too-deep", "no-time", "itself"),
)
def test_a_status_that_is_no_such_yaml_is_unusable_and_says_so(text: str) -> None:
    assert isinstance(read(text), Unusable)


@pytest.mark.parametrize(
    ("labels", "priority", "placeholders"),
    [
        ({"rebalancer.io/placeholder": "spot"}, -10, 1),
        ({"rebalancer.io/placeholder": "spot"}, 0, 0),
        ({"rebalancer.io/placeholder": "spot"}, None, 0),
        ({}, -10, 0),
    ],
)
def test_a_placeholder_is_labelled_so_and_gives_way_to_every_pod(
    labels: dict[str, str], priority: int | None, placeholders: int
) -> None:
    obj = pod()
    obj["metadata"]["labels"] = labels
    obj["spec"]["priority"] = priority
    found = value_of("pods", msgspec.json.decode(json.dumps(obj), type=SHAPES["pods"].wire))
    assert isinstance(found, Pod)
    assert found.placeholder == placeholders


def test_a_node_pool_of_a_fixed_number_of_nodes_says_how_many() -> None:
    for spec, fixed in (({"replicas": 2}, 2), ({}, None)):
        wire = msgspec.json.decode(json.dumps(node_pool(spec)), type=SHAPES["nodepools"].wire)
        found = value_of("nodepools", wire)
        assert isinstance(found, NodePool)
        assert found.fixed == fixed
