"""Browsers that have less than ours: one that keeps nothing for pages, and Safari 16."""

import re

import pytest
from playwright.async_api import expect

from tests.console.conftest import Opened
from tests.console.server import SceneServer

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

KEEPS_NOTHING = """Object.defineProperty(globalThis, 'localStorage',
    {get() { throw new DOMException('The operation is insecure.', 'SecurityError'); }})"""
SAFARI_16 = "delete URLSearchParams.prototype.size; delete Element.prototype.checkVisibility;"


async def test_a_browser_that_keeps_nothing_shows_all_pages_and_holds_choices_while_they_are_open(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened("about:blank")
    await page.add_init_script(KEEPS_NOTHING)
    await page.goto(scene.url + "/console/models/llama-70b")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("llama-70b")
    await page.keyboard.press("?")
    await page.get_by_label("Single keys are on").click()
    await page.get_by_role("button", name="Close").click()
    await page.keyboard.press("?")
    await expect(page.locator("dialog")).to_be_hidden()


async def test_safari_16_filters_models_and_walks_their_rows(scene: SceneServer, opened: Opened) -> None:
    page = await opened("about:blank")
    await page.add_init_script(SAFARI_16)
    await page.goto(scene.url + "/console/models?q=qwen")
    await expect(page.locator("table.models tbody tr")).to_have_count(1)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/console/models/qwen-32b$"))
