"""A first look without Kafka: three commands, a real Prometheus with a day of its past, an account that only reads."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from rebalancer.loop.clock import RealClock
from tests.chart.helm import RELEASE, render
from tests.obs.prometheus import Prometheus, prometheus
from tests.obs.vllm_past import PastPod, text, write_past
from tests.real.rights import take_away, to_apply
from tests.real.six_models import SIX, run_six, zeros
from tests.testbed.audit import AuditLog
from tests.testbed.keda import Keda
from tests.testbed.kube import Kube
from tests.testbed.stack import Stack

_PROGRAM = Path(sys.executable).parent / "rebalancer"
_READS = {"get", "list", "watch"}
_RUNNING = {
    "chat": 20.0,
    "code": 4.0,
    "summary": 3.0,
    "embed": 6.0,
    "rerank": 2.0,
    "draft": 1.0,
}  # a pod, on the average
_ANSWER_SECONDS = 180.0
_TEN_MINUTES = 600.0


class _Exporters:
    """All pods' exporters in one server: each under its own path."""

    def __init__(self, pods: list[PastPod]) -> None:
        by_path, clock = {f"/metrics/{pod.name}": pod for pod in pods}, RealClock()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = text(by_path[self.path], clock.now()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(BrokenPipeError):  # Prometheus ends before its last scrape
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.targets = [
            {
                "targets": [self.address],
                "labels": {"namespace": pod.namespace, "pod": pod.name, "__metrics_path__": f"/metrics/{pod.name}"},
            }
            for pod in pods
        ]


def _scraped(folder: Path, pods: list[PastPod]) -> Iterator[Prometheus]:
    """A Prometheus that has scraped these pods for a day and goes on."""
    now, exporters = RealClock().now(), _Exporters(pods)
    write_past(folder, pods, now - 86_400, now - 30, 60.0, exporters.address)
    try:
        with prometheus(folder, {"vllm": exporters.targets}) as running:
            yield running
    finally:
        exporters.server.shutdown()
        exporters.server.server_close()


@pytest.mark.timeout(600, func_only=True)
async def test_three_commands_lead_to_a_first_look_by_an_account_that_can_only_read(
    cluster: Stack, keda: Keda, kube: Kube, namespace: str, ours: dict[str, str], audit: AuditLog, tmp_path: Path
) -> None:
    clock = RealClock()
    observes = {"kafka.enabled": False, "prometheus.url": "http://prometheus:9090"}
    granted = to_apply(await asyncio.to_thread(render, observes, namespace))
    async with zeros() as keda_asks:
        await run_six(kube, namespace, ours, keda_asks)
        await kube.apply(*granted)
        token = await kube.token(namespace, RELEASE)
        kubeconfig = await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-observer", token)
        running = {each.name: _RUNNING[each.name] for each in SIX}
        pods = [
            PastPod(namespace, pod["metadata"]["name"], f"example/{name}", running[name])
            for pod in await kube.items("Pod", namespace)
            for name in [pod["metadata"]["name"].rsplit("-", 2)[0]]
        ]
        scraping = _scraped(tmp_path, pods)
        url = (await asyncio.to_thread(next, scraping)).url
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        observing: subprocess.Popen[str] | None = None
        out = tmp_path / "out"
        try:
            began = clock.monotonic()
            await _typed(environment, tmp_path, "init", "--prometheus", url, "--namespace", namespace)
            observing = await asyncio.to_thread(_observe, environment, out, url)
            said = await _until(out, "IDLE GPU-HOURS")
            environment["REBALANCER_SERVER"] = said.split("REBALANCER_SERVER=")[1].split()[0]
            await kube.wait_for(lambda: _planned(environment, tmp_path), "a plan", _ANSWER_SECONDS)
            status = await _typed(environment, tmp_path, "status")
            seconds = clock.monotonic() - began
            print(await asyncio.to_thread(out.read_text))
            print(f"three commands to a first look: {seconds:.1f} s, {len(pods)} pods, a day of the past")
            explained = await _typed(environment, tmp_path, "explain", "chat")
            await _typed(environment, tmp_path, "plan")
        finally:
            if observing is not None:
                observing.terminate()
                await asyncio.to_thread(observing.wait, 30)
            await asyncio.to_thread(lambda: next(scraping, None))
            await take_away(kube, granted, namespace)
    assert seconds < _TEN_MINUTES
    assert "Observing: nothing is written" in status
    assert "by arrivals" in explained
    await audit.settle(kube)
    user = f"system:serviceaccount:{namespace}:{RELEASE}"
    requests = await asyncio.to_thread(lambda: list(audit.requests(user)))
    verbs = {request.verb for request in requests}
    print(f"audit log: {len(requests)} requests by {user}, verbs {sorted(verbs)}")
    assert {"list", "watch"} <= verbs <= _READS
    assert await asyncio.to_thread(audit.writes, user) == []


def _observe(environment: dict[str, str], out: Path, url: str) -> subprocess.Popen[str]:
    command = [str(_PROGRAM), "observe", "--prometheus", url, "--interval", "60s", "--port", "0"]
    with out.open("w") as file:
        return subprocess.Popen(
            command, cwd=out.parent, env=environment, stdout=file, stderr=subprocess.STDOUT, text=True
        )


async def _typed(environment: dict[str, str], folder: Path, *arguments: str) -> str:
    command = [str(_PROGRAM), *arguments]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    print(f"$ rebalancer {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


async def _planned(environment: dict[str, str], folder: Path) -> bool:
    command = [str(_PROGRAM), "status"]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode == 0 and "MODEL" in done.stdout


async def _until(file: Path, words: str) -> str:
    """What the file has once these words are in it."""
    clock = RealClock()
    until = clock.monotonic() + _ANSWER_SECONDS
    while words not in (said := await asyncio.to_thread(file.read_text)):
        assert clock.monotonic() < until, said
        await clock.sleep(0.2)
    return said
