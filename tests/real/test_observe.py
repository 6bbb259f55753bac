"""A first look without Kafka: three commands, a real Prometheus with a day of its past, an account that only reads.

Its pods tell the exposition that was recorded of vLLM 0.7.
"""

import asyncio
import os
import re
import subprocess
from pathlib import Path

import pytest

from rebalancer.loop.clock import RealClock
from tests.chart.helm import RELEASE, render
from tests.obs.recorded_vllm import told
from tests.obs.vllm_past import DAY_SECONDS
from tests.real.first_look import ANSWER_SECONDS, PROGRAM, past_pods, planned, scraped, typed
from tests.real.rights import take_away, to_apply
from tests.real.six_models import SIX, TWENTY, run_six, zeros
from tests.testbed.audit import AuditLog
from tests.testbed.keda import Keda
from tests.testbed.kube import Kube
from tests.testbed.stack import Stack

_READS = {"get", "list", "watch"}
_TEN_MINUTES = 600.0
_WEEK_SECONDS = 7 * DAY_SECONDS


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
        pods = await past_pods(kube, namespace)
        scraping = scraped(tmp_path, pods, told)
        url = (await asyncio.to_thread(next, scraping)).url
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        observing: subprocess.Popen[str] | None = None
        out = tmp_path / "out"
        try:
            began = clock.monotonic()
            await typed(environment, tmp_path, "init", "--prometheus", url, "--namespace", namespace)
            observing = await asyncio.to_thread(_observe, environment, out, url)
            said = await _until(out, "IDLE GPU-HOURS")
            environment["REBALANCER_SERVER"] = said.split("REBALANCER_SERVER=")[1].split()[0]
            report = await typed(environment, tmp_path, "report", "--last", "7d")
            seconds = clock.monotonic() - began
            await kube.wait_for(lambda: planned(environment, tmp_path), "a plan", ANSWER_SECONDS)
            status = await typed(environment, tmp_path, "status")
            print(await asyncio.to_thread(out.read_text))
            print(f"three commands to the first report: {seconds:.1f} s, {len(pods)} pods, a day of the past")
            explained = await typed(environment, tmp_path, "explain", "chat")
            await typed(environment, tmp_path, "plan")
        finally:
            if observing is not None:
                observing.terminate()
                await asyncio.to_thread(observing.wait, 30)
            await asyncio.to_thread(lambda: next(scraping, None))
            await take_away(kube, granted, namespace)
    assert seconds < _TEN_MINUTES
    for model in SIX:
        assert re.search(rf"^{model.name} +\d+\.0 +\d+ +\d+ % +\d+ % ", report, re.MULTILINE), "GPUs held, and busy"
    assert "Observing: nothing is written" in status
    assert "by arrivals" in explained
    await audit.settle(kube)
    user = f"system:serviceaccount:{namespace}:{RELEASE}"
    requests = await asyncio.to_thread(lambda: list(audit.requests(user)))
    verbs = {request.verb for request in requests}
    print(f"audit log: {len(requests)} requests by {user}, verbs {sorted(verbs)}")
    assert {"list", "watch"} <= verbs <= _READS
    assert await asyncio.to_thread(audit.writes, user) == []


@pytest.mark.proof
@pytest.mark.timeout(1800, func_only=True)
async def test_twenty_models_and_a_week_of_their_past_are_reported_within_ten_minutes(
    cluster: Stack, keda: Keda, kube: Kube, namespace: str, ours: dict[str, str], tmp_path: Path
) -> None:
    clock = RealClock()
    async with zeros() as keda_asks:
        await run_six(kube, namespace, ours, keda_asks, TWENTY)
        kubeconfig = await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-looker")
        pods = await past_pods(kube, namespace)
        scraping = scraped(tmp_path, pods, seconds=_WEEK_SECONDS)
        url = (await asyncio.to_thread(next, scraping)).url
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        out = tmp_path / "out"
        began = clock.monotonic()
        await typed(environment, tmp_path, "init", "--prometheus", url, "--namespace", namespace)
        observing = await asyncio.to_thread(_observe, environment, out, url)
        try:
            said = await _until(out, "IDLE GPU-HOURS", _TEN_MINUTES)
            environment["REBALANCER_SERVER"] = said.split("REBALANCER_SERVER=")[1].split()[0]
            report = await typed(environment, tmp_path, "report", "--last", "7d")
            seconds = clock.monotonic() - began
            print(await asyncio.to_thread(out.read_text))
        finally:
            observing.terminate()
            await asyncio.to_thread(observing.wait, 30)
            await asyncio.to_thread(lambda: next(scraping, None))
    print(f"first command to report: {seconds:.1f} s, {len(TWENTY)} models, {len(pods)} pods, seven days")
    assert seconds < _TEN_MINUTES
    for model in TWENTY:
        assert re.search(rf"^{model.name} +\d+\.0 +\d+ +\d+ % +\d+ % ", report, re.MULTILINE), model.name


def _observe(environment: dict[str, str], out: Path, url: str) -> subprocess.Popen[str]:
    command = [str(PROGRAM), "observe", "--prometheus", url, "--interval", "60s", "--port", "0"]
    with out.open("w") as file:
        return subprocess.Popen(
            command, cwd=out.parent, env=environment, stdout=file, stderr=subprocess.STDOUT, text=True
        )


async def _until(file: Path, words: str, seconds: float = ANSWER_SECONDS) -> str:
    """What the file has once these words are in it."""
    clock = RealClock()
    until = clock.monotonic() + seconds
    while words not in (said := await asyncio.to_thread(file.read_text)):
        assert clock.monotonic() < until, said
        await clock.sleep(0.2)
    return said
