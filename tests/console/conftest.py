"""A headless Chromium for the whole folder; a page per test that may not complain about anything."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from blockbuster import BlockBuster
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.console.server import SceneServer
from tests.testbed.build import Missing
from tests.testbed.system import program

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 380, "height": 820}
PATIENCE_MS = 15_000  # the machines that run this share few cores


@pytest.fixture(autouse=True)
def playwright_may_block(may_block: None) -> None:
    """The library that steers the browser writes to its pipe as it likes; the console's files read no disk here."""


@pytest.fixture(scope="session")
def chromium() -> str:
    try:
        return str(program("chromium"))
    except Missing as missing:
        pytest.skip(missing.reason)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: str, blockbuster: BlockBuster) -> AsyncIterator[Browser]:
    """One for all tests of the folder: a start takes a second."""
    blockbuster.deactivate()
    expect.set_options(timeout=PATIENCE_MS)
    driver = await async_playwright().start()
    browser = await driver.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
    blockbuster.activate()
    yield browser
    blockbuster.deactivate()
    await browser.close()
    await driver.stop()
    blockbuster.activate()


@pytest_asyncio.fixture(loop_scope="session")
async def scene() -> AsyncIterator[SceneServer]:
    async with SceneServer().running() as server:
        yield server


class Opened:
    """Opens pages, and remembers what they complained about."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.complaints: list[str] = []
        self.expected: list[str] = []

    async def __call__(self, url: str, **context: Any) -> Page:  # noqa: ANN401  # playwright's options
        fresh = await self._browser.new_context(**{"viewport": WIDE, **context})
        fresh.set_default_timeout(PATIENCE_MS)
        page = await fresh.new_page()
        page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        await page.goto(url)
        return page

    def unexpected(self) -> list[str]:
        """Complaints in which no expected words occur: violations of the content security policy are among them."""
        return [each for each in self.complaints if not any(words in each for words in self.expected)]

    async def close(self) -> None:
        for context in list(self._browser.contexts):
            await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def opened(browser: Browser) -> AsyncIterator[Opened]:
    opened = Opened(browser)
    yield opened
    await opened.close()
    assert opened.unexpected() == []
