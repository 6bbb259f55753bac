"""Pages that have nothing to show yet, nothing any more, or nothing that was looked for."""

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from tests.console.conftest import Opened
from tests.console.scene import CAP, NOW
from tests.console.server import SceneServer

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]


async def test_nothing_to_do_says_so(scene: SceneServer, opened: Opened) -> None:
    await scene.show(attention=(), models=(), models_total=0, overrides=(), timeline=())
    page = await opened(scene.url + "/console/")
    await expect(page.get_by_text("Nothing needs you.", exact=True)).to_be_visible()
    await expect(page.get_by_text("No models found. Run: rebalancer doctor")).to_be_visible()


async def test_before_the_first_plan_nothing_is_said_to_be_well_or_missing(scene: SceneServer, opened: Opened) -> None:
    await scene.show(attention=(), models=(), models_total=0, pools=(), plan_at=None)
    page = await opened(scene.url + "/console/")
    await expect(page.locator("#needs")).to_contain_text("Not known before the first plan.")
    for part in ("#pools", "#models"):
        await expect(page.locator(part)).to_contain_text("Reading state")
    await scene.show(plan_at=NOW)
    await expect(page.locator("#needs")).to_contain_text("Nothing needs you.")
    await expect(page.locator("#pools")).to_contain_text("No pools found. Run: rebalancer doctor")


async def test_a_search_that_nothing_answers_to_has_the_way_back(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/models?q=nobody")
    await expect(page.locator("main")).to_contain_text("No model is like that.")
    await page.get_by_role("link", name="Show all").click()
    await expect(page.locator("table.models tbody tr")).to_have_count(4)


async def test_who_has_no_leader_is_not_called_writing(scene: SceneServer, opened: Opened) -> None:
    await scene.show(leader="")
    page = await opened(scene.url + "/console/")
    await expect(page.locator(".writing")).to_have_text("WAITING")
    await scene.show(leader="rb-1", instance="rb-1")
    await expect(page.locator(".writing")).to_have_text("WRITING")


async def test_who_cannot_read_the_lease_does_not_say_that_nobody_leads(scene: SceneServer, opened: Opened) -> None:
    await scene.show(leader="", leader_known=False)
    page = await opened(scene.url + "/console/")
    await expect(page.locator(".leader")).to_have_text("no leader known")
    await expect(page.locator(".writing")).to_have_text("UNKNOWN")
    await expect(page.locator(".conditions li")).to_have_text(["No leader known: this replica cannot tell who leads."])


async def test_overrides_that_are_over_stand_below_those_that_count(scene: SceneServer, opened: Opened) -> None:
    expired = replace(CAP, name="ov-old", uid="u0", phase="Expired", expires_at=NOW - 60)
    scene.gone = (replace(CAP, name="ov-gone", uid="u1", phase="Deleted", created_at=NOW - 30, reason="a trial"),)
    scene.overview = replace(scene.overview, overrides=(CAP,))
    scene.ended = (expired,)
    page = await opened(scene.url + "/console/overrides")
    await expect(page.locator("#overrides li")).to_have_count(1)
    await expect(page.locator("#over li")).to_contain_text(["deleted", "expired 03:11:07"])
    await expect(page.locator("#over li").first).to_contain_text("cap sdxl 6, ci, from 03:11:37: deleted“a trial”")
