"""Colours: the tokens as agreed, far enough from what is behind them, and never alone."""

import re

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from rebalancer.api.pages.badges import HUES
from rebalancer.api.pages.values.overview import PoolRow
from rebalancer.api.pages.values.tiles import NodeTiles, Seated
from tests.console.colour_distance import least_distance
from tests.console.conftest import Opened
from tests.console.server import SceneServer

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

TOKENS = {
    "light": {
        "page": "#FFFFFF",
        "surface": "#F4F6F8",
        "text": "#1B222B",
        "owned": "#1A82DC",
        "lent": "#A67D00",
        "loading": "#3B1667",
        "doomed": "#A31B2E",
        "free": "#6E727A",
    },
    "dark": {
        "page": "#10151B",
        "surface": "#1A2129",
        "text": "#E6EDF3",
        "owned": "#A9D3F5",
        "lent": "#F7D27E",
        "loading": "#B566EE",
        "doomed": "#F5333A",
        "free": "#7B818A",
    },
}
STATES = ("owned", "lent", "loading", "doomed", "free")
LEAST_TEXT, LEAST_MARK = 4.5, 3.0
LEAST_DISTANCE = 14.5  # CIEDE2000, of any two of eight colours

# Every visible text with its colour and the first opaque background behind it.
TEXTS = """() => [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility()
  && !one.matches('svg .letters')
  && [...one.childNodes].some((kid) => kid.nodeType === 3 && kid.data.trim())).map((one) => {
  const style = getComputedStyle(one);
  let under = one;
  while (under && getComputedStyle(under).backgroundColor === 'rgba(0, 0, 0, 0)') under = under.parentElement;
  return [one.textContent.trim().slice(0, 40), one instanceof SVGElement ? style.fill : style.color,
    under ? getComputedStyle(under).backgroundColor : 'rgb(255, 255, 255)']; })"""


def luminance(rgb: tuple[float, ...]) -> float:
    """WCAG's relative luminance."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def rgb(colour: str) -> tuple[float, ...]:
    if colour.startswith("#"):
        return tuple(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return tuple(float(part) / 255 for part in re.findall(r"[\d.]+", colour)[:3])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(rgb(one)), luminance(rgb(other))))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_the_tokens_are_those_that_were_measured(scene: SceneServer, opened: Opened, theme: str) -> None:
    page = await opened(scene.url + "/console/", color_scheme=theme)
    for name, value in TOKENS[theme].items():
        found = await page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")
        assert found == value, name
    background = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert contrast(background, TOKENS[theme]["page"]) == pytest.approx(1)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/console/", "/console/models/llama-70b"])
async def test_text_is_legible_and_never_in_the_colour_of_a_state(
    scene: SceneServer, opened: Opened, theme: str, path: str
) -> None:
    page = await opened(scene.url + path, color_scheme=theme, reduced_motion="reduce")
    await expect(page.locator("main h1")).to_be_attached()
    states = {tuple(round(part, 3) for part in rgb(TOKENS[theme][state])) for state in STATES}
    texts = await page.evaluate(TEXTS)
    assert len(texts) > 30
    for said, colour, behind in texts:
        assert contrast(colour, behind) >= LEAST_TEXT, (said, colour, behind)
        assert tuple(round(part, 3) for part in rgb(colour)) not in states, said


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_state_but_the_plain_ones_has_a_mark(scene: SceneServer, opened: Opened, theme: str) -> None:
    own, spot = scene.overview.pools
    await scene.show(pools=(replace(own, counts={**own.counts, "lent": 2}), spot))
    page = await opened(scene.url + "/console/", color_scheme=theme)
    tiles = page.locator(".pool rb-bar")
    await expect(tiles.locator("path.state.doomed")).to_have_count(1)
    for state, token in (("lent", "lent"), ("in-use", "lent"), ("loading", "loading"), ("doomed", "doomed")):
        body = tiles.locator(f"path.state.{state}")
        fill = await body.evaluate("path => getComputedStyle(path).fill")
        assert contrast(fill, TOKENS[theme][token]) == pytest.approx(1)
        for ground in ("page", "surface"):
            assert contrast(fill, TOKENS[theme][ground]) >= LEAST_MARK
        await expect(tiles.locator(f"path.mark.{state}")).to_have_count(1)
    free = await tiles.locator("path.state.free").first.evaluate(
        "path => [getComputedStyle(path).fill, getComputedStyle(path).stroke]"
    )
    assert free[0] == "none"
    assert contrast(free[1], TOKENS[theme]["free"]) == pytest.approx(1)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_models_colours_are_told_apart_by_everybody_and_bear_dark_letters(
    scene: SceneServer, opened: Opened, theme: str
) -> None:
    page = await opened(scene.url + "/console/", color_scheme=theme)
    style = "getComputedStyle(document.documentElement).getPropertyValue"
    hues = [await page.evaluate(f"{style}('--hue-{hue}').trim()") for hue in range(HUES)]
    ink = await page.evaluate(f"{style}('--ink').trim()")
    for hue in hues:
        assert contrast(ink, hue) >= LEAST_TEXT, hue
    assert least_distance([rgb(hue) for hue in hues]) >= LEAST_DISTANCE
    letters = page.locator("rb-tiles text.letters").first
    assert contrast(await letters.evaluate("text => getComputedStyle(text).fill"), ink) == pytest.approx(1)
    tile = await page.locator("rb-tiles path.tile").first.evaluate("path => getComputedStyle(path).stroke")
    assert contrast(tile, TOKENS[theme]["page"]) >= LEAST_MARK  # its edge: pale fills are near the page


async def test_the_stop_button_is_white_on_red_in_both_themes(scene: SceneServer, opened: Opened) -> None:
    for theme in ("light", "dark"):
        page = await opened(scene.url + "/console/", color_scheme=theme)
        style = await page.get_by_role("button", name="Stop writes").evaluate(
            "one => ['color', 'backgroundColor', 'borderColor'].map((name) => getComputedStyle(one)[name])"
        )
        assert contrast(style[0], style[1]) >= 7.5
        assert contrast(style[1], "#A31B2E") == pytest.approx(1)
        assert contrast(style[2], TOKENS[theme]["text"]) == pytest.approx(1)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_closed_and_free_gpus_are_told_apart_by_a_mark_that_is_seen(
    scene: SceneServer, opened: Opened, theme: str
) -> None:
    nodes = (NodeTiles("a100-1", "##---...", seated=(Seated(2, "llama-70b"), Seated(6))),)
    scene.overview = replace(
        scene.overview, pools=(PoolRow("a100", "primary", 8, {"owned": 2, "closed": 3, "free": 3}, nodes, 1),)
    )
    page = await opened(scene.url + "/console/", color_scheme=theme)
    for place in ("rb-bar .mark.closed", ".legend .mark.closed", "rb-tiles .tile-mark.closed"):
        mark = page.locator(f".pool {place}")
        await expect(mark).to_have_count(1)
        assert (
            contrast(await mark.evaluate("path => getComputedStyle(path).stroke"), TOKENS[theme]["page"]) >= LEAST_MARK
        )
