"""What is handed back after an upgrade waits until nothing of the old template runs."""

import asyncio

import pytest

from rebalancer.act.rollout import StillOld, rolled_out
from rebalancer.kube.resources import DEPLOYMENTS, Ref
from rebalancer.sandbox.api.resources import DEPLOYMENTS as DEPLOYMENTS_SERVED
from rebalancer.sandbox.api.resources import PODS
from tests.act.rig import Rig, deployment, pod
from tests.builders import NAMESPACE

SERVICE = Ref(DEPLOYMENTS, NAMESPACE, "rebalancer")


def stands(rig: Rig, *, seen: int = 2, updated: int = 1, replicas: int = 1) -> None:
    """The Deployment at generation 2, of whose `replicas` pods `updated` are of its newest template."""
    obj = deployment("rebalancer", 1, generation=2)
    obj["status"] = {"observedGeneration": seen, "updatedReplicas": updated, "replicas": replicas}
    rig.store.remove(DEPLOYMENTS_SERVED, "rebalancer", NAMESPACE)
    rig.store.put(obj)


@pytest.mark.parametrize(
    "old",
    [{"seen": 1}, {"updated": 0}, {"replicas": 2}, {"updated": 0, "replicas": 0}],
    ids=["not seen by its controller", "only old pods", "an old pod beside the new one", "between the two"],
)
async def test_it_waits_for_the_newest_template_alone(rig: Rig, old: dict[str, int]) -> None:
    stands(rig, **old)

    waiting = asyncio.ensure_future(rolled_out(rig.kube, SERVICE, rig.clock, within_seconds=500))
    while rig.clock.passed < 3:
        await asyncio.sleep(0)
    assert not waiting.done()
    stands(rig)

    await waiting


def ends(rig: Rig, name: str, app: str) -> None:
    """A pod that has been told to end and has not ended yet: no count of its Deployment's status has it any more."""
    ending = pod(name)
    ending["metadata"] |= {"labels": {"app": app}, "deletionTimestamp": "2027-01-15T08:00:45Z", "finalizers": ["kept"]}
    rig.store.put(ending)


async def test_it_waits_for_an_old_pod_that_is_still_ending(rig: Rig) -> None:
    stands(rig)
    ends(rig, "old-leader", "rebalancer")
    ends(rig, "neighbour", "other")

    waiting = asyncio.ensure_future(rolled_out(rig.kube, SERVICE, rig.clock, within_seconds=500))
    while rig.clock.passed < 3 and not waiting.done():
        await asyncio.sleep(0)
    assert not waiting.done()
    rig.store.remove(PODS, "old-leader", NAMESPACE)

    await waiting


async def test_an_old_pod_that_does_not_end_is_named(rig: Rig) -> None:
    stands(rig)
    ends(rig, "old-leader", "rebalancer")

    with pytest.raises(StillOld, match=r"newest template, old-leader is still ending$"):
        await rolled_out(rig.kube, SERVICE, rig.clock, within_seconds=60)


async def test_one_that_does_not_come_is_told(rig: Rig) -> None:
    stands(rig, updated=0)

    with pytest.raises(
        StillOld, match=r"^deployment/serving/rebalancer after 60 s: 0 of 1 pods are of its newest template$"
    ):
        await rolled_out(rig.kube, SERVICE, rig.clock, within_seconds=60)


async def test_a_service_that_is_not_there_is_not_waited_for(rig: Rig) -> None:
    await rolled_out(rig.kube, SERVICE, rig.clock, within_seconds=60)
