"""The console at its limits: names that want to be markup, a thousand models, ten thousand GPUs."""

import asyncio
import re

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from rebalancer.api.pages.badges import Badge
from rebalancer.api.pages.history import ModelGpus, PoolHistory
from rebalancer.api.pages.values.overview import AttentionItem, ModelRow, PoolRow
from rebalancer.api.pages.values.tiles import NodeTiles
from rebalancer.api.ports.timeline import TimelineEvent
from tests.console.conftest import Opened
from tests.console.scene import CAP, LLAMA, MODELS, NOW, OVERVIEW
from tests.console.scene_hours import HISTORY
from tests.console.server import SceneServer

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'&amp;{{7*7}}javascript:alert(3)\u202e"
OVERVIEW_NODES, OTHER_NODES = 1_500, 2_500
PAINT_SECONDS = 0.5  # on a machine of one's own
SLOW_PAINT_SECONDS = 1.5
SLOW_4G = {"latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 750e3 / 8}  # ms; bytes per second
PAINTED = """new MutationObserver((_, seen) => document.querySelector('#needs') &&
    requestAnimationFrame(() => { globalThis.painted ??= performance.now(); seen.disconnect(); })
    ).observe(document, {childList: true, subtree: true})"""
WHEN_PAINTED = (
    "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(globalThis.painted))))"
)
NOISE = 8  # those that run this are shared


async def nodes(page: Page) -> int:
    return int(await page.evaluate("document.querySelectorAll('*').length"))


def rows(count: int) -> tuple[ModelRow, ...]:
    return tuple(replace(MODELS[n % 4], model=f"model-{n:04}") for n in range(count))


def pool(name: str, nodes: int, gpus: str = "####//+.") -> PoolRow:
    tiles = tuple(NodeTiles(f"{name}-{n}", gpus) for n in range(nodes))
    counts = {"owned": 4 * nodes, "loading": 2 * nodes, "lent": nodes, "free": nodes}
    return PoolRow(name, "primary", 8 * nodes, counts, tiles if nodes <= 512 else (), nodes)


async def test_names_and_reasons_that_want_to_be_markup_stay_text(scene: SceneServer, opened: Opened) -> None:
    name = re.sub("[/{}]", "", HOSTILE)  # what would not fit into the address of a model
    model = replace(MODELS[0], model=name, why=HOSTILE)
    override = replace(CAP, reason=HOSTILE, actor=HOSTILE, subject=HOSTILE)
    event = TimelineEvent(NOW - 60, "grant", HOSTILE, 1, name)
    scene.overview = replace(
        OVERVIEW,
        cluster=HOSTILE,
        attention=(AttentionItem("critical", HOSTILE, NOW + 60, name),),
        pools=(replace(pool("a", 2), name=HOSTILE),),
        models=(model,),
        overrides=(override,),
        timeline=(event,),
        policy_problems=(HOSTILE,),
    )
    scene.history = replace(
        HISTORY,
        pools=(
            PoolHistory(HOSTILE, HOSTILE, HISTORY.pools[0].gpus, (ModelGpus(name, HISTORY.pools[0].models[0].gpus),)),
        ),
        timeline=(event,),
        badges={name: Badge("<b", 1)},
    )
    scene.model = replace(
        LLAMA,
        decision=replace(LLAMA.decision, model=name),
        namespace=HOSTILE,
        team=HOSTILE,
        explanation=(HOSTILE,),
        signals=(replace(LLAMA.signals[0], signal=HOSTILE, reading=HOSTILE, why=HOSTILE),),
        replicas=(replace(LLAMA.replicas[0], name=HOSTILE, node=HOSTILE, lender=HOSTILE),),
        overrides=(override,),
        timeline=(event,),
    )
    page = await opened(scene.url + "/console/")
    await expect(page.locator("table.models tbody th")).to_have_text(name)
    await expect(page.locator("rb-hours .letters")).to_have_text("<b")
    await page.get_by_text("The chart as text").click()
    await expect(page.locator("table.twin tbody tr").first).to_contain_text(name)
    await page.locator("table.models tbody th a").click()
    await expect(page.locator("h1")).to_have_text(f"{HOSTILE}/{name}")
    await page.get_by_role("button", name="Override", exact=True).first.click()
    await expect(page.locator("dialog code")).to_contain_text("<img")
    await page.keyboard.press("Escape")
    for path in ("/console/timeline", "/console/overrides", "/console/pools"):
        await page.goto(scene.url + path)
        await expect(page.get_by_text(HOSTILE).first).to_be_visible()
    assert await page.locator("main img, main script").count() == 0  # and no dialog opened: that would hang the page


async def test_an_overview_of_twenty_models_stays_small(scene: SceneServer, opened: Opened) -> None:
    scene.overview = replace(
        OVERVIEW, models=rows(20), models_total=20, pools=(pool("a100", 16), pool("h100", 16), pool("spot", 16))
    )
    page = await opened(scene.url + "/console/")
    await expect(page.locator("rb-tiles svg")).to_have_count(3)
    await expect(page.locator("table.models rb-bar svg")).to_have_count(20)
    assert await nodes(page) <= OVERVIEW_NODES


async def test_a_thousand_models_and_ten_thousand_gpus_stay_in_their_pages(scene: SceneServer, opened: Opened) -> None:
    scene.overview = replace(
        OVERVIEW,
        models=rows(100),
        models_total=1_000,
        pools=(pool("large", 700), pool("middle", 500), pool("small", 50)),
    )
    page = await opened(scene.url + "/console/")
    await expect(page.locator("rb-tiles svg")).to_have_count(2)  # 700 nodes: the bar alone
    await expect(page.get_by_role("link", name="All 1000 models")).to_be_visible()
    label = await page.locator("rb-tiles svg").first.get_attribute("aria-label")
    assert label == "middle: nodes by their worst GPU: 500 loading"
    await expect(page.locator("rb-tiles").first).to_contain_text("a tile per node, by its worst GPU")
    assert await nodes(page) <= OVERVIEW_NODES
    await page.get_by_role("link", name="All 1000 models").click()
    await expect(page.locator("table.models tbody tr")).to_have_count(100)
    await expect(page.get_by_text("Page 1 of 10")).to_be_visible()
    assert await nodes(page) <= OTHER_NODES


async def test_stop_names_what_is_in_flight_of_all_models_and_an_override_knows_them_all(
    scene: SceneServer, opened: Opened
) -> None:
    calm = tuple(replace(each, loading=0, doomed=0) for each in rows(100))
    scene.overview = replace(OVERVIEW, models=calm, models_total=150)
    busy = replace(calm[0], ready=2, loading=4, doomed=1, floor=3, most=9)
    scene.beyond = tuple(replace(busy, model=f"z-{number}", loading=4 * (number == 9)) for number in range(10))
    page = await opened(scene.url + "/console/")
    await page.get_by_role("button", name="Stop writes").click()
    dialog = page.locator("dialog")
    await expect(dialog).to_contain_text("z-9: 4 replicas loading")
    await expect(dialog).to_contain_text("z-0: 1 replica on nodes that go")
    await expect(dialog).to_contain_text("and 3 more")
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Add").click()
    await page.get_by_label("Model", exact=True).fill("z-9")
    await expect(page.locator("#override-facts")).to_have_text("now 6 floor 3 most 9 ")
    await expect(page.locator("#override-names option[value=z-9]")).to_be_attached()


async def test_stop_asked_for_before_the_first_picture_names_what_is_in_flight_once_that_comes(
    scene: SceneServer, opened: Opened
) -> None:
    calm = tuple(replace(each, loading=0, doomed=0) for each in rows(100))
    scene.overview = replace(OVERVIEW, models=calm, models_total=150)
    scene.beyond = (replace(calm[0], model="z-9", loading=4),)
    scene.silent = True
    page = await opened(scene.url + "/console/")
    await page.get_by_role("button", name="Stop writes").click()
    dialog = page.locator("dialog")
    await expect(dialog).to_contain_text("Stop all writes?")
    await expect(dialog.locator(".flight")).to_have_count(0)
    scene.silent = False
    await expect(dialog).to_contain_text("z-9: 4 replicas loading")


async def test_stop_does_not_say_that_nothing_is_in_flight_where_that_could_not_be_looked_up(
    scene: SceneServer, opened: Opened
) -> None:
    opened.expected.append("503")
    scene.overview = replace(OVERVIEW, models=rows(100), models_total=150)
    page = await opened(scene.url + "/console/")
    await expect(page.get_by_role("link", name="All 150 models")).to_be_visible()
    scene.blind = True
    await page.get_by_role("button", name="Stop writes").click()
    await expect(page.locator("dialog")).to_contain_text("What is in flight is not known: nothing is decided yet")
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog .outcome")).to_have_text("Accepted")


async def test_the_first_useful_picture_comes_soon(scene: SceneServer, opened: Opened) -> None:
    await opened(scene.url + "/console/")  # the browser's own first steps are not ours
    page = await opened("about:blank")
    await page.add_init_script(PAINTED)
    await page.goto(scene.url + "/console/")
    await page.locator("#needs").wait_for()
    seconds = await page.evaluate(WHEN_PAINTED) / 1000
    print(f"useful picture: {seconds:.2f} s, budget {PAINT_SECONDS} s")  # noqa: T201  # a figure for people
    assert seconds <= NOISE * PAINT_SECONDS


async def test_the_first_useful_picture_comes_soon_over_a_slow_line(scene: SceneServer, opened: Opened) -> None:
    """Slow 4G as browsers' own tools have it; the browser throttles, so nothing here waits longer than its limit."""
    page = await opened("about:blank")
    network = await page.context.new_cdp_session(page)
    async with asyncio.timeout(60):
        await network.send("Network.enable")
        await network.send("Network.emulateNetworkConditions", {"offline": False, **SLOW_4G})
        await page.add_init_script(PAINTED)
        await page.goto(scene.url + "/console/", wait_until="commit", timeout=30_000)
        await page.locator("#needs").wait_for(timeout=30_000)
        seconds = await page.evaluate(WHEN_PAINTED) / 1000
        sent = await page.evaluate(
            "performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)"
        )
    print(f"useful picture on slow 4G: {seconds:.2f} s, budget {SLOW_PAINT_SECONDS} s, {sent} bytes")  # noqa: T201  # a figure for people
    assert seconds <= NOISE * SLOW_PAINT_SECONDS


async def test_at_most_two_pictures_a_second_are_drawn_however_many_are_sent(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened("about:blank")
    await page.clock.install()
    await page.goto(scene.url + "/console/")
    await expect(page.locator(".cluster")).to_have_text("prod-eu")
    await page.evaluate(
        """() => { globalThis.pictures = 0; globalThis.began = performance.now();
        new MutationObserver(() => { globalThis.pictures += 1; }).observe(
        document.querySelector('.cluster'), {characterData: true, childList: true, subtree: true}); }"""
    )
    for number in range(40):
        await scene.show(cluster=f"prod-{number}")
        await page.clock.run_for(50)
    await expect(page.locator(".cluster")).to_have_text(re.compile(r"^prod-\d+$"))
    pictures, seconds = await page.evaluate("[globalThis.pictures, (performance.now() - globalThis.began) / 1000]")
    assert seconds >= 2.0
    assert 1 <= pictures <= 2 * seconds + 1  # and the one under way; 40 were sent
