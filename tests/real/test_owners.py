"""Who owns a target's numbers, on the real API server: refused before the first write, and moved once the owner goes.

The definitions of PodAutoscaler and InferenceService are those that their projects ship; their controllers are not
there, so nothing would ever take a write of ours back: not one is made.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests import beside
from tests.real.occupancy import bounded, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node, hpa

GPUS = 8
SEEN_SECONDS = 30.0
CRDS = ("aibrix-podautoscaler.yaml", "kserve-inferenceservice-minimal.yaml")
MODELS = ("chat", "code", "docs")


@pytest.fixture
def definitions() -> list[dict[str, Any]]:
    folder: Path = beside.folder("artefacts", "REBALANCER_ARTEFACTS") / "crds"
    crds = [YAML(typ="safe", pure=True).load((folder / name).read_text()) for name in CRDS]
    for crd in crds:
        crd["spec"].pop("conversion", None)  # its webhook is the controller's, which is not there
    return crds


@pytest.fixture
async def owners(kube: Kube, definitions: list[dict[str, Any]]) -> None:
    await kube.install_crds(definitions)


def pod_autoscaler(name: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.aibrix.ai/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": 8,
            "scalingStrategy": "KPA",
            "metricsSources": [{"metricSourceType": "resource", "targetMetric": "cpu", "targetValue": "10"}],
        },
    }


async def test_what_others_own_is_refused_before_the_first_write_and_moved_once_they_let_go(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str], owners: None
) -> None:
    """Each of chat (a PodAutoscaler), code (an InferenceService's HPA) and docs (two HPAs) needs 2 and has 1."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=GPUS, labels=ours))
    for name in MODELS:
        await kube.apply(deployment(name, namespace, 1, node_labels=ours))
    await kube.create(pod_autoscaler("chat", namespace))
    parent = await kube.create(
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": "code", "namespace": namespace},
            "spec": {"predictor": {"minReplicas": 1}},
        }
    )
    owner = {
        "apiVersion": parent["apiVersion"],
        "kind": parent["kind"],
        "name": "code",
        "uid": parent["metadata"]["uid"],
        "controller": True,
    }
    below = hpa("code", namespace, 1, 4)
    below["metadata"]["ownerReferences"] = [owner]
    second = hpa("docs", namespace, 1, 4)
    second["metadata"]["name"] = "docs-too"
    for obj in (below, hpa("docs", namespace, 1, 4), second):
        await kube.create(obj)
    await kube.wait_ready(3, namespace)
    models = [model(name, namespace, floor=1, entitlement=2, most=4) for name in MODELS]
    await service.policy(policy([pool("gpus", ours, GPUS)], models))
    await asyncio.gather(*(traffic.past(name, running=15) for name in MODELS))
    await service.start()
    told = await _refused(service, kube, *MODELS)
    assert "is scaled by PodAutoscaler chat" in told["chat"]
    assert "autoscalerClass: external" in told["code"]
    assert "docs" in told["docs"]
    assert "docs-too" in told["docs"]
    lines = "\n".join((await service.explain("code"))["explanation"])
    assert "moved   not at all: guard owner" in lines
    await asyncio.sleep(12.0)  # a planning period and more
    writes = await service.writes(kube)
    assert [scaled(writes, name) + bounded(writes, name, "horizontalpodautoscalers") for name in MODELS] == [[], [], []]
    await kube.delete("PodAutoscaler", "chat", namespace)
    async with asyncio.timeout(SEEN_SECONDS):
        while not scaled(await service.writes(kube), "chat"):
            await asyncio.sleep(0.2)


async def _refused(service: Service, kube: Kube, *names: str) -> dict[str, str]:
    """The guard owner's sentence by model, once each has one."""

    def by_model(plan: Json) -> dict[str, str]:
        return {one["subject"]: one["why"] for one in plan["refusals"] if one["guard"] == "owner"}

    return by_model(
        await service.planned(kube, f"guard owner names {names}", lambda plan: set(names) <= {*by_model(plan)})
    )
