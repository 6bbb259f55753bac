"""A controller of LeaderWorkerSets: makes of one what the real one makes, so that Kubernetes' own controllers run it.

As kubernetes-sigs/lws does it: a StatefulSet of leaders, owned by the LeaderWorkerSet and named as it; for each leader
pod a StatefulSet of its workers, owned by that pod and named as it, whose numbers begin at 1. Group and place in the
group stand in labels, which the real one's webhook puts on pods when they are made and this one a moment later. Who
scales down loses the last leader, and Kubernetes collects its workers. Rollouts, restarts and topology are not played.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from copy import deepcopy

from tests.testbed.kube import ApiError, Json, Kube, is_ready

LOOK_SECONDS = 0.1
KIND = "LeaderWorkerSet"
LABEL = "leaderworkerset.sigs.k8s.io/"


@asynccontextmanager
async def controller(kube: Kube, namespace: str) -> AsyncIterator[None]:
    """Runs it for one namespace until the context ends."""
    running = asyncio.create_task(_run(kube, namespace))
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def _run(kube: Kube, namespace: str) -> None:
    made: dict[str, int] = {}
    while True:
        with suppress(ApiError):  # an object went meanwhile: the next look sees it
            for each in await kube.items(KIND, namespace):
                await _reconcile(kube, namespace, each, made)
        await asyncio.sleep(LOOK_SECONDS)


async def _reconcile(kube: Kube, namespace: str, wanted: Json, made: dict[str, int]) -> None:
    name, replicas = wanted["metadata"]["name"], wanted["spec"]["replicas"]
    size = wanted["spec"]["leaderWorkerTemplate"]["size"]
    if made.get(name) != replicas:
        await kube.apply(_set(wanted, namespace, name, replicas, owner=wanted, labels={"worker-index": "0"}))
        made[name] = replicas
    pods = await kube.items("Pod", namespace, f"{LABEL}name={name}")
    for pod in pods:
        await _labelled(kube, namespace, pod)
    leaders = [pod for pod in pods if pod["metadata"]["labels"].get(f"{LABEL}worker-index") == "0"]
    for leader in leaders:
        uid = leader["metadata"]["uid"]
        if uid not in made and "deletionTimestamp" not in leader["metadata"] and size > 1:
            group = {"group-index": _number(leader)}
            owner = {"apiVersion": "v1", "kind": "Pod", "metadata": leader["metadata"]}
            await kube.apply(_set(wanted, namespace, leader["metadata"]["name"], size - 1, owner=owner, labels=group))
            made[uid] = size
    await _told(kube, namespace, wanted, pods, leaders)


def _set(  # what a StatefulSet is made of
    wanted: Json, namespace: str, name: str, replicas: int, *, owner: Json, labels: dict[str, str]
) -> Json:
    """The leaders' StatefulSet, or one of workers."""
    own = {f"{LABEL}name": wanted["metadata"]["name"], **{f"{LABEL}{key}": value for key, value in labels.items()}}
    template = deepcopy(wanted["spec"]["leaderWorkerTemplate"]["workerTemplate"])
    template["metadata"]["labels"] = {**template["metadata"].get("labels", {}), **own}
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    leads = owner["kind"] == KIND
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace, "labels": own, "ownerReferences": [reference]},
        "spec": {
            "replicas": replicas,
            "serviceName": wanted["metadata"]["name"],
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": own},
            "template": template,
            **({} if leads else {"ordinals": {"start": 1}}),
        },
    }


async def _labelled(kube: Kube, namespace: str, pod: Json) -> None:
    """What the real one's webhook adds: a leader's group, a worker's place."""
    labels = pod["metadata"]["labels"]
    missing = [key for key in ("group-index", "worker-index") if f"{LABEL}{key}" not in labels]
    if missing:
        more = {f"{LABEL}{key}": _number(pod) for key in missing}
        await kube.patch("Pod", pod["metadata"]["name"], {"metadata": {"labels": more}}, namespace)


def _number(pod: Json) -> str:
    name: str = pod["metadata"]["name"]
    return name.rpartition("-")[2]


async def _told(kube: Kube, namespace: str, wanted: Json, pods: list[Json], leaders: list[Json]) -> None:
    name, size = wanted["metadata"]["name"], wanted["spec"]["leaderWorkerTemplate"]["size"]
    groups: dict[str, int] = {}
    for pod in filter(is_ready, pods):
        group = pod["metadata"]["labels"].get(f"{LABEL}group-index", "")
        groups[group] = groups.get(group, 0) + 1
    status = {
        "replicas": len(leaders),
        "readyReplicas": sum(count == size for count in groups.values()),
        "hpaPodSelector": f"{LABEL}name={name},{LABEL}worker-index=0",
    }
    if {key: wanted.get("status", {}).get(key) for key in status} != status:
        await kube.patch(KIND, name, {"status": status}, namespace, "status")
