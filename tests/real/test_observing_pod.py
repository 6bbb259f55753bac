"""The chart without Kafka on a real API server: its pod's own command and files come to a plan, and it may not write.

There is no container runtime: the pod's command runs as a process, with the environment that the chart gives it, its
mounts in a folder, and the account's files where a pod has them, in a mount namespace of its own.
"""

import asyncio
import base64
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.loop.clock import RealClock
from tests.chart.helm import RELEASE, Json, render
from tests.chart.live import applied
from tests.chart.pod import Pod, flip
from tests.real.first_look import ANSWER_SECONDS, PROGRAM, past_pods, planned, scraped, typed
from tests.real.six_models import run_six, zeros
from tests.testbed.audit import AuditLog
from tests.testbed.keda import Keda
from tests.testbed.kube import Kube
from tests.testbed.process import free_port
from tests.testbed.stack import Stack

_READS = {"get", "list", "watch"}
# What every account may, by Kubernetes' own roles: ask what it may itself.
_OF_ALL = {"selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"}
# Nothing outside sees this /run.
_AS_A_POD = """
set -e
mount -t tmpfs none /run
mkdir -p /run/secrets/kubernetes.io
ln -s "$ACCOUNT" /run/secrets/kubernetes.io/serviceaccount
exec "$@"
"""


def _may_unshare() -> bool:
    if Path("/var/run").resolve() != Path("/run"):
        return False
    command = ["unshare", "--map-root-user", "--mount", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def started(pod: Pod, account: Path, server: str, out: Path) -> subprocess.Popen[str]:
    """The pod's command. `account`: folder of its service account's files; `server`: https://HOST:PORT of the API."""
    host, _, port = server.removeprefix("https://").partition(":")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "ACCOUNT": str(account),
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        **pod.environment(),
    }
    inside = ["unshare", "--map-root-user", "--mount", "--", "sh", "-c", _AS_A_POD, "pod"]
    command = [*inside, str(PROGRAM), *pod.container["args"]]
    with out.open("w") as file:
        return subprocess.Popen(command, cwd="/", env=environment, stdout=file, stderr=subprocess.STDOUT, text=True)


async def rules(us: Kube, namespace: str) -> list[Json]:
    """What the API server says that an account may in a namespace."""
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    answer: Any = await us.request(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", kind | {"spec": {"namespace": namespace}}
    )
    return list(answer["status"]["resourceRules"])


@pytest.mark.timeout(600, func_only=True)
async def test_the_pod_of_a_chart_without_kafka_comes_to_a_plan_by_an_account_that_may_not_write(
    cluster: Stack, keda: Keda, kube: Kube, crds: None, namespace: str, ours: dict[str, str], audit: AuditLog,
    tmp_path: Path,
) -> None:  # fmt: skip
    if not await asyncio.to_thread(_may_unshare):
        pytest.skip("a mount namespace of our own is not to be had here")
    clock, api_port = RealClock(), free_port()
    async with zeros() as keda_asks:
        await run_six(kube, namespace, ours, keda_asks)
        scraping = scraped(tmp_path, await past_pods(kube, namespace))
        url = (await asyncio.to_thread(next, scraping)).url
        observes: Json = {
            "kafka.enabled": False,
            "prometheus.url": url,
            "prometheus.intervalSeconds": 60,
            "api.port": api_port,
            "probePort": free_port(),
            "policy": await first_policy(cluster, namespace, url, tmp_path),
        }
        rendered = await asyncio.to_thread(render, observes, namespace)
        assert {right.verb for right in rendered.rights} <= _READS
        for obj in rendered.objects:
            await kube.create(obj, dryRun="All", fieldValidation="Strict")
        async with applied(kube, rendered):
            access = json.loads(await asyncio.to_thread((await _kubeconfig(cluster, kube, namespace)).read_text))
            cluster_of, token = access["clusters"][0]["cluster"], access["users"][0]["user"]["token"]
            ca = base64.b64decode(cluster_of["certificate-authority-data"]).decode()
            files = {"token": token, "ca.crt": ca, "namespace": namespace}
            await asyncio.to_thread(flip, tmp_path / "account", files)
            (config,) = [each["data"] for each in rendered.of("ConfigMap")]
            sources: Mapping[str, Mapping[str, str]] = {
                f"{RELEASE}-policy": config,
                "kube-root-ca.crt": {"ca.crt": ca},
                "tokens": {"": token},
            }
            pod = Pod(rendered.one("Deployment")["spec"]["template"], tmp_path / "pod", sources)
            await asyncio.to_thread(pod.mount)
            began = clock.monotonic()
            out = tmp_path / "pod.log"
            running = await asyncio.to_thread(started, pod, tmp_path / "account", cluster_of["server"], out)
            environment = {**os.environ, "REBALANCER_SERVER": f"http://127.0.0.1:{api_port}"}
            try:
                await kube.wait_for(lambda: planned(environment, tmp_path), "a plan", ANSWER_SECONDS)
                print(f"the pod's first plan after {clock.monotonic() - began:.1f} s")
                status = await typed(environment, tmp_path, "status")
                explained = await typed(environment, tmp_path, "explain", "chat")
                async with cluster.kube(token) as us:
                    may = await rules(us, namespace)
            finally:
                running.terminate()
                await asyncio.to_thread(running.wait, 30)
                print((await asyncio.to_thread(out.read_text))[-3000:])
                await asyncio.to_thread(lambda: next(scraping, None))
    assert "Observing: nothing is written" in status
    assert "by arrivals" in explained
    verbs = {verb for rule in may if not set(rule["resources"]) <= _OF_ALL for verb in rule["verbs"]}
    assert verbs <= _READS, may
    await audit.settle(kube)
    user = f"system:serviceaccount:{namespace}:{RELEASE}"
    requests = await asyncio.to_thread(lambda: list(audit.requests(user)))
    assert {"list", "watch"} <= {each.verb for each in requests if "selfsubject" not in str(each.target)}
    written = [each.what for each in await asyncio.to_thread(audit.writes, user)]
    assert [what for what in written if not what.startswith("selfsubjectrulesreviews")] == []  # our own question


async def _kubeconfig(cluster: Stack, kube: Kube, namespace: str) -> Path:
    token = await kube.token(namespace, RELEASE)
    return await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-pod", token)


async def first_policy(cluster: Stack, namespace: str, url: str, folder: Path) -> Json:
    """As `rebalancer init` writes it for whoever installs the chart."""
    environment = {**os.environ, "KUBECONFIG": str(await asyncio.to_thread(cluster.kubeconfig))}
    await typed(environment, folder, "init", "--prometheus", url, "--namespace", namespace)
    policy: Json = yaml.safe_load(await asyncio.to_thread((folder / "policy.yaml").read_text))
    return policy
