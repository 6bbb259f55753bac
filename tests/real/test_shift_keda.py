"""GPUs change hands between models that KEDA or an HPA scales: by their bounds, whatever their triggers say."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rebalancer.api.http.json_codec import instant_of
from tests.real.occupancy import Pods, bounded, failed, scaled
from tests.real.policies import SHIFT_SECONDS, model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.real.triggers import Triggers
from tests.testbed.audit import AuditLog, Write
from tests.testbed.keda import Keda
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node, hpa, scaled_object

GPUS = 8
FLOOR = 2  # of code
ORIGINALS = "rebalancer.io/originals"


@pytest.fixture
async def triggers() -> AsyncIterator[Triggers]:
    triggers = Triggers()
    async with triggers.server:
        yield triggers


# Without it an HPA waits five minutes before it takes a replica by itself.
_AT_ONCE = {"scaleDown": {"stabilizationWindowSeconds": 0}}


async def _world(kube: Kube, namespace: str, ours: dict[str, str], *autoscalers: Json) -> None:
    """Two nodes of 4 GPUs, full of replicas of two models that have autoscalers."""
    for name in ("a", "b"):
        await kube.create(gpu_node(f"{namespace}-{name}", gpus=GPUS // 2, labels=ours))
    for name, replicas in (("chat", 2), ("code", 6)):
        await kube.apply(deployment(name, namespace, replicas, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(GPUS, namespace)
    await kube.apply(*autoscalers)


async def _keda_world(kube: Kube, namespace: str, ours: dict[str, str], triggers: Triggers) -> None:
    triggers.wants = {"chat": 2, "code": 6}
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": _AT_ONCE}}
    await _world(
        kube,
        namespace,
        ours,
        scaled_object("chat", namespace, 1, 9, [triggers.of("chat")], advanced=advanced),
        scaled_object("code", namespace, 2, 9, [triggers.of("code")], advanced=advanced),
    )

    async def scaling() -> bool:
        hpas = await kube.items("HorizontalPodAutoscaler", namespace)
        return len(hpas) == 2 and all(hpa.get("status", {}).get("desiredReplicas") for hpa in hpas)

    await kube.wait_for(scaling, "KEDA's HPAs look at their metrics", 45)


async def _start(service: Service, traffic: Traffic, namespace: str, pool: Json) -> None:
    """The service on that world, after a minute in which everybody needed what it has."""
    models = [model("chat", namespace, 1, 4, 8), model("code", namespace, FLOOR, 4, 8)]
    await service.policy(policy([pool], models))
    await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=55))
    await service.start()


async def _replicas(kube: Kube, namespace: str, name: str, count: int, seconds: float = 60) -> None:
    async def reached() -> bool:
        scale = await kube.get("Deployment", name, namespace, "scale")
        return bool(scale["spec"].get("replicas", 0) == count)

    await kube.wait_for(reached, f"{name} at {count} replicas", seconds)


async def _bounds(kube: Kube, namespace: str, name: str, low: int, high: int, seconds: float = 60) -> None:
    async def reached() -> bool:
        spec = (await kube.get("ScaledObject", name, namespace))["spec"]
        return bool((spec["minReplicaCount"], spec["maxReplicaCount"]) == (low, high))

    await kube.wait_for(reached, f"bounds {low}..{high} on {name}", seconds)


def _held_on_to_the_budget(ours: list[Write], everybody: list[Write], kind: str, hpa_of: dict[str, str]) -> None:
    """Whenever a maximum was raised, the HPAs' maxima made room for it, and so did the pods."""
    pods = Pods.of(everybody)
    assert pods.most() <= GPUS, "no pod was ever asked for that had no GPU"
    for name, other, replicas in (("chat", "code", 2), ("code", "chat", 6)):
        shown = bounded(everybody, hpa_of[other], "horizontalpodautoscalers")
        written = bounded(ours, name, kind)
        for (at, _, maximum), before in zip(written, [replicas, *(high for _, _, high in written)], strict=False):
            if maximum > before:
                others_maximum = [high for when, _, high in shown if when < at][-1]
                assert maximum + others_maximum <= GPUS, "a raise waits until the HPA shows the release"
                assert maximum + pods.at(at, other) <= GPUS, "and until the pods have gone"


async def test_a_surge_is_met_by_bounds_that_keda_and_the_hpa_apply_while_triggers_pull_the_other_way(
    keda: Keda, service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str,
    ours: dict[str, str], triggers: Triggers,
) -> None:  # fmt: skip
    await _keda_world(kube, namespace, ours, triggers)
    # A pool that could grow has its minimum at what is needed, not at what is granted: the HPA may move in between.
    growing = pool("gpus", ours, GPUS, nodePools=[namespace])
    await _start(service, traffic, namespace, growing)
    traffic.says("code", running=5)
    await _bounds(kube, namespace, "code", FLOOR, 6)
    triggers.wants["code"] = 3
    await _replicas(kube, namespace, "code", 3)

    traffic.says("chat", running=75)
    triggers.wants["code"] = 9
    await _bounds(kube, namespace, "chat", 6, 6)
    await kube.wait_ready(6, namespace, "app=chat")
    # Not before: what the HPA takes between our look and our write still ends while others come in its place.
    triggers.wants["chat"] = 1

    async def pulled_down() -> bool:
        return triggers.answered["chat", 1] > 2

    await kube.wait_for(pulled_down, "the HPA hears that chat's trigger asks for one replica")
    await kube.wait_ready(6, namespace, "app=chat")
    await kube.wait_ready(FLOOR, namespace, "app=code")
    last_release, *_ = bounded(await service.writes(kube), "code")[-1]

    async def decided_anew() -> bool:
        return bool(instant_of((await service.plan())["at"]) > last_release + SHIFT_SECONDS + 2)

    await kube.wait_for(decided_anew, "a plan that could take the next one")
    writes = await service.writes(kube)
    assert failed(writes) == []
    assert {(write.resource, write.subresource) for write in writes} == {("scaledobjects", "")}
    assert all(low >= FLOOR for _, low, _ in bounded(writes, "code"))
    maxima = [high for _, _, high in bounded(writes, "code")]
    assert maxima == sorted(maxima, reverse=True)
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert min(replicas for _, replicas in scaled(everybody, "code")) == FLOOR
    _held_on_to_the_budget(writes, everybody, "scaledobjects", {name: f"keda-hpa-{name}" for name in ("chat", "code")})
    saved = [
        write for write in writes if write.succeeded and ORIGINALS in write.request["metadata"].get("annotations", {})
    ]
    assert sorted(write.name for write in saved) == ["chat", "code"], "saved once each"


async def test_hand_back_restores_the_bounds_that_people_set(
    keda: Keda, service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str], triggers: Triggers
) -> None:
    await _keda_world(kube, namespace, ours, triggers)
    await _start(service, traffic, namespace, pool("gpus", ours, GPUS))
    await _bounds(kube, namespace, "chat", 2, 2)
    await _bounds(kube, namespace, "code", 6, 6)
    saved = (await kube.get("ScaledObject", "chat", namespace))["metadata"]["annotations"][ORIGINALS]
    installation = f"{service.settings['OWN_NAMESPACE']}/{service.settings['ACCOUNT_NAME']}"
    assert json.loads(saved) == {"min": 1, "max": 9, "by": installation}

    assert await service.stop() == 0
    await _bounds(kube, namespace, "chat", 2, 2, 0)
    program = Path(sys.executable).parent / "rebalancer"
    ours_alone = ("--installation", installation, "--namespace", namespace)  # what other tests left may still be going
    command = (program, "hand-back", "--kubeconfig", service.settings["KUBECONFIG"], *ours_alone)
    done = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    told, _ = await done.communicate()
    assert done.returncode == 0, told.decode()
    await _bounds(kube, namespace, "chat", 1, 9, 0)
    await _bounds(kube, namespace, "code", 2, 9, 0)
    for name in ("chat", "code"):
        assert ORIGINALS not in (await kube.get("ScaledObject", name, namespace))["metadata"].get("annotations", {})


async def test_at_the_hpa_s_default_pace_nothing_is_granted_before_its_release_is_done(
    keda: Keda, service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str,
    ours: dict[str, str], triggers: Triggers, hpa_at_15_seconds: None,
) -> None:  # fmt: skip
    await _keda_world(kube, namespace, ours, triggers)
    await _start(service, traffic, namespace, pool("gpus", ours, GPUS))
    traffic.says("code", running=35)
    traffic.says("chat", running=38)
    await kube.wait_ready(4, namespace, "app=chat", 90)
    await kube.wait_ready(4, namespace, "app=code")
    writes = await service.writes(kube)
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    _held_on_to_the_budget(writes, everybody, "scaledobjects", {name: f"keda-hpa-{name}" for name in ("chat", "code")})


async def test_a_bare_hpa_is_moved_by_its_bounds_too(
    service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, namespace, ours, hpa("chat", namespace, 1, 9), hpa("code", namespace, 2, 9))
    await _start(service, traffic, namespace, pool("gpus", ours, GPUS))
    traffic.says("code", running=35)
    traffic.says("chat", running=38)
    await kube.wait_ready(4, namespace, "app=chat")
    await kube.wait_ready(4, namespace, "app=code")
    writes = await service.writes(kube)
    assert failed(writes) == []
    assert {(write.resource, write.subresource) for write in writes} == {("horizontalpodautoscalers", "")}
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    _held_on_to_the_budget(writes, everybody, "horizontalpodautoscalers", {"chat": "chat", "code": "code"})
