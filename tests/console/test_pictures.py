"""The last hours drawn, and tiles by model: read by eyes, pointer, keys and screen readers; a gap is a gap."""

import re

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from rebalancer.api.pages.values.overview import PoolRow
from rebalancer.api.pages.values.tiles import NodeTiles, Seated
from tests.console.conftest import NARROW, Opened
from tests.console.scene import POOLS, SHIFT
from tests.console.scene_hours import GAP, HISTORY, STEPS
from tests.console.server import SceneServer

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

SLIDER = "rb-hours [role=slider]"
TEXT = "aria-valuetext"


async def drawn(page: Page) -> None:
    await expect(page.locator("rb-hours svg")).to_have_count(1)


async def test_gpus_are_stacked_pool_by_pool_with_late_requests_below(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await drawn(page)
    titles = page.locator("rb-hours .panel-title", has_not_text="nothing known")
    await expect(titles).to_have_text(
        ["a100 primary, GPUs", "spot elastic, GPUs", "late requests a minute, by the p95"]
    )
    await expect(page.locator("rb-hours path.band")).to_have_count(6)
    await expect(page.locator("rb-hours path.area.late")).to_have_count(1)
    for letters in ("L7", "Q3", "M8", "Sd"):  # bands say whose they are without their colour
        await expect(page.locator("rb-hours text.letters", has_text=letters).first).to_be_attached()


async def test_half_an_hour_without_the_service_is_a_gap_and_not_zero(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await drawn(page)
    path = await page.locator("rb-hours path.band").first.get_attribute("d")
    assert path is not None
    assert path.count("M") == 2  # a stretch before it and one after it
    await expect(page.locator("rb-hours path.gap")).to_have_count(3)  # in each panel
    edges = [float(each) for each in re.findall(r"[MH]([\d.]+)", path)]
    gap = await page.locator("rb-hours path.gap").first.evaluate("path => [path.getBBox().x, path.getBBox().width]")
    assert not [x for x in edges if gap[0] + 0.1 < x < gap[0] + gap[1] - 0.1]
    slider = page.locator(SLIDER)
    await slider.focus()
    await page.keyboard.press("Home")
    for _ in range(GAP.start // 10 + 1):
        await page.keyboard.press("PageUp")
    await expect(slider).to_have_attribute(TEXT, re.compile(r"a100: \?; spot: \?; late \? a minute"))


async def test_arrow_keys_move_the_instant_and_its_values_are_read_out(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await drawn(page)
    slider = page.locator(SLIDER)
    await expect(slider).to_have_attribute(
        TEXT, re.compile(r"^03:12:00; a100: llama-70b 16, qwen-32b 8, mixtral-8x7b 8;")
    )
    await slider.focus()
    for _ in range(5):
        await page.keyboard.press("ArrowLeft")
    await expect(slider).to_have_attribute(TEXT, re.compile(r"^03:07:00; a100: llama-70b 12, qwen-32b 12, mixtral"))
    await expect(page.locator(".readout strong")).to_have_text("03:07:00")
    await expect(page.locator(".readout")).to_contain_text("llama-70b 12")
    await page.keyboard.press("Home")
    await expect(slider).to_have_attribute("aria-valuenow", "0")
    await page.keyboard.press("End")
    await expect(slider).to_have_attribute("aria-valuenow", str(STEPS - 1))


async def test_the_pointer_shows_the_values_under_it(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await drawn(page)
    band = await page.locator("rb-hours path.line.whole").first.bounding_box()
    assert band is not None
    await page.mouse.move(band["x"] + band["width"] * 342.5 / STEPS, band["y"] + 20)
    await expect(page.locator(".readout")).to_contain_text("13 a minute")
    await expect(page.locator("rb-hours .cursor")).to_have_count(1)
    await page.mouse.move(5, 5)
    await expect(page.locator(".readout p").first).to_contain_text("newest")


async def test_shifts_and_notices_are_marks_and_lead_to_their_entries(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/?hours=1")
    await drawn(page)
    for kind in ("shift", "notice", "override"):
        await expect(page.locator(f"rb-hours path.happening.{kind}")).to_have_count(1)
    await page.locator(SLIDER).focus()
    for _ in range(2):
        await page.keyboard.press("ArrowLeft")
    link = page.locator(".readout").get_by_role("link", name="shift: qwen-32b → llama-70b")
    await expect(link).to_have_attribute("href", f"/console/timeline?entry={SHIFT[0]}")


async def test_the_hours_are_chosen_and_stand_in_the_address(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await drawn(page)
    day = page.get_by_role("button", name="24 h")
    await expect(day).to_have_attribute("aria-pressed", "false")
    await day.click()
    await expect(day).to_have_attribute("aria-pressed", "true")
    await expect(page).to_have_url(re.compile(r"\?hours=24$"))
    assert scene.hours == ["6", "24"]


async def test_a_young_service_begins_with_the_hour_it_knows(scene: SceneServer, opened: Opened) -> None:
    nothing = (None,) * (STEPS - 20)
    scene.history = replace(
        HISTORY,
        pools=tuple(replace(pool, gpus=(*nothing, *pool.gpus[-20:])) for pool in HISTORY.pools),
    )
    page = await opened(scene.url + "/console/")
    await drawn(page)
    await expect(page.get_by_role("button", name="1 h", exact=True)).to_have_attribute("aria-pressed", "true")
    await expect(page.locator(SLIDER)).to_have_attribute("aria-valuemax", "19")  # not 40 minutes of emptiness before
    await expect(page.locator("rb-hours path.gap")).to_have_count(0)
    await expect(page.get_by_text("Nothing is known of the time before 02:53:00 UTC.")).to_be_visible()


async def test_a_models_picture_has_work_replicas_latency_and_its_slo(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/models/llama-70b?hours=6")
    await drawn(page)
    for style in ("line.work", "line.demand", "line.allocation", "line.latency", "reference", "area.late"):
        await expect(page.locator(f"rb-hours path.{style}")).to_have_count(1)
    await expect(page.locator(SLIDER)).to_have_attribute(
        TEXT, re.compile(r"work 5\.2; need 7; alloc 7; ready 5; latency 1\.2 s; late a minute 0")
    )
    await expect(page.locator("rb-hours")).to_contain_text("latency, p95 s; SLO 2 s dashed")


async def test_the_chart_as_text_has_each_change_and_unknown_as_a_question_mark(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened(scene.url + "/console/models/llama-70b")
    await page.get_by_text("The chart as text").click()
    rows = page.locator("table.twin tbody tr")
    before, unknown = rows.filter(has_text=re.compile("^01-15 21:13")), rows.filter(has_text=re.compile(r"^00:33"))
    await expect(before).to_have_count(1)
    await expect(unknown.locator("td").nth(0)).to_have_text("?")
    await expect(rows.filter(has_text="qwen-32b → llama-70b")).to_have_count(1)
    await expect(rows.first.locator("td").nth(3)).to_have_text("5")
    await expect(page.locator("#hours details")).to_contain_text(
        "work and late requests are the mean of all its cycles"
    )
    assert await rows.count() < 20  # of 360 steps those that changed something
    await page.goto(scene.url + "/console/")
    await page.get_by_text("The chart as text").click()
    await expect(rows.first.locator("td").first).to_have_text("llama-70b 16, qwen-32b 8, mixtral-8x7b 8")


async def test_tiles_bear_letters_and_borrowed_ones_their_owners_corner(scene: SceneServer, opened: Opened) -> None:
    node = NodeTiles("n1", "##++/x.o", seated=(Seated(2, "sdxl"), Seated(3, "llama-70b", "sdxl"), Seated(1, "sdxl")))
    scene.overview = replace(scene.overview, pools=(PoolRow("a100", "primary", 8, {"owned": 2}, (node,), 1),))
    page = await opened(scene.url + "/console/")
    tiles = page.locator("rb-tiles")
    badges = scene.overview.badges
    await expect(tiles.locator("text.letters")).to_have_text("SdSdL7L7L7Sd")
    own, lender = (badges[name].hue for name in ("llama-70b", "sdxl"))
    corners = tiles.locator(f"path.corner.hue-{lender}")
    assert ((await corners.get_attribute("d")) or "").count("M") == 3
    assert ((await tiles.locator(f"path.tile.hue-{own}").get_attribute("d")) or "").count("M") == 3
    said = "n1: 2 sdxl, 2 llama-70b lent by sdxl, 1 llama-70b lent by sdxl loading, 1 sdxl doomed, 1 free, 1 other"
    await expect(page.get_by_role("img", name=f"a100: {said}")).to_have_count(1)
    await expect(page.locator(".holders")).to_contain_text(re.compile(r"L7 llama-70b 3 lent by Sd sdxl"))
    await tiles.hover(position={"x": 50, "y": 26})
    await expect(tiles).to_have_attribute("title", "n1 GPU 2: llama-70b lent by sdxl")


async def moved(scene: SceneServer) -> None:
    """The first two GPUs of qwen-32b on a100-4 are freed, then llama-70b has two on the other end of the node."""
    nodes = POOLS[0].nodes

    async def show(gpus: str, *seated: Seated) -> None:
        last = replace(nodes[3], gpus=gpus, seated=seated)
        await scene.show(pools=(replace(POOLS[0], nodes=(*nodes[:3], last)), POOLS[1]))

    await show("..####..", Seated(2), Seated(4, "qwen-32b"), Seated(2))
    await show("..####//", Seated(2), Seated(4, "qwen-32b"), Seated(2, "llama-70b"))


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
async def test_a_shift_is_seen_moving_unless_less_motion_is_wished(
    scene: SceneServer, opened: Opened, motion: str
) -> None:
    page = await opened(scene.url + "/console/", reduced_motion=motion)
    await expect(page.locator("rb-tiles svg")).to_have_count(2)
    await expect(page.locator("rb-tiles .moved")).to_have_count(0)
    await page.evaluate(
        """globalThis.ghosts = 0; new MutationObserver((all) => { for (const each of all) for (const node of
        each.addedNodes) if (node.classList?.contains('moved')) ghosts += node.querySelectorAll('.ghost').length; })
        .observe(document.querySelector('rb-tiles'), {childList: true, subtree: true})"""
    )
    await moved(scene)
    await expect(page.locator("rb-tiles .moved")).to_have_count(2)  # its way stays to be seen, moving or not
    assert await page.evaluate("ghosts") == (2 if motion == "no-preference" else 0)


async def test_a_telephone_has_the_picture_without_scrolling_sideways(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/models/llama-70b", viewport=NARROW)
    await drawn(page)
    await page.get_by_text("The chart as text").click()
    await expect(page.locator("table.twin")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
