"""How an open page follows the service: what it makes of silence, of a session's end, and of a login elsewhere."""

import re

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from tests.console.conftest import Opened
from tests.console.scene import CYCLE, NOW
from tests.console.server import SceneServer

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]


async def test_behind_a_proxy_that_keeps_the_streams_words_back_the_page_reads_instead(
    scene: SceneServer, opened: Opened
) -> None:
    scene.buffered = True
    page = await opened("about:blank")
    await page.clock.install()
    await page.goto(scene.url + "/console/")
    await expect(page.get_by_role("button", name="Stop writes")).to_be_visible()
    for reads in (1, 2):
        later = NOW + 16 * reads
        scene.overview = replace(scene.overview, cluster=f"read-{reads}", at=later, plan_at=later)
        await page.clock.run_for(16_000)
        await expect(page.locator(".cluster")).to_have_text(f"read-{reads}")
        await expect(page.locator("rb-age")).to_have_text(re.compile(r"^LIVE \d s$"))
        await expect(page.locator(".gone")).to_have_count(0)


async def test_who_is_logged_out_is_not_told_that_the_service_is_gone(scene: SceneServer, opened: Opened) -> None:
    opened.expected.append("401")
    page = await opened("about:blank")
    await page.clock.install()
    await page.goto(scene.url + "/console/health")
    await expect(page.get_by_role("heading", name="Health")).to_be_visible()
    scene.logged_in = False  # the session has ended
    await scene.show(cycle=CYCLE + 1)
    await page.clock.run_for(1_000)
    await expect(page.get_by_label("Token")).to_be_visible()
    await page.clock.run_for(60_000)
    await expect(page.locator(".gone")).to_have_count(0)
    await expect(page.locator("main")).not_to_have_class(re.compile("dim"))
    await expect(page.get_by_text("NOT LIVE")).to_have_count(0)
    await expect(page.locator("#said")).not_to_contain_text("No word from the service")


async def test_a_tab_that_waits_at_the_door_comes_in_once_somebody_has_logged_in_at_another(
    scene: SceneServer, opened: Opened
) -> None:
    opened.expected.append("401")
    scene.logged_in = False
    page = await opened(scene.url + "/console/")
    await expect(page.get_by_label("Token")).to_be_visible()
    scene.logged_in = True  # by the other tab: the cookie is everybody's
    await page.evaluate("dispatchEvent(new Event('focus'))")
    await expect(page.get_by_role("heading", name="Needs you")).to_be_visible()


async def test_a_service_that_runs_in_no_pod_is_looked_for_in_none(scene: SceneServer, opened: Opened) -> None:
    scene.overview = replace(scene.overview, namespace="")
    page = await opened("about:blank")
    await page.clock.install()
    await page.goto(scene.url + "/console/")
    await expect(page.get_by_role("button", name="Stop writes")).to_be_visible()
    scene.silent = True
    await page.clock.run_for(20_000)
    gone = page.locator(".gone")
    await expect(gone).to_contain_text("rebalancer status")
    await expect(gone).not_to_contain_text("kubectl")
