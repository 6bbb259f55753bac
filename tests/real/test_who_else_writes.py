"""Who else writes, on real parts: each case ends as docs/reference/owners.md says, then five minutes of quiet.

All cases at once, a model each: one minute and five, and not as many times that. In virtual time each has a test of its
own (`tests/machine/test_beside_others.py`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from tests.real.occupancy import bounded, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.real.triggers import Triggers
from tests.real.webhooks import MOST, Webhooks
from tests.testbed.audit import Write
from tests.testbed.keda import Keda
from tests.testbed.kube import ApiError, Kube
from tests.testbed.objects import deployment, gpu_node, hpa, scaled_object
from tests.testbed.stack import Stack

SETTLED_SECONDS = 60.0
QUIET_SECONDS = 300.0
BEFORE, WANTED = 2, 4  # replicas of each model, and what it needs
REPLICAS = ("hand", "gitops", "denied", "changed")  # moved by /scale
SCALED_OBJECTS = ("paused", "again")
MODELS = (*REPLICAS, "parent", *SCALED_OBJECTS)
BY_HAND = 3


async def _every(seconds: float, deed: Callable[[], Awaitable[object]]) -> None:
    """Until cancelled; a conflict with somebody else's write is met by the next one."""
    while True:
        with suppress(ApiError):
            await deed()
        await asyncio.sleep(seconds)


async def _world(kube: Kube, namespace: str, ours: dict[str, str], triggers: Triggers) -> None:
    await kube.create(gpu_node(f"{namespace}-a", gpus=len(MODELS) * WANTED, labels=ours))
    for name in MODELS:
        await kube.apply(deployment(name, namespace, BEFORE, node_labels=ours))
    parent = await kube.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "parent", "namespace": namespace}}
    )
    child = hpa("parent", namespace, 1, BEFORE)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": parent["metadata"]["uid"]}
    child["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    await kube.create(child)
    triggers.wants = dict.fromkeys(SCALED_OBJECTS, BEFORE)
    for name in SCALED_OBJECTS:
        await kube.create(_scaled_object(name, namespace, triggers))
    await kube.wait_ready(len(MODELS) * BEFORE, namespace)


def _scaled_object(name: str, namespace: str, triggers: Triggers) -> dict[str, object]:
    return scaled_object(name, namespace, 1, BEFORE, [triggers.of(name)])


def _of(writes: list[Write], name: str) -> list[tuple[float, ...]]:
    """What was stored of a model's numbers, by whatever object."""
    kinds = ("scaledobjects", "horizontalpodautoscalers")
    return [*scaled(writes, name), *(each for kind in kinds for each in bounded(writes, name, kind))]


@pytest.mark.proof
@pytest.mark.timeout(900, func_only=True)
async def test_each_of_them_ends_as_documented_within_a_minute_and_nothing_is_written_for_five(
    keda: Keda, cluster: Stack, service: Service, traffic: Traffic, kube: Kube, namespace: str,
    ours: dict[str, str], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    triggers = Triggers()
    webhooks = Webhooks(service.account, "denied", "changed")
    certificates = cluster.control_plane.certificates
    async with triggers.server, webhooks.served(kube, certificates, namespace):
        await _world(kube, namespace, ours, triggers)
        models = [model(name, namespace, 1, WANTED, WANTED) for name in MODELS]
        await service.policy(policy([pool("gpus", ours, len(MODELS) * WANTED)], models))
        await asyncio.gather(*(traffic.past(name, running=15) for name in MODELS))
        pause = {"metadata": {"annotations": {"autoscaling.keda.sh/paused": "true"}}}
        await kube.patch("ScaledObject", "paused", pause, namespace)
        await service.start()
        for name in MODELS:
            traffic.says(name, running=35)
        deeds = asyncio.gather(
            _every(5.0, lambda: kube.patch("Deployment", "gitops", {"spec": {"replicas": BEFORE}}, namespace, "scale")),
            _every(1.0, lambda: _revert(kube, namespace)),
        )
        try:
            writes = await _played(kube, service, namespace, triggers, capsys)
        finally:
            deeds.cancel()
            with suppress(asyncio.CancelledError):
                await deeds
    guards = {one["subject"]: one["guard"] for one in (await service.plan())["refusals"]}
    rest = {
        one["outcome"]["intent"]["subject"]
        for one in await service.journal()
        if "outcome" in one and one["outcome"].get("detail", "").startswith("webhook: ")
    }
    with capsys.disabled():
        print(f"\nstored writes: { {name: len(_of(writes, name)) for name in MODELS} }")
        print(f"refusals: {guards}; rest for a webhook: {sorted(rest)}; denied: {webhooks.denials}")
    assert {name: guards.get(name) for name in ("hand", "gitops", "parent")} == dict.fromkeys(
        ("hand", "gitops", "parent"), "foreign"
    )
    assert guards["paused"] == "owner"
    assert rest == {"denied", "changed"}
    assert await _replicas(kube, namespace) == {
        "hand": BY_HAND, "gitops": BEFORE, "denied": BEFORE, "changed": MOST, "parent": BEFORE, "paused": BEFORE,
        "again": WANTED,
    }  # fmt: skip
    assert max(len(_of(writes, name)) for name in ("gitops", "parent")) <= 3
    assert _of(writes, "denied") == []
    assert _of(writes, "paused") == []
    assert webhooks.denials <= 3 + (SETTLED_SECONDS + QUIET_SECONDS) / 60.0


async def _played(
    kube: Kube, service: Service, namespace: str, triggers: Triggers, capsys: pytest.CaptureFixture[str]
) -> list[Write]:
    """A person's two changes and a ScaledObject made again, then the quiet; all writes of ours."""
    await _reach(kube, namespace, "again")
    for _ in range(2):
        await _reach(kube, namespace, "hand", not_yet=BY_HAND)
        await kube.patch("Deployment", "hand", {"spec": {"replicas": BY_HAND}}, namespace, "scale")
        await asyncio.sleep(2.0)  # a person types
    await kube.delete("ScaledObject", "again", namespace)
    await kube.wait_for(lambda: _gone(kube, namespace), "the ScaledObject is gone", 30)
    await kube.create(_scaled_object("again", namespace, triggers))
    await asyncio.sleep(SETTLED_SECONDS)
    settled_at = time.time()
    await asyncio.sleep(QUIET_SECONDS)
    writes = await service.writes(kube)
    late = {name: [at for at, *_ in _of(writes, name) if at > settled_at] for name in MODELS}
    assert late == {name: [] for name in MODELS}
    return writes


async def _gone(kube: Kube, namespace: str) -> bool:
    return await kube.find("ScaledObject", "again", namespace) is None


async def _reach(kube: Kube, namespace: str, name: str, not_yet: int | None = None) -> None:
    async def reached() -> bool:
        scale = await kube.get("Deployment", name, namespace, "scale")
        replicas = scale["spec"].get("replicas", 0)
        return bool(replicas == WANTED if not_yet is None else replicas not in {not_yet, BEFORE})

    await kube.wait_for(reached, f"{name} is moved", 60)


async def _revert(kube: Kube, namespace: str) -> None:
    """As KServe does it: what differs is written back."""
    found = (await kube.get("HorizontalPodAutoscaler", "parent", namespace))["spec"]
    if (found["minReplicas"], found["maxReplicas"]) != (1, BEFORE):
        spec = {"spec": {"minReplicas": 1, "maxReplicas": BEFORE}}
        await kube.patch("HorizontalPodAutoscaler", "parent", spec, namespace)


async def _replicas(kube: Kube, namespace: str) -> dict[str, int]:
    scales = await asyncio.gather(*(kube.get("Deployment", name, namespace, "scale") for name in MODELS))
    return {name: scale["spec"].get("replicas", 0) for name, scale in zip(MODELS, scales, strict=True)}
