"""What the service wrote to does not stay pinned: it is given back when it leaves the policy, or told in shadow."""

import asyncio
from pathlib import Path

import pytest

from rebalancer.api.text.pinned import said_pinned
from rebalancer.app import Service
from rebalancer.sandbox.api import Obj
from rebalancer.sandbox.api.resources import NODEPOOLS, SCALEDOBJECTS, WRITESTOPS
from rebalancer.sandbox.demo_cluster import POLICY_FILE
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import USER, Started, until

NAMESPACE = "serving"
ORIGINALS = "rebalancer.io/originals"
OURS = "rebalancer/rebalancer"


def pinned(name: str, by: str = OURS) -> Obj:
    """The ScaledObject of a Deployment, held at 2 of its own 1 to 4."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": {ORIGINALS: f'{{"min":1,"max":4,"by":"{by}"}}'},
        },
        "spec": {"scaleTargetRef": {"name": name}, "minReplicaCount": 2, "maxReplicaCount": 2},
    }


def bounds(sandbox: Sandbox, name: str) -> tuple[int, int]:
    found = sandbox.kubernetes.store.get(SCALEDOBJECTS, name, NAMESPACE)
    assert found is not None
    return found["spec"]["minReplicaCount"], found["spec"]["maxReplicaCount"]


def is_ours(sandbox: Sandbox, name: str) -> bool:
    found = sandbox.kubernetes.store.get(SCALEDOBJECTS, name, NAMESPACE)
    return found is not None and ORIGINALS in (found["metadata"].get("annotations") or {})


def is_ready(service: Service) -> bool:
    return service.plan is not None and not service.reporter.unready()


def without_image() -> str:
    """The demo's policy as it is when its last model has left it."""
    before, image = POLICY_FILE.read_text().split("  - id: image")
    return f"{before}classes:{image.split('classes:')[1]}"


async def test_what_left_the_policy_while_it_was_down_is_given_back(started: Started, sandbox: Sandbox) -> None:
    sandbox.kubernetes.store.put(pinned("old"))
    node_pool = sandbox.kubernetes.store.get(NODEPOOLS, "spot")
    assert node_pool is not None
    own = '{"limits":{"nvidia.com/gpu":"2"},"budgets":null,"by":"rebalancer/rebalancer"}'
    other = {**node_pool, "metadata": {"name": "old", "annotations": {ORIGINALS: own}}}
    other["spec"] = {**node_pool["spec"], "limits": {"nvidia.com/gpu": "6"}}
    sandbox.kubernetes.store.put(other)
    async with started(write_mode="act"):
        await until(lambda: not is_ours(sandbox, "old"), "given back")
        await until(lambda: not _annotations(sandbox, "old"), "the NodePool is given back")
    assert bounds(sandbox, "old") == (1, 4)
    found = sandbox.kubernetes.store.get(NODEPOOLS, "old")
    assert found is not None
    assert found["spec"]["limits"] == {"nvidia.com/gpu": "2"}


def _annotations(sandbox: Sandbox, node_pool: str) -> Obj:
    found = sandbox.kubernetes.store.get(NODEPOOLS, node_pool)
    assert found is not None
    return found["metadata"].get("annotations") or {}


async def test_a_model_that_leaves_the_policy_is_given_back_whatever_happens_and_is_not_taken_over_again(
    started: Started, sandbox: Sandbox, policy_path: Path
) -> None:
    sandbox.kubernetes.store.put(pinned("image"))
    async with started(write_mode="act") as service:
        await until(lambda: is_ready(service), "ready")
        await until(lambda: bounds(sandbox, "image")[1] >= 2, "ours")
        sandbox.kubernetes.faults.fail_next(3, 503, method="PATCH", path_part="/scaledobjects/image")
        before = len(sandbox.kubernetes.audit)
        await asyncio.to_thread(policy_path.write_text, without_image())
        await until(lambda: not is_ours(sandbox, "image"), "given back")
        cycle = service.plan.cycle if service.plan else 0
        await until(lambda: service.plan is not None and service.plan.cycle >= cycle + 3, "three more plans")
        await until(lambda: 'pinned_objects{state="departed"} 0.0' in service.reporter.metrics().decode(), "seen")
    assert bounds(sandbox, "image") == (1, 4)
    assert not is_ours(sandbox, "image")
    codes = [each.code for each in sandbox.kubernetes.audit[before:] if "/scaledobjects/image" in each.path]
    assert codes == [503, 503, 503, 200]


async def test_after_a_write_stop_it_is_given_back(started: Started, sandbox: Sandbox) -> None:
    stop = {"apiVersion": "rebalancer.io/v1alpha1", "kind": "WriteStop", "metadata": {"name": "stop"}, "spec": {}}
    sandbox.kubernetes.store.put(stop)
    sandbox.kubernetes.store.put(pinned("old"))
    async with started(write_mode="act") as service:
        await until(lambda: 'pinned_objects{state="departed"} 1.0' in service.reporter.metrics().decode(), "counted")
        assert is_ours(sandbox, "old")
        sandbox.kubernetes.store.remove(WRITESTOPS, "stop")
        await until(lambda: not is_ours(sandbox, "old"), "given back")


@pytest.mark.parametrize("name", ["image", "old"], ids=["of the policy", "outside the policy"])
async def test_in_shadow_what_is_pinned_is_told_with_the_command_that_ends_it(
    started: Started, sandbox: Sandbox, name: str
) -> None:
    sandbox.kubernetes.store.put(pinned(name, "ml/rebalancer"))
    async with started(own_namespace="ml") as service:
        await until(lambda: list(said_pinned(service.reporter.status())), "told")
        (said,) = said_pinned(service.reporter.status())
    assert said.what == (
        f"bounds or limits of ours are still on 1 object (scaledobject/serving/{name}): KEDA cannot move past them"
    )
    assert said.todo == "run rebalancer hand-back --installation ml/rebalancer"
    assert not [each for each in sandbox.kubernetes.audit if each.user == USER and "scaledobjects" in each.path]


async def test_another_installations_object_is_refused_and_named(started: Started, sandbox: Sandbox) -> None:
    sandbox.kubernetes.store.put(pinned("image", "search/rebalancer"))
    async with started(write_mode="act") as service:
        await until(lambda: service.plan is not None and service.plan.refusals, "refused")
        (refusal,) = [one for one in service.plan.refusals if one.guard == "foreign"] if service.plan else []
        await until(lambda: list(said_pinned(service.reporter.status())), "told")
        (said,) = said_pinned(service.reporter.status())
    assert (refusal.subject, refusal.numbers["manager"]) == ("image", "search/rebalancer")
    assert refusal.why.startswith("ScaledObject image is held by installation search/rebalancer")
    assert said.what.startswith("installation search/rebalancer holds 1 object (scaledobject/serving/image)")
    assert bounds(sandbox, "image") == (2, 2)
