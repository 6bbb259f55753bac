"""The console's picture in the pages, made from the tests' scene: `python -m tests.console.picture`.

The scene is console data of one instant (03:12:07), so that the picture shows the same whoever makes it.
"""

import asyncio
import sys

from playwright.async_api import ViewportSize, async_playwright

from tests.console.conftest import ARGUMENTS
from tests.console.server import SceneServer
from tests.docs.pictures import PICTURES
from tests.testbed.system import program

FILE = PICTURES / "console.png"
SEEN: ViewportSize = {"width": 1100, "height": 860}  # pixels: what needs a person, pools, last hours


async def picture() -> None:
    """Write the file."""
    async with SceneServer().running() as scene, async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=str(program("chromium")), args=list(ARGUMENTS))
        page = await browser.new_page(viewport=SEEN, color_scheme="light")
        await page.goto(f"{scene.url}/console/")
        await page.wait_for_selector("rb-hours svg")
        await page.screenshot(path=FILE)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(picture())
    sys.stdout.write(f"made: {FILE}\n")
