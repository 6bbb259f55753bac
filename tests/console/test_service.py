"""The console against the real service on the embedded cluster: a person decides, the cluster follows."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.api.living import living_service
from tests.console.conftest import Opened

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

COMES_MS = 30_000


@pytest.fixture
def console(tmp_path: Path) -> Iterator[str]:
    """Where the console of a service is that has begun to decide."""
    with living_service(tmp_path, 4.0, write_mode="act", api_auth="none", cluster_name="prod-eu") as url:
        yield f"{url}/console/"


async def in_force(page: Page, words: str) -> None:
    """Wait until the stream shows it and the dialog has gone by itself."""
    await expect(page.locator("#toast")).to_contain_text(re.compile(rf"{words}, cycle \d+"), timeout=COMES_MS)
    await expect(page.locator("dialog")).to_be_hidden()


async def test_a_night_at_the_console(console: str, opened: Opened) -> None:
    page = await opened(console)
    rows = page.locator("table.models tbody tr")
    await expect(rows).to_have_count(3, timeout=COMES_MS)
    await expect(page.locator("rb-age")).to_have_text(re.compile(r"^LIVE \d+ s$"))
    await expect(page.locator("rb-tiles svg")).not_to_have_count(0)

    # Override: looked at, applied, in force, in explain and on the page of its model; ended again.
    await rows.get_by_role("link", name="code", exact=True).click()
    await expect(page.locator("h1")).to_have_text("serving/code")
    await page.get_by_role("button", name="Override").first.click()
    await page.get_by_label("Replicas", exact=True).fill("2")
    await page.get_by_label("Reason").fill("TICKET-1 <b>")
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog pre")).to_contain_text("code")
    await page.get_by_role("button", name="Apply").click()
    await in_force(page, "In force")
    await expect(page.locator("#why pre")).to_contain_text("cap 2", timeout=COMES_MS)
    await expect(page.locator("main .overrides li")).to_contain_text("“TICKET-1 <b>”")
    await page.get_by_role("button", name="End cap code 2").click()
    await expect(page.locator("dialog pre")).to_contain_text("now  ", timeout=COMES_MS)
    await page.get_by_role("button", name="End", exact=True).last.click()
    await in_force(page, "Ended")
    await expect(page.locator("main .overrides li")).to_have_count(0, timeout=COMES_MS)

    # The red button, from any page; and back by its word, after a look at the first plan.
    await page.get_by_role("button", name="Stop writes").click()
    await page.get_by_label("Reason").fill("bad rollout")
    await page.keyboard.press("Enter")
    await in_force(page, "Writes stopped")
    await page.get_by_role("link", name="Overview").click()
    await expect(page.locator(".writing")).to_have_text("STOPPED")
    told = page.locator(".conditions")
    await expect(told).to_contain_text(re.compile(r"Writes stopped by local \d\d:\d\d:\d\d: bad rollout\."))
    await page.get_by_role("button", name="Resume writes").click()
    await expect(page.locator("dialog pre")).to_be_visible(timeout=COMES_MS)
    await page.get_by_label("Type resume").fill("resume")
    await page.keyboard.press("Enter")
    await in_force(page, "Writing again")
    await expect(page.locator(".writing")).to_have_text("WRITING")

    # What was done is told, and each telling leads to its decision; no other page is dead.
    await page.locator("ol.happenings").get_by_role("link", name=re.compile("stopped the writes")).first.click()
    await expect(page.locator("h1")).to_have_text(re.compile(r"^Decision \d+$"))
    for name in ("Models", "Pools", "Timeline", "Overrides", "Policy", "Health"):
        await page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        await expect(page.locator("h1")).to_have_text(re.compile(f"^{name}"))
    await page.goto(f"{console}pools/a100")
    await expect(page.locator("h1")).to_have_text(re.compile("^a100 primary 16 GPUs"))
    await page.goto(f"{console}models?q=ch&state=&sort=demand")
    await expect(page.locator("table.models tbody tr")).to_have_count(1)
