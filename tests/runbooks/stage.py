"""The demo's cluster with the real service on it, a Prometheus that watches both, and an on-call person's shell."""

import asyncio
import json
import os
import shlex
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from rebalancer.app import Service
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.api import Obj
from rebalancer.sandbox.demo_cluster import POLICY_FILE, DemoCluster, build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from rebalancer.settings.service import ServiceSettings
from tests.runbooks.prometheus import Prometheus, sped_up
from tests.testbed.place import answers
from tests.testbed.process import Process, Reaper, free_port

ACCOUNT = "rebalancer"
OPERATOR = "oncall"
ALERTS = Path(__file__).parents[2] / "charts/rebalancer/files/alerts.yaml"
COMMAND_SECONDS = 30.0
_PROGRAM = Path(sys.executable).parent


@dataclass(frozen=True)
class Said:
    """What a command printed, both streams, and its exit code."""

    code: int
    text: str


@dataclass
class Gpus:
    """What a DCGM exporter would say of each node. `of`: node -> (degrees Celsius, share of memory used).

    `more`: lines of its, or of kube-state-metrics, about pods.
    """

    of: Callable[[], dict[str, tuple[float, float]]]
    more: Callable[[], list[str]] = list

    async def metrics(self, _: web.Request) -> web.Response:
        """Prometheus scrapes this."""
        lines = []
        for node, (degrees, share) in self.of().items():
            labels = f'{{gpu="0",UUID="GPU-{node}",Hostname="{node}",modelName="NVIDIA A100"}}'
            lines += [
                f"DCGM_FI_DEV_GPU_TEMP{labels} {degrees}",
                f"DCGM_FI_DEV_FB_USED{labels} {share * 80_000}",
                f"DCGM_FI_DEV_FB_FREE{labels} {(1 - share) * 80_000}",
            ]
        return web.Response(text="\n".join([*lines, *self.more()]) + "\n")


@dataclass
class Stage:
    """What faults act on and commands are run in. `words`: what the page's capitals stand for now.

    `process`: a replica that is no part of this process, so that it can be killed or frozen.
    """

    folder: Path
    clock: ScaledClock
    cluster: DemoCluster
    sandbox: Sandbox
    settings: ServiceSettings
    prometheus: Prometheus
    gpus: Gpus
    service: Service
    hung: threading.Event
    reaper: Reaper
    words: dict[str, str] = field(default_factory=dict)
    second: Service | None = None
    process: Process | None = None

    async def until(self, condition: Callable[[], Awaitable[object]], what: str, seconds: float = 60.0) -> None:
        """Wait until `condition()` is true; fail saying `what` did not come. The service is asked on its own loop."""
        try:
            async with asyncio.timeout(seconds):
                while not await condition():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            states = await asyncio.to_thread(self.prometheus.states)
            status = (await self.run("rebalancer status")).text
            pytest.fail(f"within {seconds:.0f} s: {what}\n{states}\n{status}")

    async def firing(self, alert: str) -> bool:
        """Whether an alert of that name fires now."""
        return bool(await asyncio.to_thread(self.prometheus.firing, alert))

    async def run(self, line: str, service: Service | None = None) -> Said:
        """Run a command of the page as a person would, with its capitals replaced; `service`: whom it asks."""
        for word, stands_for in self.words.items():
            line = line.replace(word, stands_for)
        program, *arguments = shlex.split(line)
        process = await asyncio.create_subprocess_exec(
            _PROGRAM / program,
            *arguments,
            env=self._environment((service or self.service).settings.api_port),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(COMMAND_SECONDS):
            out, _ = await process.communicate()
        return Said(process.returncode or 0, out.decode())

    def _environment(self, port: int) -> dict[str, str]:
        """A person's shell: their kubeconfig, where the service is, no terminal."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("REBALANCER_")}
        return {
            **clean,
            "KUBECONFIG": str(self.folder / OPERATOR),
            "REBALANCER_SERVER": f"http://127.0.0.1:{port}",
            "REBALANCER_KAFKA_BOOTSTRAP": self.settings.kafka_bootstrap,
            "REBALANCER_KAFKA_SECURITY_PROTOCOL": "PLAINTEXT",
            "COLUMNS": "200",
        }

    async def request(self, method: str, path: str, body: Obj | None = None, user: str = OPERATOR) -> None:
        """One call of the Kubernetes API in somebody's name."""
        kinds = {"PATCH": "application/merge-patch+json"}
        headers = {
            "Authorization": f"Bearer sandbox-{user}",
            "User-Agent": user,
            "Content-Type": kinds.get(method, "application/json"),
        }
        url = self.sandbox.kubernetes.url
        async with aiohttp.ClientSession(url, headers=headers, raise_for_status=True) as session:
            await session.request(method, path, data=json.dumps(body))

    async def restart(self, **changed: Any) -> None:  # noqa: ANN401  fields of the settings
        """Stop the service and start it again with other settings."""
        await self.service.stop()
        journal = changed.pop("journal", None)
        self.settings = self.settings.model_copy(update=changed)
        self.service = self.another(self.settings, journal)
        await self.service.start()

    def as_process(self, settings: ServiceSettings) -> Process:
        """A replica as a process of its own, not started: its seconds are those of life."""
        fields = {name: str(getattr(settings, name)) for name in settings.model_fields_set}
        return Process(
            [str(_PROGRAM / "rebalancer"), "run"],
            log=self.folder / f"{settings.instance}.log",
            healthy=lambda: answers(settings.probe_port, "/readyz"),
            reaper=self.reaper,
            environment={f"REBALANCER_{name.upper()}": value for name, value in fields.items()},
        )

    def another(self, settings: ServiceSettings, journal: Path | None = None) -> Service:
        """A service that is not started. Where its loop hangs for longer than its Lease, it does not end pytest."""
        return Service(settings, self.clock, journal=journal, end=self.hung.set)


async def ready(service: Service) -> bool:
    """It decides on the whole history, and misses nothing."""
    loads = service.reporter.snapshot().loads
    known = bool(loads) and all(load.work.slow is not None for load in loads)
    return service.plan is not None and known and not service.reporter.unready()


@asynccontextmanager
async def a_stage(folder: Path, times: float, speed: float) -> AsyncIterator[Stage]:
    """Everything up and calm; the alerts' waits are `times` shorter, the service's seconds `speed` times."""
    clock = ScaledClock(speed)
    cluster = build(demo_policy(), clock.now())
    gpus = Gpus(lambda: dict.fromkeys(cluster.world.nodes, (45.0, 0.8)))
    async with Sandbox(clock, cluster.world) as sandbox, _serving(gpus) as exporter:
        for user in (ACCOUNT, OPERATOR):
            await asyncio.to_thread(sandbox.kubernetes.write_kubeconfig, folder / user, user)
        await asyncio.to_thread((folder / "policy.yaml").write_text, POLICY_FILE.read_text())
        settings = _settings(folder, sandbox)
        rules = yaml.safe_load(await asyncio.to_thread(ALERTS.read_text))
        targets = {"rebalancer": f"127.0.0.1:{settings.probe_port}", "dcgm-exporter": f"127.0.0.1:{exporter}"}
        prometheus = await asyncio.to_thread(Prometheus, folder, targets, sped_up(rules, times))
        hung = threading.Event()
        service = Service(settings, clock, end=hung.set)
        reaper = await asyncio.to_thread(Reaper)
        stage = Stage(folder, clock, cluster, sandbox, settings, prometheus, gpus, service, hung, reaper)
        try:
            await service.start()
            await asyncio.to_thread(prometheus.start)
            await stage.until(lambda: ready(service), "the service ready, with its history")
            yield stage
        finally:
            await asyncio.to_thread(prometheus.stop)
            await stage.service.stop()
            if stage.second is not None:
                await stage.second.stop()
            if stage.process is not None:
                await asyncio.to_thread(stage.process.kill)
            await asyncio.to_thread(reaper.close)
        assert not hung.is_set(), "the loop hung for longer than the Lease"


def _settings(folder: Path, sandbox: Sandbox) -> ServiceSettings:
    return ServiceSettings(
        cluster_name="demo",
        kafka_bootstrap=sandbox.bootstrap,
        kafka_security_protocol="PLAINTEXT",
        kubeconfig=folder / ACCOUNT,
        policy_path=folder / "policy.yaml",
        write_mode="act",
        write_deletion_cost=True,
        api_auth="none",
        api_port=free_port(),
        probe_port=free_port(),
        journal_dir=folder / "journal",
        checkpoint_seconds=1.0,  # where an age of 300 s is one of 3
    )


@asynccontextmanager
async def _serving(gpus: Gpus) -> AsyncIterator[int]:
    """The exporter's port."""
    app = web.Application()
    app.router.add_get("/metrics", gpus.metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
