"""The page of the first look: its commands, one after another, in a folder of their own, against a Prometheus."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.api.resources import PODS
from rebalancer.sandbox.demo_cluster import build, demo_policy
from rebalancer.sandbox.sandbox import Sandbox
from tests.docs.blocks import runnable
from tests.docs.shape import missing
from tests.obs.answering import answering

pytestmark = pytest.mark.slow  # 10 s

PAGE = "first-look.md"
OBSERVE = "rebalancer observe"
PRINTED_SECONDS = 60.0


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[Mapping[str, str]]:
    clock = RealClock()
    async with Sandbox(clock, build(demo_policy(), clock.now()).world) as sandbox:
        sandbox.kubernetes.write_kubeconfig(tmp_path / "kubeconfig", "me")

        def pods() -> list[tuple[str, str]]:
            metadata = [each["metadata"] for each in sandbox.kubernetes.store.list(PODS)]
            return [(each["namespace"], each["name"]) for each in metadata]

        async with answering(pods) as prometheus:
            yield {
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "KUBECONFIG": str(tmp_path / "kubeconfig"),
                "PROMETHEUS": prometheus.url,
            }


@pytest.mark.timeout(180)
async def test_the_three_commands_work_one_after_another_and_print_what_the_page_shows(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    wrong, server, observing, code = list[str](), "", None, None
    try:
        for block in runnable("console", "bash"):
            for command, shown in block.commands if block.page == PAGE else ():
                given = {**environment, **({"REBALANCER_SERVER": server} if server else {})}
                if command.startswith(OBSERVE):
                    observing = await asyncio.to_thread(_begin, command, given, tmp_path)
                    printed = await _printed(tmp_path / "out", shown)
                    server = re.search(r"REBALANCER_SERVER=(\S+)", printed)[1]  # type: ignore[index]  # else it fails
                else:
                    printed = await _typed(command, given, tmp_path, shown)
                wrong += [f"{block}: not printed: {line}\n{printed}" for line in missing(shown, printed)]
    finally:
        if observing is not None:
            observing.send_signal(signal.SIGINT)
            code = await asyncio.to_thread(observing.wait, 30)
    assert not wrong, "\n".join(wrong)
    assert code == 0, "Ctrl-C is how it ends"


def _begin(command: str, environment: Mapping[str, str], folder: Path) -> "subprocess.Popen[bytes]":
    """The command as the page has it, but on a free port."""
    with (folder / "out").open("w") as out:
        line = f"exec {command} --port 0"
        return subprocess.Popen(["bash", "-c", line], cwd=folder, env=dict(environment), stdout=out, stderr=out)


async def _printed(out: Path, shown: list[str]) -> str:
    """What it has printed once all that the page shows is in it, or when that takes too long."""
    clock = RealClock()
    until = clock.monotonic() + PRINTED_SECONDS
    while missing(shown, printed := await asyncio.to_thread(out.read_text)) and clock.monotonic() < until:
        await clock.sleep(0.2)
    return printed


async def _typed(command: str, environment: Mapping[str, str], folder: Path, shown: list[str]) -> str:
    """What the command prints; again while the service comes up."""
    clock = RealClock()
    until = clock.monotonic() + PRINTED_SECONDS
    while True:
        line = ["bash", "-euo", "pipefail", "-c", command]
        done = await asyncio.to_thread(
            subprocess.run, line, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False
        )
        printed = f"{done.stdout}{done.stderr}"
        if (done.returncode == 0 and not missing(shown, printed)) or clock.monotonic() > until:
            return printed
        await clock.sleep(0.5)
