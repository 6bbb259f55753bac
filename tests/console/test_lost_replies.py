"""A reply that is lost when an override is ended: it was ended, and the person hears so."""

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from tests.console.conftest import Opened
from tests.console.scene import CYCLE
from tests.console.server import SceneServer

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]


async def test_an_override_that_is_gone_when_its_end_is_asked_for_again_has_ended(
    scene: SceneServer, opened: Opened
) -> None:
    opened.expected += ["net::ERR", "404"]
    page = await opened(scene.url + "/console/")
    await page.get_by_role("button", name="End cap sdxl 6").click()
    scene.lost = 1
    await page.get_by_role("button", name="End", exact=True).last.click()
    outcome = page.locator("dialog .outcome")
    await expect(outcome).to_have_text("May have been applied; checking")
    await expect(outcome).to_have_text("Accepted")
    assert [each.method for each in scene.asked] == ["DELETE", "DELETE"]
    await scene.show(cycle=CYCLE + 1)
    await expect(page.locator("#toast")).to_contain_text(f"cap sdxl 6: Ended, cycle {CYCLE + 1}")


async def test_an_override_that_is_gone_when_its_end_is_first_asked_for_is_told_to_be_gone(
    scene: SceneServer, opened: Opened
) -> None:
    opened.expected.append("404")
    page = await opened(scene.url + "/console/")
    await page.get_by_role("button", name="End cap sdxl 6").click()
    scene.overview = replace(scene.overview, overrides=())  # somebody else was quicker
    await page.get_by_role("button", name="End", exact=True).last.click()
    await expect(page.locator("dialog .outcome")).to_have_text("there is no such override")
