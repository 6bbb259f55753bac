"""The service is gone before what it wrote is handed back."""

import asyncio

import pytest

from rebalancer.act.stop_service import StillThere, stop_service
from rebalancer.kube.resources import DEPLOYMENTS as SERVED
from rebalancer.kube.resources import Ref
from rebalancer.sandbox.api.resources import DEPLOYMENTS, PODS
from tests.act.rig import Rig, deployment, pod
from tests.builders import NAMESPACE

OURS = Ref(SERVED, NAMESPACE, "rebalancer")
LABELS = {"app": "rebalancer"}


def installed(rig: Rig) -> None:
    service = deployment("rebalancer", 1)
    service["spec"]["selector"] = {"matchLabels": LABELS}
    rig.store.put(service)
    for name, labels in (("rebalancer-1", LABELS), ("neighbour", {"app": "other"})):
        each = pod(name)
        each["metadata"]["labels"] = labels
        rig.store.put(each)


async def test_it_waits_until_no_pod_of_ours_is_left(rig: Rig) -> None:
    installed(rig)

    waiting = asyncio.ensure_future(stop_service(rig.kube, OURS, rig.clock, within_seconds=500))
    while rig.object(DEPLOYMENTS, "rebalancer")["spec"]["replicas"] != 0 or rig.clock.passed < 3:
        await asyncio.sleep(0)
    assert not waiting.done()
    rig.store.remove(PODS, "rebalancer-1", NAMESPACE)

    assert await waiting


async def test_pods_that_stay_are_named(rig: Rig) -> None:
    installed(rig)

    with pytest.raises(StillThere, match=r"still there after 90 s: rebalancer-1$"):
        await stop_service(rig.kube, OURS, rig.clock, within_seconds=90)


async def test_a_service_that_is_not_there_needs_no_end(rig: Rig) -> None:
    assert not await stop_service(rig.kube, OURS, rig.clock, within_seconds=90)
