"""What the scripted server claims of Kubernetes, Kubernetes does."""

import asyncio
import random

import pytest

from rebalancer.kube.access import find_access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import (
    Ambiguous,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Temporary,
    Unauthorized,
)
from rebalancer.kube.pace import WatchPace
from rebalancer.kube.reader import Patience
from rebalancer.kube.reflector import Reflector
from rebalancer.kube.resources import DEPLOYMENTS, LEASES, PODS, Object, Ref, Resource
from rebalancer.loop.clock import RealClock
from tests.kube.followers import View
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment
from tests.testbed.stack import Stack

BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", namespaced=True, kind="PodDisruptionBudget")
# The fake kubelets' own kind: its history begins with its CRD, hundreds of revisions after the first.
STAGES = Resource("kwok.x-k8s.io", "v1alpha1", "stages", namespaced=False, kind="Stage")
UNKNOWN = Resource("example.com", "v1", "widgets", namespaced=True, kind="Widget")


def a_lease(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": "nobody"},
    }


def a_pod(name: str, namespace: str) -> Object:
    """One that no node will ever take."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "containers": [{"name": "model", "image": "model:test"}],
            "nodeSelector": {"no": "where"},
        },
    }


def a_budget(name: str, app: str, namespace: str) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    }


async def until(view: View, names: set[str], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while set(view.pods) != names:
            await asyncio.sleep(0.05)


async def test_pages_are_joined_at_one_revision(door: KubeClient, namespace: str) -> None:
    for number in range(7):
        await door.create(LEASES, a_lease(f"l{number}", namespace))
    listing = await door.list(LEASES, namespace, limit=3)
    assert [item["metadata"]["name"] for item in listing.items] == [f"l{n}" for n in range(7)]
    assert listing.malformed == []
    assert int(listing.resource_version) >= int(listing.items[-1]["metadata"]["resourceVersion"])
    assert door.server_offset_seconds == pytest.approx(0, abs=1.5)


async def test_writes_go_by_precondition(door: KubeClient, kube: Kube, namespace: str) -> None:
    target = Ref(DEPLOYMENTS, namespace, "llama")
    await door.create(DEPLOYMENTS, deployment("llama", namespace, 0))

    async def scaled() -> tuple[str, Object] | None:
        """The revision that was written over, and the answer; again when its own controller came between."""
        before = (await door.get_scale(target))["metadata"]["resourceVersion"]
        try:
            return before, await door.put_scale(target, 2, before)
        except Conflict:
            return None

    before, after = await kube.wait_for(scaled, "a write that nobody came before")
    assert after["spec"]["replicas"] == 2
    with pytest.raises(Conflict) as caught:
        await door.put_scale(target, 3, before)
    assert not caught.value.already_exists
    with pytest.raises(Conflict):
        await door.patch(target, {"spec": {"replicas": 3}}, resource_version=before)
    assert (await door.get(target))["spec"]["replicas"] == 2
    with pytest.raises(Conflict) as taken:
        await door.create(DEPLOYMENTS, deployment("llama", namespace, 0))
    assert taken.value.already_exists
    with pytest.raises(Invalid, match="replicas"):
        await door.patch(target, {"spec": {"replicas": -1}})


async def test_our_writes_carry_our_field_manager(door: KubeClient, namespace: str) -> None:
    ref = Ref(LEASES, namespace, "l")
    await door.create(LEASES, a_lease("l", namespace))
    stored = await door.patch(ref, {"spec": {"holderIdentity": "somebody"}})
    assert {entry["manager"] for entry in stored["metadata"]["managedFields"]} == {"rebalancer"}


async def test_delete_and_evict_mean_the_very_pod(door: KubeClient, namespace: str) -> None:
    ref = Ref(PODS, namespace, "p")
    uid = (await door.create(PODS, a_pod("p", namespace)))["metadata"]["uid"]
    with pytest.raises(Conflict):
        await door.delete(ref, uid="another")
    with pytest.raises(Ambiguous):  # the server tries for 10 s, whether another pod comes to be
        await door.evict(ref, "another")
    assert "deletionTimestamp" not in (await door.get(ref))["metadata"]
    await door.evict(ref, uid)
    with pytest.raises(NotFound):
        await door.evict(ref, uid)
    with pytest.raises(NotFound):
        await door.delete(ref, uid=uid)


async def test_a_budget_says_not_now_and_two_contradict_each_other(
    door: KubeClient, kube: Kube, namespace: str
) -> None:
    await door.create(BUDGETS, a_budget("one", "p", namespace))
    uid = (await door.create(PODS, a_pod("p", namespace)))["metadata"]["uid"]
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await door.patch_status(Ref(PODS, namespace, "p"), {"status": running})

    async def counted() -> bool:
        budget = await door.get(Ref(BUDGETS, namespace, "one"))
        return bool(budget.get("status", {}).get("currentHealthy") == 1)

    await kube.wait_for(counted, "the budget counts the pod")
    with pytest.raises(Temporary, match="disruption budget"):
        await door.evict(Ref(PODS, namespace, "p"), uid)
    await door.create(BUDGETS, a_budget("two", "p", namespace))
    with pytest.raises(Invalid, match="more than one PodDisruptionBudget"):
        await door.evict(Ref(PODS, namespace, "p"), uid)


async def test_a_resource_that_is_not_installed_is_not_found(door: KubeClient) -> None:
    with pytest.raises(NotFound):
        await door.list(UNKNOWN)
    with pytest.raises(NotFound):
        async for _ in door.stream(UNKNOWN, "1"):
            pass


async def test_a_watch_from_the_beginning_of_time_is_gone(door: KubeClient) -> None:
    with pytest.raises(Gone):
        async for _ in door.stream(STAGES, "1", patience=Patience(20, 20)):
            pass


async def test_rights_and_login_are_told_apart(cluster: Stack, kube: Kube, namespace: str) -> None:
    async def told(token: str) -> pytest.ExceptionInfo[KubeError]:
        path = await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-reader", token)
        access = await find_access(path)
        async with KubeClient(access, RealClock(), random.Random(1)) as client:
            with pytest.raises(KubeError) as caught:
                await client.put_scale(Ref(DEPLOYMENTS, namespace, "llama"), 1, "1")
        return caught

    without_rights = (await told(await kube.account(namespace, "reader"))).value
    assert isinstance(without_rights, Forbidden)
    assert (without_rights.verb, without_rights.resource) == ("update", "deployments/scale")
    assert isinstance((await told("not-a-token")).value, Unauthorized)


@pytest.mark.outage
async def test_a_reflector_follows_through_a_restart_of_the_api_server(
    cluster: Stack, door: KubeClient, namespace: str
) -> None:
    view = View()
    clock = RealClock()
    reflector = Reflector(door, LEASES, view, clock, random.Random(1), namespace, pace=WatchPace())
    following = asyncio.create_task(reflector.run())
    await door.create(LEASES, a_lease("a", namespace))
    await until(view, {"a"})
    await asyncio.to_thread(cluster.apiserver.kill)
    await asyncio.sleep(2)
    await asyncio.to_thread(cluster.apiserver.restart)
    await door.create(LEASES, a_lease("b", namespace))
    await door.delete(Ref(LEASES, namespace, "a"))
    await until(view, {"b"})
    assert "unreachable" in view.kinds
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
