"""Devices by claims (DRA): how many there are, who holds them, what a pod and a template ask for."""

from typing import Any

import pytest

from rebalancer.domain.cluster import SOURCES
from rebalancer.domain.events import ObjectGone
from rebalancer.domain.pool_view import NodeView, PoolView
from rebalancer.domain.snapshot import TargetView
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy, a_pool
from tests.ingest.devices import (
    CLASS,
    a_claim,
    a_claim_template,
    a_device,
    a_device_class,
    a_slice,
    read,
    with_devices,
)
from tests.state.objects import GPU, a_cluster_node, a_ready_pod, a_workload, changed, feed

POLICY = a_policy(a_model("b"), pools=(a_pool(device_class=CLASS),))
NODE = a_cluster_node(allocatable={})
TWO = a_slice(a_device("gpu-0"), a_device("gpu-1"))
MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"


def node_of(state: ClusterState) -> NodeView:
    (node,) = pool_of(state).nodes
    return node


def pool_of(state: ClusterState) -> PoolView:
    (pool,) = state.peek(NOW).pools
    return pool


def target_of(state: ClusterState) -> TargetView:
    return state.peek(NOW).models[0].targets[0]


def counts(*manifests: Any, policy: Any = POLICY) -> tuple[int, int]:  # noqa: ANN401  manifests and values alike
    node = node_of(with_devices(policy, NODE, *manifests))
    return node.gpus, node.foreign_gpus


def test_gpus_are_those_that_slices_publish_with_their_memory() -> None:
    node = node_of(with_devices(POLICY, NODE, a_device_class(), TWO))
    assert (node.gpus, node.foreign_gpus, node.memory_gib, node.refused) == (2, 0, 80.0, "")


def test_a_claim_of_two_pods_holds_its_gpu_once() -> None:
    assert counts(a_device_class(), TWO, a_claim("c", ("gpu-0",), ("x", "y"))) == (2, 1)


def test_a_claim_of_a_models_pod_is_not_somebody_elses() -> None:
    claims = (a_claim("c", ("gpu-0",), ("b-1",)), a_claim("d", ("gpu-1",), ("x",)))
    assert counts(a_device_class(), TWO, *claims, a_ready_pod(gpus={}), a_workload(gpus={})) == (2, 1)


def test_a_claim_that_only_watches_holds_nothing() -> None:
    assert counts(a_device_class(), TWO, a_claim("c", ("gpu-0",), ("x",), admin=True)) == (2, 0)


def test_gpus_that_pods_ask_for_by_an_extended_resource_are_claims_and_counted_once() -> None:
    # The scheduler makes the claim; the pod says `nvidia.com/gpu: 1` as ever, and so does its template.
    by_name = a_device_class(extendedResourceName=GPU)
    state = with_devices(
        POLICY,
        NODE,
        by_name,
        TWO,
        a_workload(),
        a_ready_pod(),
        a_ready_pod("x", None),
        a_claim("b-1-extended-resources-k7", ("gpu-0",), ("b-1",)),
        a_claim("x-extended-resources-k8", ("gpu-1",), ("x",)),
    )
    assert (node_of(state).gpus, node_of(state).foreign_gpus) == (2, 1)
    assert (target_of(state).gpus_per_pod, target_of(state).running_gpus) == (1, 1)


@pytest.mark.parametrize(("template", "gpus"), [({}, 1), ({"count": 2}, 2), ({"allocationMode": "All"}, 0)])
def test_a_template_asks_for_what_its_claim_template_says(template: dict[str, Any], gpus: int) -> None:
    workload = a_workload(gpus={}, claims=("single-gpu",))
    state = with_devices(POLICY, NODE, a_device_class(), TWO, workload, a_claim_template(**template))
    assert target_of(state).gpus_per_pod == gpus


def test_a_pod_holds_what_its_claim_was_given() -> None:
    pods = (a_ready_pod(gpus={}), a_ready_pod("b-2", gpus={}))
    state = with_devices(POLICY, NODE, a_device_class(), TWO, a_workload(gpus={}), *pods)
    assert target_of(state).running_gpus == 0
    feed(state, changed_device(a_claim("c", ("gpu-0", "gpu-1"), ("b-1",))))
    assert target_of(state).running_gpus == 2


def test_of_a_claim_that_is_gone_nothing_is_remembered() -> None:
    state = with_devices(POLICY, NODE, a_device_class(), TWO)
    for number in range(3):
        claim = a_claim(f"c{number}", ("gpu-0",), (f"b-{number}",))
        feed(state, changed_device(claim))
        assert node_of(state).foreign_gpus == 1
        feed(state, ObjectGone("resourceclaims", NOW, read(claim)))
        assert node_of(state).foreign_gpus == 0
    assert state._devices._of_pod == {}  # noqa: SLF001  # pods come and go for months, and nobody sees what is kept


def changed_device(manifest: dict[str, Any]) -> Any:  # noqa: ANN401  an event
    value = read(manifest)
    source = "resourceclaims" if manifest["kind"] == "ResourceClaim" else "resourceslices"
    return changed(value) if type(value) in SOURCES.values() else type(changed(NODE))(source, NOW, value)


def parts() -> list[dict[str, Any]]:
    """One GPU of 8 slices of memory: whole, as two 3g (4 slices each), or as seven 1g; none beside the whole one.

    The counters stand in a slice of their own: Kubernetes 1.37 takes none beside devices, 1.34 no others.
    """

    def uses(memory: int) -> dict[str, Any]:
        return {"consumesCounters": [{"counterSet": "gpu-0", "counters": {"slices": {"value": str(memory)}}}]}

    ways = [a_device("gpu-0", **uses(8))]
    ways += [a_device(f"gpu-0-mig-3g-{n}", "mig", "40Gi", **uses(4)) for n in range(2)]
    ways += [a_device(f"gpu-0-mig-1g-{n}", "mig", "10Gi", **uses(1)) for n in range(7)]
    two = {"resourceSliceCount": 2}
    shared = [{"name": "gpu-0", "counters": {"slices": {"value": "8"}}}]
    return [a_slice(*ways, pool=two), a_slice(name="s2", pool=two, sharedCounters=shared)]


def together(slices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As one slice."""
    spec = slices[0]["spec"] | {"sharedCounters": slices[1]["spec"]["sharedCounters"]}
    return [slices[0] | {"spec": spec | {"pool": spec["pool"] | {"resourceSliceCount": 1}}}]


WHOLE = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"


@pytest.mark.parametrize(
    ("expression", "held", "expected"),
    [
        (WHOLE, (), (1, 0)),
        (WHOLE, ("gpu-0-mig-1g-0",), (0, 0)),
        (WHOLE, ("gpu-0",), (1, 1)),
        (MIG, (), (7, 0)),
        (MIG, ("gpu-0",), (0, 0)),
        (MIG, ("gpu-0-mig-3g-0",), (5, 1)),
    ],
)
def test_a_gpu_that_can_be_parted_is_counted_once(
    expression: str, held: tuple[str, ...], expected: tuple[int, int]
) -> None:
    claims = [a_claim("c", held, ("x",))] if held else []
    assert counts(a_device_class(expression), *parts(), *claims) == expected
    assert counts(a_device_class(expression), *together(parts()), *claims) == expected


def test_what_a_selector_says_that_nobody_understands_is_unknown_and_told() -> None:
    strange = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0"
    state = with_devices(POLICY, NODE, a_device_class(strange), TWO)
    assert (node_of(state).gpus, node_of(state).refused) == (
        0,
        f"has devices that nobody can count: the selector `{strange}` of DeviceClass {CLASS} is not understood",
    )
    assert "there is no DeviceClass" in node_of(with_devices(POLICY, NODE, TWO)).refused


def test_a_pool_of_slices_counts_once_all_of_its_newest_generation_are_there() -> None:
    first = a_slice(a_device("gpu-0"), pool={"generation": 2, "resourceSliceCount": 2})
    second = a_slice(a_device("gpu-1"), name="s2", pool={"generation": 2, "resourceSliceCount": 2})
    old = a_slice(a_device("gpu-7"), name="s0")
    assert counts(a_device_class(), first, old) == (0, 0)
    assert counts(a_device_class(), first, second, old) == (2, 0)


def test_a_tainted_device_takes_no_new_claim() -> None:
    shut = a_device("gpu-1", taints=[{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}])
    assert counts(a_device_class(), a_slice(a_device("gpu-0"), shut)) == (1, 0)


def test_slices_that_vanish_under_pods_leave_it_open_how_many_gpus_there_are() -> None:
    state = with_devices(POLICY, NODE, a_device_class(), TWO)
    assert node_of(state).fell_at is None
    feed(state, changed_device(a_slice(a_device("gpu-0"))))
    assert (node_of(state).gpus, node_of(state).fell_at) == (1, NOW)
    feed(state, changed_device(TWO))
    assert (node_of(state).gpus, node_of(state).fell_at) == (2, None)


def test_without_a_class_in_the_policy_devices_by_claims_are_not_asked_for() -> None:
    state = ClusterState(a_policy(), started_at=NOW - 600.0)
    assert "resourceslices" not in state.sync(NOW).missing
    assert "resourceslices" in ClusterState(POLICY, started_at=NOW - 600.0).sync(NOW).missing
