"""A running demo service for the commands of the pages, and a shell that knows where it is."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rebalancer.app import Service
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_cluster import POLICY_FILE, build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from rebalancer.settings.service import ServiceSettings
from tests.house.repository import ROOT

SPEED = 4.0
COMMAND_SECONDS = 90  # `rebalancer simulate` takes 8 s of a core of its own

Shell = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def login_may_block(may_block: None) -> None:
    """The client library's login runs in a thread with a loop of its own, where it may read files."""


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    """Runs a command line as a reader would in the second terminal of `make demo ARGS=--keep`."""
    clock = ScaledClock(SPEED)
    async with Sandbox(clock, build(demo_policy(), clock.now()).world) as sandbox:
        (tmp_path / "policy.yaml").write_text(POLICY_FILE.read_text())
        for user in ("rebalancer", "local"):
            sandbox.kubernetes.write_kubeconfig(tmp_path / user, user)
        settings = ServiceSettings(
            cluster_name="demo",
            kafka_bootstrap=sandbox.bootstrap,
            kafka_security_protocol="PLAINTEXT",
            kubeconfig=tmp_path / "rebalancer",
            policy_path=tmp_path / "policy.yaml",
            journal_dir=tmp_path / "journal",
            write_mode="act",
            api_auth="none",
            api_port=0,
            probe_port=0,
        )
        service = Service(settings, clock)
        try:
            await service.start()
            async with asyncio.timeout(30):
                while not _knows_demand(service) or service.reporter.unready():
                    await asyncio.sleep(0.05)
            environment = {
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "KUBECONFIG": str(tmp_path / "local"),
                "REBALANCER_SERVER": f"http://127.0.0.1:{service.servers.api_port}",
                "COLUMNS": "120",
            }
            yield lambda line: run(line, environment)
        finally:
            await service.stop()


def _knows_demand(service: Service) -> bool:
    """The first plan may be made while the hour of history is still being read."""
    return service.plan is not None and all(one.demand is not None for one in service.plan.models)


def run(line: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """One command line in bash, at the root of the repository."""
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
