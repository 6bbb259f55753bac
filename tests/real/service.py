"""The service under test: `rebalancer run` as a process of its own, against the stack, with no right too many."""

import asyncio
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp

from rebalancer.loop.replay import Replay, replay
from rebalancer.obs.journal_files import PATTERN
from tests.testbed.audit import AuditLog, Write
from tests.testbed.kafka import Kafka
from tests.testbed.kube import Kube
from tests.testbed.place import answers
from tests.testbed.process import Process, Reaper, free_port, wait_until
from tests.testbed.stack import Stack

Json = dict[str, Any]

ACCOUNT = "rebalancer"
_PROGRAM = Path(sys.executable).parent / "rebalancer"
# An ordered end writes a checkpoint and waits for the write under way.
_STOP_SECONDS = 20.0


def lacking(plan: Json, model: str) -> list[Json]:
    """What the model lacks by that plan."""
    return [one for one in plan["unmet"] if one["model"] == model]


def refusals(plan: Json, guard: str, subject: str) -> list[Json]:
    """The moves of the subject's that the guard declines in that plan."""
    return [one for one in plan["refusals"] if (one["guard"], one["subject"]) == (guard, subject)]


class Service:
    """One installation. Policy, journal and log lie in `folder`; `account` is who it is in the audit log.

    `settings` are REBALANCER_ variables without the prefix. `begun_by`: words before its command, as of a shell.
    `policies`: those put in place, oldest first. It keeps its ports over restarts.
    """

    def __init__(
        self, stack: Stack, kafka: Kafka, kubeconfig: Path, account: str, topic_prefix: str, folder: Path
    ) -> None:
        self.account = account
        self.folder = folder
        self.settings: dict[str, str] = {
            "KAFKA_BOOTSTRAP": kafka.bootstrap,
            "KAFKA_SECURITY_PROTOCOL": "PLAINTEXT",
            "TOPIC_PREFIX": topic_prefix,
            "KUBECONFIG": str(kubeconfig),
            "OWN_NAMESPACE": account.split(":")[2],
            "ACCOUNT_NAME": ACCOUNT,
            "POLICY_PATH": str(folder / "policy.yaml"),
            "JOURNAL_DIR": str(folder / "journal"),
            "WRITE_MODE": "act",
            "CHECKPOINT_SECONDS": "2",
            "RINGS_SECONDS": "4",
            "API_AUTH": "none",
            "API_PORT": str(free_port()),
            "PROBE_PORT": str(free_port()),
        }
        self.begun_by: tuple[str, ...] = ()
        self.policies: list[Json] = []
        self._stack = stack
        self._reaper = Reaper()
        self._process: Process | None = None

    async def policy(self, policy: Json) -> None:
        """Put a policy in place, at once as a ConfigMap would (JSON is YAML)."""
        self.policies.append(policy)
        await asyncio.to_thread(self._write_policy, json.dumps(policy, indent=1))

    async def start(self, *, ready: bool = True) -> None:
        """Start it and wait until /readyz says yes, or only until it answers. Raises process.Failed with its log."""
        await asyncio.to_thread(self._start, ready)

    async def kill(self) -> None:
        """End it at once, as kill -9 does."""
        await asyncio.to_thread(self._running.kill)

    async def stop(self) -> int:
        """SIGTERM, wait for its end; the exit code."""
        return await asyncio.to_thread(self._stop)

    async def close(self) -> None:
        """End it however it is. Its log stays."""
        if self._process is not None:
            await asyncio.to_thread(self._process.kill)
        await asyncio.to_thread(self._reaper.close)

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process is not None else None

    async def wait_ready(self, seconds: float = 60.0) -> None:
        """Wait until /readyz says yes. Raises process.Failed."""
        await asyncio.to_thread(wait_until, self._ready, f"ready: {self._port('PROBE')}", seconds)

    async def unready(self) -> dict[str, str]:
        """What /readyz complains about, with its words; empty when ready."""
        _, body = await self._get("PROBE", "/readyz")
        return {each["what"]: each["detail"] for each in body["unready"]}

    async def status(self) -> Json:
        """/v1/status."""
        return await self._read("/v1/status")

    async def snapshot(self) -> Json:
        """/v1/snapshot."""
        return await self._read("/v1/snapshot")

    async def plan(self) -> Json:
        """/v1/plan: the last plan."""
        return await self._read("/v1/plan")

    async def planned(self, kube: Kube, what: str, holds: Callable[[Json], object], seconds: float = 30.0) -> Json:
        """The first plan from now on of which `holds` is true. Raises NotYet.

        What the API server has just shown is not in the last plan yet, so a test waits for the one that has it.
        """

        async def seen() -> Json | None:
            plan = await self.plan()
            return plan if holds(plan) else None

        return await kube.wait_for(seen, what, seconds)

    async def lacks_nothing(self, kube: Kube, model: str) -> None:
        """Wait for a plan by which the model has what it needs. Raises NotYet."""
        await self.planned(kube, f"{model} lacks nothing", lambda plan: not lacking(plan, model))

    async def refused(self, kube: Kube, guard: str, subject: str, seconds: float = 30.0) -> Json:
        """Wait for a plan in which the guard declines a move of the subject's; that refusal. Raises NotYet."""
        what = f"guard {guard} refuses to move {subject}"
        plan = await self.planned(kube, what, lambda plan: refusals(plan, guard, subject), seconds)
        return refusals(plan, guard, subject)[0]

    async def node(self, name: str) -> Json:
        """/v1/nodes/NODE."""
        return await self._read(f"/v1/nodes/{name}")

    async def explain(self, model: str) -> Json:
        """/v1/explain/MODEL."""
        return await self._read(f"/v1/explain/{model}")

    async def ask(self, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        """Any request to its API: the status, and the answer's JSON. Raises aiohttp.ClientError when it is away."""
        url = f"http://127.0.0.1:{self._port('API')}{path}"
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5.0)) as session,
            session.request(method, url, json=body, headers={"Idempotency-Key": secrets.token_hex(8)}) as response,
        ):
            return response.status, json.loads(await response.read() or b"{}")

    async def metrics(self) -> dict[str, float]:
        """/metrics, by series as it is spelled there (`rebalancer_x_total{reason="y"}`)."""
        url = f"http://127.0.0.1:{self._port('PROBE')}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            lines = (await response.text()).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    async def writes(self, kube: Kube, **filters: Any) -> list[Write]:  # noqa: ANN401  those of AuditLog.writes
        """Everything it wrote to the API server until now, by the audit log, Kubernetes Events left out."""
        audit: AuditLog = self._stack.audit
        await audit.settle(kube)
        found = await asyncio.to_thread(audit.writes, self.account, **filters)
        return [write for write in found if write.resource != "events"]

    async def journal(self) -> list[Json]:
        """All lines of the local journal, oldest first; not the one that a killed service was writing."""
        lines = await asyncio.to_thread(lambda: list(self._journal_lines()))
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    async def replay(self) -> Replay:
        """Make all its decisions again from its journal."""
        return await asyncio.to_thread(lambda: replay(self._journal_lines()))

    def log_tail(self, lines: int = 60) -> str:
        """The end of its log, for the report of a failed test."""
        return self._process.log_tail(lines) if self._process is not None else ""

    async def log(self) -> str:
        """All it has logged, restarts included."""
        return await asyncio.to_thread((self.folder / "service.log").read_text)

    async def _read(self, path: str) -> Json:
        status, body = await self._get("API", path)
        if status != 200:
            raise AssertionError(f"GET {path}: {status} {body}")
        return body

    async def _get(self, which: str, path: str) -> tuple[int, Json]:
        url = f"http://127.0.0.1:{self._port(which)}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.json()

    @property
    def _running(self) -> Process:
        assert self._process is not None, "the service was not started"
        return self._process

    def _port(self, which: str) -> int:
        return int(self.settings[f"{which}_PORT"])

    def _ready(self) -> bool:
        return answers(self._port("PROBE"), "/readyz")

    def _start(self, ready: bool) -> None:  # noqa: FBT001  # from start() alone
        self._process = Process(
            [*self.begun_by, str(_PROGRAM), "run"],
            log=self.folder / "service.log",
            healthy=self._ready if ready else lambda: answers(self._port("PROBE"), "/livez"),
            reaper=self._reaper,
            environment={f"REBALANCER_{name}": value for name, value in self.settings.items()},
            stop_seconds=_STOP_SECONDS,
        )
        self._process.start()

    def _stop(self) -> int:
        process = self._running
        process.stop()
        assert process.returncode is not None, "the service did not run"
        return process.returncode

    def _write_policy(self, text: str) -> None:
        target = Path(self.settings["POLICY_PATH"])
        fresh = target.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(target)

    def _journal_lines(self) -> Iterator[bytes]:
        for file in sorted(Path(self.settings["JOURNAL_DIR"]).glob(PATTERN)):
            with file.open("rb") as lines:
                yield from lines
