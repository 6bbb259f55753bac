"""An open page, and the replica that it reads ends: it goes on with the other one, and nobody reloads anything."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.console.conftest import Opened
from tests.console.replicas import Replicas, two_replicas
from tests.console.test_service import COMES_MS, in_force

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

SAME_PAGE = "globalThis.seen = (globalThis.seen ?? 0) + 1"  # a reload would begin to count anew


@pytest.fixture
def replicas(tmp_path: Path) -> Iterator[Replicas]:
    with two_replicas(tmp_path, 4.0) as both:
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
