"""GPUs change hands between models whose ScaledObjects ask us for their replicas: the audit log has no write of ours.

The trigger is KEDA's own, with a bearer token by a TriggerAuthentication, and the HPA is the real one.
"""

import asyncio
import json

import pytest

from tests.real.followers import (
    FLOOR,
    GPUS,
    answer,
    authentication,
    follower,
    own_trigger,
    replicas,
    two_followers,
)
from tests.real.occupancy import Pods, failed, scaled
from tests.real.people import People
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog
from tests.testbed.keda import Keda
from tests.testbed.kube import Kube, is_ready
from tests.testbed.objects import deployment, gpu_node


async def test_a_surge_moves_models_that_follow_our_answer_there_and_back_and_nothing_of_theirs_is_written(
    keda: Keda, service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str, ours: dict[str, str]
) -> None:
    asks = {name: own_trigger(service, name) for name in ("chat", "code")}
    await two_followers(kube, service, namespace, ours, asks)
    await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=55))
    await service.start()
    traffic.says("code", running=35)
    traffic.says("chat", running=38)
    await kube.wait_ready(4, namespace, "app=chat", 90)
    await kube.wait_ready(4, namespace, "app=code")
    traffic.says("chat", running=5)
    traffic.says("code", running=55)
    await replicas(kube, namespace, "code", 6, 90)
    await kube.wait_ready(6, namespace, "app=code")
    status, body = await answer(service, "code")
    assert (status, body["replicas"]) == (200, 6)
    writes = await service.writes(kube)
    assert failed(writes) == []
    written = {(write.resource, write.subresource, write.name) for write in writes}
    assert {name for resource, _, name in written if resource != "pods"} == set(), "not to it, nor beside it"
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert Pods.of(everybody).most() <= GPUS, "no pod was ever asked for that had no GPU"
    assert min(count for _, count in scaled(everybody, "code")) >= FLOOR
    await service.kill()

    async def falls_back() -> bool:
        return is_ready(await kube.get("ScaledObject", "code", namespace), "Fallback")

    await kube.wait_for(falls_back, "KEDA takes its fallback while nobody answers", 60)
    await service.start()

    async def follows_again() -> bool:
        return not is_ready(await kube.get("ScaledObject", "code", namespace), "Fallback")

    await kube.wait_for(follows_again, "KEDA follows our answer again", 60)
    status, body = await answer(service, "code")
    assert (status, body["replicas"]) == (200, 6), "a new start goes on with the number of the one before"
    later = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert scaled(later, "code") == scaled(everybody, "code"), "neither its absence nor its return moved anybody"


def _in_units(word: str) -> float:
    return float(word.removesuffix("m")) / 1000 if word.endswith("m") else float(word)


@pytest.mark.proof  # the HPA's own arithmetic, which a surge in small numbers does not meet
async def test_beyond_nine_replicas_a_step_of_one_is_followed_by_an_hpa_whose_tolerance_is_0_alone(
    keda: Keda, service: Service, traffic: Traffic, kube: Kube, people: People, namespace: str, ours: dict[str, str]
) -> None:
    await kube.create(gpu_node(namespace, gpus=16, labels=ours))
    await kube.apply(deployment("chat", namespace, 12, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(12, namespace)
    scaling = follower("chat", namespace, FLOOR, 16, own_trigger(service, "chat"))
    await kube.apply(*authentication(namespace), scaling)
    only = model("chat", namespace, FLOOR, 12, 16, actuation="metric")
    await service.policy(policy([pool("gpus", ours, 16)], [only]))
    await traffic.past("chat", running=110)
    await service.start()
    await people.pin("one-more", "chat", 13, 300)
    await replicas(kube, namespace, "chat", 13)

    behavior = scaling["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    del behavior["scaleDown"]["tolerance"]
    await kube.apply(scaling)

    async def is_told() -> bool:
        return "a step down of 10%" in json.dumps(await service.explain("chat"))

    await kube.wait_for(is_told, "what its HPA does not follow is told", 30)
    await people.unpin("one-more")
    await people.pin("one-less", "chat", 12, 300)

    async def left_alone() -> bool:
        hpa = await kube.get("HorizontalPodAutoscaler", "keda-hpa-chat", namespace)
        (metric,) = hpa["status"]["currentMetrics"]
        seen = 13 * _in_units(metric["external"]["current"]["averageValue"])
        return round(seen) == 12 and hpa["status"]["desiredReplicas"] == 13

    await kube.wait_for(left_alone, "the HPA sees 12 and leaves 13 alone", 60)
    behavior["scaleDown"]["tolerance"] = "0"
    await kube.apply(scaling)
    await replicas(kube, namespace, "chat", 12)
