"""From nothing to a plan on paper in three commands, on six models under KEDA that nobody has described to us."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.real.service import Service
from tests.real.six_models import run_six, zeros
from tests.real.traffic import Traffic
from tests.testbed.keda import Keda
from tests.testbed.kube import Kube
from tests.testbed.stack import Stack

_PROGRAM = Path(sys.executable).parent / "rebalancer"
# What `rebalancer init` reads, and nothing else.
_RIGHTS = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]},
    {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["list"]},
    {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": ["list"]},
    {"apiGroups": ["keda.sh"], "resources": ["scaledobjects"], "verbs": ["list"]},
    {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "verbs": ["list"]},
    {"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["leaderworkersets"], "verbs": ["list"]},
]


@pytest.fixture
async def prometheus() -> AsyncIterator[str]:
    async with zeros() as url:
        yield url


async def test_three_commands_lead_from_six_models_under_keda_to_a_plan_that_a_person_would_sign(
    cluster: Stack, keda: Keda, service: Service, traffic: Traffic, kube: Kube, namespace: str,
    ours: dict[str, str], prometheus: str, tmp_path: Path,
) -> None:  # fmt: skip
    await run_six(kube, namespace, ours, prometheus)
    file = tmp_path / "policy.yaml"
    token = await kube.account(namespace, "newcomer", _RIGHTS)
    kubeconfig = await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-newcomer", token)
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "REBALANCER_SERVER": f"http://127.0.0.1:{service.settings['API_PORT']}",
    }

    async def typed(*arguments: str) -> str:
        done = await asyncio.to_thread(
            subprocess.run, [str(_PROGRAM), *arguments], env=environment, capture_output=True, text=True, check=False
        )
        print(f"$ rebalancer {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    found = await typed("init", "--namespace", namespace, "--out", str(file))
    print(await asyncio.to_thread(file.read_text))
    assert "6 workloads" in found
    assert (await typed("config", "check", str(file))).strip().endswith(": ok")

    await asyncio.gather(
        traffic.past("chat-v1", running=110, waiting=40),  # the engines' names: init made them aliases
        traffic.past("code-v1", running=8, waiting=0),
        traffic.past("summary-v1", running=4, kvCacheUse=0.1),
        traffic.past("embed-v1", running=6, gpuUtilisation=0.4),
        traffic.past("rerank-v1", running=3, waiting=0),
        traffic.past("draft-v1", running=2, ttftP95Seconds=0.2),
    )
    service.settings |= {"WRITE_MODE": "shadow", "POLICY_PATH": str(file)}
    await service.start()

    async def raised() -> bool:
        plan = await service.plan()
        return any(each["model"] == "chat" and each["replicasTo"] > each["replicasFrom"] for each in plan["changes"])

    await kube.wait_for(raised, "a plan that gives chat more replicas", 30)
    assert "Shadow: nothing is written." in await typed("status")
    plan = (await typed("plan")).splitlines()
    assert [line for line in plan if line.startswith("+ chat")]
    assert not [line for line in plan if line.startswith("- ")], "3 GPUs are free: nobody has to give any"
    assert await service.writes(kube) == []
