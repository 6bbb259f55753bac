"""A person with a kubeconfig and the command line: no kubectl, no right too many, their name on what they decide."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chart.helm import RELEASE, render
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node
from tests.testbed.stack import Stack

_PROGRAM = Path(sys.executable).parent / "rebalancer"


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Person:
    """Somebody at a terminal: `user` is who they are to the API server."""

    user: str
    environment: dict[str, str]

    async def types(self, *arguments: str) -> Done:
        """Run the command as they would, with nobody to answer questions."""
        done = await asyncio.to_thread(
            subprocess.run,
            [str(_PROGRAM), *arguments],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
async def oncall(cluster: Stack, kube: Kube, service: Service, namespace: str, tmp_path: Path) -> AsyncIterator[Person]:
    """Whom the chart's `login.operators` names, with no other right; what they leave behind goes."""
    named = {"operators": {"users": [f"system:serviceaccount:{namespace}:oncall"]}}
    rendered = await asyncio.to_thread(render, {"namespaces": [namespace], "login": named}, namespace)
    theirs = rendered.of("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    await kube.apply(*[obj for obj in theirs if "operator" in obj["metadata"]["name"]])
    yield await _person(cluster, kube, service, namespace, tmp_path, "oncall", [])
    for stop in await kube.items("WriteStop"):
        await kube.delete("WriteStop", stop["metadata"]["name"])


async def _person(
    cluster: Stack, kube: Kube, service: Service, namespace: str, folder: Path, name: str, rights: list[Json]
) -> Person:
    token = await kube.account(namespace, name, rights)
    kubeconfig = await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-{name}", token)
    environment = {
        "KUBECONFIG": str(kubeconfig),
        "XDG_STATE_HOME": str(folder / name),
        "REBALANCER_SERVER": f"http://127.0.0.1:{service.settings['API_PORT']}",
        "REBALANCER_SERVICE_NAMESPACE": namespace,
    }
    return Person(f"system:serviceaccount:{namespace}:{name}", environment)


async def _started(service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]) -> None:
    """One model of 2 replicas on 4 GPUs, behind tokens."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=4, labels=ours))
    await kube.apply(deployment("chat", namespace, 2, node_labels=ours))
    await kube.wait_ready(2, namespace)
    await service.policy(policy([pool("gpus", ours, 4)], [model("chat", namespace, floor=1, entitlement=3, most=4)]))
    service.settings["API_AUTH"] = "kubernetes"
    await traffic.past("chat", running=15)
    await service.start()


async def test_a_person_reads_decides_stops_and_resumes(
    service: Service,
    traffic: Traffic,
    kube: Kube,
    namespace: str,
    ours: dict[str, str],
    oncall: Person,
) -> None:
    await _started(service, traffic, kube, namespace, ours)

    refused = await oncall.types("status")
    assert (refused.code, refused.out) == (1, "")
    assert "run rebalancer login" in refused.err
    assert (await oncall.types("login", "--release", RELEASE)).code == 0
    status = await oncall.types("status")
    assert status.code == 0, status.err
    assert "chat" in status.out

    pin = ("override", "add", "pin", "chat", "3", "--for", "10m", "--reason", "busy evening", "--yes")
    pinned = await oncall.types(*pin, "--key", "evening")
    assert pinned.code == 0, pinned.err
    assert "in force. Undo: rebalancer override delete ov-" in pinned.out
    assert "now  chat 2 -> 3" in pinned.err
    assert (await oncall.types(*pin, "--key", "evening")).code == 0
    (override,) = await kube.items("Override", namespace)
    assert override["spec"]["actor"] == oncall.user
    assert override["status"]["phase"] == "InForce"
    await kube.wait_ready(3, namespace, "app=chat")
    listed = await oncall.types("override", "list", "-n", namespace, "-o", "json")
    assert [each["actor"] for each in json.loads(listed.out)["overrides"]] == [oncall.user]
    explained = await oncall.types("explain", "chat")
    assert "pin" in explained.out
    assert "busy evening" in explained.out

    stopped = await oncall.types("writes", "stop", "--reason", "bad rollout")
    assert stopped.code == 0, stopped.err
    assert "confirms: nothing is written" in stopped.err
    (stop,) = await kube.items("WriteStop")
    assert stop["spec"] == {"reason": "bad rollout", "actor": oncall.user}
    assert "WRITES STOPPED" in (await oncall.types("status")).out
    resumed = await oncall.types("writes", "resume", "--yes")
    assert resumed.code == 0, resumed.err
    assert await kube.items("WriteStop") == []

    deleted = await oncall.types("override", "delete", override["metadata"]["name"])
    assert deleted.code == 0, deleted.err
    assert await kube.items("Override", namespace) == []


async def test_who_may_not_is_told_so_and_changes_nothing(
    cluster: Stack,
    service: Service,
    traffic: Traffic,
    kube: Kube,
    namespace: str,
    ours: dict[str, str],
    oncall: Person,
    tmp_path: Path,
) -> None:
    await _started(service, traffic, kube, namespace, ours)
    guest = await _person(cluster, kube, service, namespace, tmp_path, "guest", [])
    assert "you may not create serviceaccounts/token" in (await guest.types("login", "--release", RELEASE)).err
    pinned = await guest.types("override", "add", "pin", "chat", "3", "--reason", "x", "--yes", "-n", namespace)
    assert pinned.code == 1
    assert "you may not create overrides" in pinned.err
    stopped = await guest.types("writes", "stop", "--reason", "x")
    assert stopped.code == 1
    assert "you may not create writestops" in stopped.err
    assert await kube.items("Override", namespace) == []
    assert await kube.items("WriteStop") == []
