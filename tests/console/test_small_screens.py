"""Small screens, and large ones that are zoomed in: nothing is beside the screen, and the page keeps most of it."""

import pytest
from playwright.async_api import expect

from tests.console.conftest import Opened
from tests.console.server import SceneServer
from tests.console.test_reading import PAGES, shown

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]


async def test_no_page_scrolls_sideways_on_320_pixels(scene: SceneServer, opened: Opened) -> None:
    page = await opened("about:blank", viewport={"width": 320, "height": 640})
    wide = {}
    for path in PAGES:
        await page.goto(scene.url + path)
        await shown(page)
        if (width := await page.evaluate("document.documentElement.scrollWidth")) > 320:
            wide[path] = width
    assert wide == {}


@pytest.mark.parametrize(("height", "stays"), [(900, True), (432, False)])
async def test_the_header_stays_in_view_only_where_there_is_room_for_it(
    scene: SceneServer,
    opened: Opened,
    height: int,
    stays: bool,  # noqa: FBT001  # a row of the table
) -> None:
    page = await opened(scene.url + "/console/", viewport={"width": 768, "height": height})
    await shown(page)
    await page.evaluate("scrollTo(0, 600)")
    stop = page.get_by_role("button", name="Stop writes")
    await (expect(stop).to_be_in_viewport() if stays else expect(stop).not_to_be_in_viewport())
