"""An open page, a command that follows, and the replica that they read ends: they go on with the other one."""

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.conftest import Opened
from tests.console.replicas import Replicas, two_processes, two_replicas
from tests.console.test_service import COMES_MS, in_force

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

PROGRAM = Path(sys.executable).parent / "rebalancer"
FOLLOWED_SECONDS = 30.0  # others take the Lease 9 s after a kill; the rest is for machines that share their cores
SAME_PAGE = "globalThis.seen = (globalThis.seen ?? 0) + 1"  # a reload would begin to count anew


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    with two_replicas(tmp_path, 1.0) as both:
        yield both


async def test_pages_follow_a_failover_without_a_reload(replicas: Replicas, opened: Opened) -> None:
    opened.expected += ["ERR_", "503"]  # while nobody answers
    page, beside = await opened(f"{replicas.front}/console/"), await opened(f"{replicas.standby}/console/")
    for each in (page, beside):
        await expect(each.locator(".leader")).to_have_text("leader rb-0", timeout=COMES_MS)
        assert await each.evaluate(SAME_PAGE) == 1
    await expect(beside.locator(".conditions")).to_contain_text("Reading standby rb-1; leader is rb-0.")

    replicas.leader_ends.set()
    for each in (page, beside):
        await expect(each.locator(".leader")).to_have_text("leader rb-1", timeout=COMES_MS)
        await expect(each.locator("rb-age")).to_have_text(re.compile(r"^LIVE \d+ s$"), timeout=COMES_MS)
        await expect(each.locator(".writing")).to_have_text("WRITING")
        await expect(each.locator(".conditions")).to_have_count(0, timeout=COMES_MS)
        assert await each.evaluate(SAME_PAGE) == 2

    await page.get_by_role("button", name="Stop writes").click()
    await page.keyboard.press("Enter")
    await in_force(page, "Writes stopped")
    await expect(beside.locator(".writing")).to_have_text("STOPPED", timeout=COMES_MS)


@asynccontextmanager
async def typed(*words: str) -> AsyncIterator[Process]:
    """Our command, until the context ends."""
    process = await asyncio.create_subprocess_exec(PROGRAM, *words, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def told(process: Process, leader: str) -> str:
    """The instance of the first answer that `status --watch` prints in which that one leads."""
    assert process.stdout is not None
    async with asyncio.timeout(FOLLOWED_SECONDS):
        while True:
            answer = json.loads(await process.stdout.readline())
            if answer["leader"] == leader:
                return str(answer["instance"])


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Replicas]:
    with two_processes(tmp_path) as both:
        yield both


@pytest.mark.timeout(300)
async def test_pages_and_commands_follow_when_the_leader_is_killed(processes: Replicas, opened: Opened) -> None:
    opened.expected += ["ERR_", "503"]  # while nobody answers
    page = await opened(f"{processes.front}/console/")
    await expect(page.locator(".leader")).to_have_text("leader rb-0", timeout=COMES_MS)
    assert await page.evaluate(SAME_PAGE) == 1
    async with typed("status", "--watch", "--server", processes.front) as watching:
        assert await told(watching, "rb-0") == "rb-0"

        processes.leader_ends.set()
        assert await told(watching, "rb-1") == "rb-1"
        assert watching.returncode is None
    await expect(page.locator(".leader")).to_have_text("leader rb-1", timeout=COMES_MS)
    await expect(page.locator("rb-age")).to_have_text(re.compile(r"^LIVE \d+ s$"), timeout=COMES_MS)
    await expect(page.locator(".conditions")).to_have_count(0, timeout=COMES_MS)
    assert await page.evaluate(SAME_PAGE) == 2

    async with typed("status", "--server", processes.front) as asked_once:
        out, _ = await asked_once.communicate()
    assert (asked_once.returncode, "leader rb-1" in out.decode()) == (0, True)
    await page.get_by_role("button", name="Stop writes").click()
    await page.keyboard.press("Enter")
    await in_force(page, "Writes stopped")
