"""The first look at targets of every kind: in shadow each has a plan, and nothing is written.

The definitions are the real ones. What their controllers would make is made here: the pods of groups by
`tests.testbed.groups`, those of the other custom kinds by a ReplicaSet or a Deployment of the same labels.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.real.policies import model, policy, pool
from tests.real.rights import rights_in, take_away, to_apply
from tests.real.service import ACCOUNT, Service
from tests.real.test_stacks import bare_definition
from tests.real.traffic import Traffic
from tests.testbed import groups
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node, leader_worker_set, stateful_set

KINDS = {
    "plain": "Deployment",
    "sts": "StatefulSet",
    "lws": "LeaderWorkerSet",
    "dynamo": "DynamoGraphDeploymentScalingAdapter",
    "storm": "StormService",
    "rollout": "Rollout",
}
PODS_OF = {"lws": 2}
VICTIMS = {"dynamo": "replicaSet", "storm": "replicaSet"}  # as their pods are made here; of the others the kind says it
RESOURCES = [
    "statefulsets.apps",
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "dynamographdeploymentscalingadapters.nvidia.com",
    "stormservices.orchestration.aibrix.ai",
    "rollouts.argoproj.io",
]
HASH = "5d9f7c"
CYCLES = 3  # after which whoever may write has written


@pytest.fixture
async def account(kube: Kube, crds: None, namespace: str) -> AsyncIterator[str]:
    """A token of the chart's service account with all its rights: nothing but the mode keeps it from writing.

    No entry of the ledger: that rights to write are not used is what is shown here.
    """
    objects = to_apply(await asyncio.to_thread(rights_in, namespace, RESOURCES))
    await kube.apply(*objects)
    yield await kube.token(namespace, ACCOUNT)
    await take_away(kube, objects, namespace)


@pytest.fixture
def definitions() -> list[Json]:
    return [bare_definition(KINDS[name]) for name in ("lws", "dynamo", "storm", "rollout")]


def _pods_by_labels(name: str, namespace: str, ours: dict[str, str]) -> Json:
    return deployment(f"{name}-pods", namespace, node_labels=ours)


async def _custom(kube: Kube, namespace: str, api_version: str, name: str, spec: Json, status: Json) -> Json:
    """An object of a custom kind, with the status that its controller would give it."""
    made = {"apiVersion": api_version, "kind": KINDS[name], "metadata": {"name": name, "namespace": namespace}}
    await kube.create({**made, "spec": {"replicas": 1, **spec}})
    return await kube.patch(KINDS[name], name, {"status": {"replicas": 1, **status}}, namespace, "status")


async def _world(kube: Kube, namespace: str, ours: dict[str, str]) -> None:
    """One replica of each kind, and room for one more of each."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=16, labels=ours))
    await kube.apply(
        deployment("plain", namespace, node_labels=ours),
        stateful_set("sts", namespace, node_labels=ours),
        leader_worker_set("lws", namespace, node_labels=ours),
        _pods_by_labels("dynamo", namespace, ours),
        _pods_by_labels("storm", namespace, ours),
    )
    graph = {"dgdRef": {"name": "graph", "serviceName": "decode"}}
    await _custom(kube, namespace, "nvidia.com/v1beta1", "dynamo", graph, {"selector": "app=dynamo-pods"})
    roles = {"template": {"spec": {"roles": [{"name": "decode", "replicas": 1}]}}}
    selected = {"scalingTargetSelector": "app=storm-pods"}
    await _custom(kube, namespace, "orchestration.aibrix.ai/v1alpha1", "storm", roles, selected)
    pods = deployment("rollout", namespace, node_labels=ours, labels={"rollouts-pod-template-hash": HASH})["spec"]
    stable = {"stableRS": HASH, "currentPodHash": HASH, "selector": "app=rollout", "HPAReplicas": 1}
    owner = await _custom(kube, namespace, "argoproj.io/v1alpha1", "rollout", pods, stable)
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {
        "name": "rollout",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    made = {"name": f"rollout-{HASH}", "namespace": namespace, "ownerReferences": [reference]}
    await kube.create({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": made, "spec": pods})
    await kube.wait_ready(len(KINDS) + 1, namespace)


def _model(name: str, namespace: str) -> Json:
    victims = {"victims": VICTIMS[name]} if name in VICTIMS else {}
    pods = PODS_OF.get(name, 1)
    return model(
        name, namespace, 1, 1, 4,
        targets=[{"pool": "gpus", "name": name, "kind": KINDS[name], **victims}],
        gpusPerReplica=pods,
        podsPerReplica=pods,
    )  # fmt: skip


async def test_each_kind_has_a_plan_and_nothing_of_ours_is_in_the_audit_log(  # fixtures
    kube: Kube,
    account: str,
    service: Service,
    traffic: Traffic,
    namespace: str,
    ours: dict[str, str],
    definitions: list[Json],
) -> None:
    await kube.install_crds(definitions)
    async with groups.controller(kube, namespace):
        await _world(kube, namespace, ours)
        service.settings |= {"WRITE_MODE": "shadow"}
        await service.policy(policy([pool("gpus", ours, 16)], [_model(name, namespace) for name in KINDS]))
        await asyncio.gather(*(traffic.past(name, running=15) for name in KINDS))
        await service.start()
        cycles: list[int] = []  # those whose plans have a change of each kind

        async def planned() -> bool:
            plan = await service.plan()
            changes = {each["model"]: (each["replicasFrom"], each["replicasTo"]) for each in plan["changes"]}
            if changes == dict.fromkeys(KINDS, (1, 2)) and plan["cycle"] not in cycles:
                cycles.append(plan["cycle"])
            return len(cycles) >= CYCLES

        try:
            await kube.wait_for(planned, "plans with a change of each kind", 60)
        finally:
            left = (await service.plan())["unmet"]
            print(f"cycles {cycles}; unmet: {[(each['model'], each['why']) for each in left]}")
    assert await service.writes(kube) == []
    for name, kind in KINDS.items():
        assert (await kube.get(kind, name, namespace, "scale"))["spec"]["replicas"] == 1
