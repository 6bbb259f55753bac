"""The page of `rebalancer simulate` in a browser: complete in itself, readable in both themes and on a telephone."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from rebalancer.cli.entry import run
from tests.console.axe import axe_source
from tests.console.conftest import NARROW, WIDE, Opened
from tests.testbed.build import Missing

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

FIGURES = ["SLO violations", "Replicas", "Lent GPUs", "Queue"]
HEADS = [
    "GPUs by model, and late requests",
    "hpa@0.7 beside keda@0.7, by model",
    "What came of it",
    *FIGURES,
]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the page is of two peers on a shipped trace."""
    file: Path = tmp_path_factory.mktemp("simulated") / "page.html"
    assert run(["simulate", "tides", "--controller", "keda", "--compare", "hpa", "-q", "--page", str(file)]) == 0
    return file.as_uri()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "telephone"])
async def test_without_a_network_all_plots_are_there_and_nothing_scrolls_sideways(
    simulated: str, opened: Opened, size: dict[str, int], theme: str
) -> None:
    page = await opened(simulated, viewport=size, color_scheme=theme, offline=True)
    assert await page.locator("h2").all_inner_texts() == HEADS
    assert "late requests" in await page.locator("h1").inner_text()
    await expect(page.locator(".beside svg")).to_have_count(2)
    await expect(page.locator("figure .scroll > svg")).to_have_count(len(FIGURES))
    for plot in await page.locator("figure .scroll > svg").all():
        box = await plot.bounding_box()
        assert box is not None
        assert box["width"] > size["width"] / 2
        assert box["height"] > 100
    assert await page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert await page.evaluate("performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_on_it(simulated: str, opened: Opened, theme: str) -> None:
    try:
        axe = axe_source()
    except Missing as missing:
        pytest.skip(missing.reason)
    page = await opened(simulated, color_scheme=theme)
    for numbers in await page.locator("summary").all():
        await numbers.click()
    await page.evaluate(axe)
    result = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [f"{each['id']}: {each['nodes'][0]['failureSummary']}" for each in result["violations"]] == []
