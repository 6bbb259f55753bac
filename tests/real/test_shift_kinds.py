"""A surge moves GPUs between five kinds of targets: under KEDA, under an HPA, plain, numbered, in groups of two pods.

The LeaderWorkerSet's definition is the real one's; who makes its pods is `tests.testbed.groups`.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable

import pytest

from tests.beside import folder
from tests.real.occupancy import Pods, bounded, failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.real.triggers import Triggers
from tests.testbed import groups
from tests.testbed.audit import AuditLog, Write
from tests.testbed.keda import Keda
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node, hpa, leader_worker_set, scaled_object, stateful_set

GPUS = 12
HELD = {"keda": 3, "hpa": 3, "plain": 2, "sts": 2, "lws": 1}  # replicas; one of lws is two pods
PODS_OF = {"lws": 2}


@pytest.fixture
def target_kinds() -> tuple[str, ...]:
    return ("statefulsets.apps", "leaderworkersets.leaderworkerset.x-k8s.io")


@pytest.fixture
async def triggers() -> AsyncIterator[Triggers]:
    triggers = Triggers()
    async with triggers.server:
        yield triggers


def _models(namespace: str) -> list[Json]:
    kinds = {"sts": "StatefulSet", "lws": "LeaderWorkerSet"}
    return [
        model(
            name,
            namespace,
            1,
            replicas,
            8,
            targets=[{"pool": "gpus", "name": name, "kind": kinds.get(name, "Deployment")}],
            gpusPerReplica=PODS_OF.get(name, 1),
            podsPerReplica=PODS_OF.get(name, 1),
        )
        for name, replicas in HELD.items()
    ]


@pytest.fixture
def definition() -> Json:
    """The LeaderWorkerSet's CustomResourceDefinition, as its project ships it."""
    found: Json = json.loads((folder("artefacts", "REBALANCER_ARTEFACTS") / "crds/leaderworkerset-v1.json").read_text())
    return found


async def _world(kube: Kube, namespace: str, ours: dict[str, str], triggers: Triggers) -> None:
    """Three nodes of 4 GPUs, full."""
    for name in ("a", "b", "c"):
        await kube.create(gpu_node(f"{namespace}-{name}", gpus=GPUS // 3, labels=ours))
    like: Json = {"node_labels": ours, "load_seconds": 1, "end_seconds": 1}
    await kube.apply(*(deployment(name, namespace, HELD[name], **like) for name in ("keda", "hpa", "plain")))
    await kube.apply(stateful_set("sts", namespace, HELD["sts"], **like))
    await kube.apply(leader_worker_set("lws", namespace, HELD["lws"], **like))
    await kube.wait_ready(GPUS, namespace)
    triggers.wants = {"keda": HELD["keda"]}
    at_once = {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}}
    await kube.apply(
        scaled_object("keda", namespace, 1, 8, [triggers.of("keda")], advanced=at_once), hpa("hpa", namespace, 3, 8)
    )


async def _replicas(kube: Kube, namespace: str, kind: str, name: str, least: int, seconds: float = 60) -> None:
    async def reached() -> bool:
        scale = await kube.get(kind, name, namespace, "scale")
        return bool(scale["spec"].get("replicas", 0) >= least)

    await kube.wait_for(reached, f"{name} at {least} replicas", seconds)


def _numbers(ours: list[Write], name: str) -> list[tuple[float, int]]:
    """What we asked for: maxima where an autoscaler is, else replicas."""
    if name == "keda":
        return [(at, high) for at, _, high in bounded(ours, name)]
    if name == "hpa":
        return [(at, high) for at, _, high in bounded(ours, name, "horizontalpodautoscalers")]
    return scaled(ours, name, {"sts": "statefulsets", "lws": "leaderworkersets"}.get(name, "deployments"))


def _print_writes(ours: Iterable[Write]) -> None:
    """Writes per object and minute, as the closing note of an issue wants them."""
    writes = [each for each in ours if each.resource != "events" and each.succeeded]
    first, last = writes[0].received, writes[-1].received
    counts = Counter(each.what for each in writes)
    print(f"{len(writes)} writes in {last - first:.0f} s")
    for what, count in sorted(counts.items()):
        print(f"  {what}: {count}, {60 * count / max(60.0, last - first):.1f} a minute")


@pytest.mark.timeout(240)
async def test_a_surge_moves_gpus_between_targets_of_five_kinds(  # fixtures
    service: Service,
    traffic: Traffic,
    kube: Kube,
    keda: Keda,
    audit: AuditLog,
    namespace: str,
    ours: dict[str, str],
    triggers: Triggers,
    definition: Json,
) -> None:
    await kube.install_crds([definition])
    async with groups.controller(kube, namespace):
        await _world(kube, namespace, ours, triggers)
        service.settings |= {"WRITE_DELETION_COST": "true"}
        await service.policy(policy([pool("gpus", ours, GPUS)], _models(namespace)))
        await asyncio.gather(*(traffic.past(name, running=9 * replicas) for name, replicas in HELD.items()))
        await service.start()

        for name in ("keda", "hpa", "sts"):
            traffic.says(name, running=2)
        traffic.says("plain", running=75)
        await _replicas(kube, namespace, "Deployment", "plain", 6)

        traffic.says("plain", running=2)
        traffic.says("lws", running=38)
        await _replicas(kube, namespace, "LeaderWorkerSet", "lws", 3)
        await kube.wait_ready(6, namespace, "leaderworkerset.sigs.k8s.io/name=lws")

        traffic.says("lws", running=2)
        traffic.says("sts", running=55)
        await _replicas(kube, namespace, "StatefulSet", "sts", 4)

    writes = await service.writes(kube)
    assert failed(writes) == []
    _print_writes(writes)
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    pods = Pods.of(everybody)
    assert pods.most() <= GPUS, "no pod was ever asked for that had no GPU"
    for name, held in HELD.items():
        numbers = [number for _, number in _numbers(writes, name)]
        assert numbers, f"nothing was asked of {name}"
        assert min(numbers) >= 1, f"{name} was asked for less than its floor: {numbers}"
        assert pods.least(name, since=writes[0].received) >= PODS_OF.get(name, 1), f"{name} had less than its floor"
        print(f"{name}: {held} -> {' -> '.join(map(str, numbers))}")
    marked = {each.name.partition("-")[0] for each in writes if each.resource == "pods"}
    assert marked, "who goes of a Deployment is marked"
    assert not marked & {"sts", "lws"}, "numbered pods are not: their numbers say who goes"
