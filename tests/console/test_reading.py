"""Reading the console: what is where, for eyes, for keys and for screen readers, in both themes and on a telephone."""

import asyncio
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from rebalancer.api.ports.timeline import TimelineEvent
from rebalancer.domain.people import WriteStop
from rebalancer.domain.sync import Sync
from tests.console.axe import axe_source
from tests.console.conftest import NARROW, Opened
from tests.console.scene import CAP, CYCLE, NEW, NOW, TIMELINE, at
from tests.console.server import SceneServer
from tests.testbed.build import Missing

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

GOLDEN = Path(__file__).parent / "overview.aria.yaml"
PAGES = (
    "/console/",
    "/console/models",
    "/console/models/llama-70b",
    "/console/pools",
    "/console/pools/a100",
    "/console/timeline",
    "/console/timeline?entry=48197-0f0f0f0f",
    "/console/decisions/48211",
    "/console/overrides",
    "/console/policy",
    "/console/health",
)
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}  # all that another theme can change
SPAN = re.compile(r"\b(\d+m\d+s|\d+h\d+m|\d+ s)\b")  # countdowns and ages, which move while we look


async def shown(page: Page) -> None:
    """Wait until the page has what its address names, and has faded in: half-way its text is pale."""
    await expect(page.locator("main h1")).to_be_attached()
    await expect(page.get_by_text("LIVE", exact=False).first).to_be_visible()
    await page.evaluate("Promise.allSettled(document.getAnimations().map((each) => each.finished))")


async def test_the_overview_reads_in_the_order_in_which_it_is_needed(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await expect(page.locator("rb-tiles svg")).to_have_count(2)
    await expect(page.locator("rb-lanes svg")).to_have_count(1)
    await expect(page.locator("rb-hours svg")).to_have_count(1)
    tree = await page.locator("body").aria_snapshot()
    found = SPAN.sub("SPAN", re.sub(r"03:12:\d\d UTC", "NOW UTC", tree)) + "\n"
    if not GOLDEN.exists():
        GOLDEN.write_text(found)
        pytest.fail(f"{GOLDEN.name} was missing and is written: read it, commit it")
    assert found == GOLDEN.read_text(), "delete the golden file and run again to write it anew"


async def test_an_override_that_changes_nothing_is_struck_out_and_says_why(scene: SceneServer, opened: Opened) -> None:
    idle = replace(CAP, name="ov-old", uid="u0", phase="Superseded", message="by ov-7f3a, which is newer")
    scene.overview = replace(scene.overview, overrides=(CAP, idle))
    page = await opened(scene.url + "/console/overrides")
    await shown(page)
    first, second = page.locator(".overrides > li").nth(0), page.locator(".overrides > li").nth(1)
    await expect(first.locator("p").first).not_to_have_css("text-decoration-line", "line-through")
    await expect(second.locator("p").first).to_have_css("text-decoration-line", "line-through")
    await expect(second).to_contain_text("“render batch” Superseded: by ov-7f3a, which is newer")


async def test_what_happened_on_another_day_has_its_date(scene: SceneServer, opened: Opened) -> None:
    yesterday = TimelineEvent(NOW - 86_400, "notice", "spot-9 is gone", 47_000)
    scene.overview = replace(scene.overview, timeline=(yesterday, *TIMELINE[-1:]))
    page = await opened(scene.url + "/console/")
    await shown(page)
    times = page.locator(".happenings time")
    await expect(times.nth(0)).to_have_text(re.compile(r"^03:\d\d:\d\d$"))
    await expect(times.nth(1)).to_have_text("01-15 03:12:07")


async def test_a_models_bar_has_what_its_pool_draws_as_lent(scene: SceneServer, opened: Opened) -> None:
    # It has borrowed 2: one serves, and one still loads, which its pool draws as loading.
    row = replace(scene.overview.models[0], ready=5, loading=1, borrowed=2, on_loan=1, unowned=0)
    scene.overview = replace(scene.overview, models=(row,))
    page = await opened(scene.url + "/console/")
    await shown(page)
    bar = page.get_by_role("img", name=re.compile("^llama-70b: owned 4, lent 1, loading 1"))
    await expect(bar).to_have_count(1)


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_on_any_page(scene: SceneServer, opened: Opened, theme: str) -> None:
    try:
        axe = axe_source()
    except Missing as missing:
        pytest.skip(missing.reason)
    page = await opened(scene.url + PAGES[0], color_scheme=theme)
    found = []
    for path in PAGES:
        await page.goto(scene.url + path)
        await shown(page)
        await page.evaluate(axe)
        result = await page.evaluate(
            "(rules) => axe.run(document, {resultTypes: ['violations'], ...rules})", {} if theme == "light" else COLOURS
        )
        found += [
            f"{path} {each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0]['failureSummary']}"
            for each in result["violations"]
        ]
    assert found == []


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_in_dialogs_a_toast_and_a_page_whose_service_is_silent(
    scene: SceneServer, opened: Opened, theme: str
) -> None:
    try:
        axe = axe_source()
    except Missing as missing:
        pytest.skip(missing.reason)
    page = await opened("about:blank", color_scheme=theme)
    await page.clock.install()
    await page.goto(scene.url + "/console/")
    await shown(page)
    await page.evaluate(axe)
    look = """() => axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations.map(
        (each) => `${each.id}: ${each.nodes[0].html.slice(0, 200)} ${each.nodes[0].failureSummary}`))"""
    await page.get_by_role("button", name="Cap qwen-32b at 2 now").click()
    await page.get_by_label("Reason").fill("TICKET-1")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("button", name="Apply")).to_be_enabled()
    assert await page.evaluate(look) == []
    await page.get_by_role("button", name="Apply").click()
    await scene.show(overrides=(CAP, replace(NEW, phase="InForce")), cycle=CYCLE + 1)
    await page.clock.run_for(1_000)
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    assert await page.evaluate(look) == []
    scene.silent = True
    await page.clock.run_for(19_000)
    await expect(page.locator(".gone")).to_be_visible()
    assert await page.evaluate(look) == []


async def test_why_opens_with_a_sentence_then_what_would_change_it_and_its_numbers_stay_as_they_were_folded(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened(scene.url + "/console/models/llama-70b")
    await shown(page)
    why = page.locator("#why")
    await expect(why.locator(".summary")).to_have_text(scene.model.summary)
    await expect(why.locator("li")).to_have_text(list(scene.model.changes_when))
    await expect(why.locator("pre")).to_be_hidden()
    await why.get_by_text("The numbers").click()
    await expect(why.locator("pre")).to_be_visible()
    scene.model = replace(scene.model, summary="7 replicas with 6.6 of work: fine", cycle=CYCLE + 1)
    await scene.show(cycle=CYCLE + 1)
    await expect(why.locator(".summary")).to_have_text("7 replicas with 6.6 of work: fine")
    await expect(why.locator("pre")).to_be_visible()
    await page.reload()
    await expect(why.locator("pre")).to_be_visible()


async def test_a_decision_shows_what_was_new_and_each_model_before_and_after_with_the_way_to_its_steps(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened(scene.url + "/console/decisions/48211")
    await shown(page)
    await expect(page.locator("#triggers li")).to_have_text(
        ["spot-2 goes 03:13:40", "sdxl needs 2 instead of 6: 8 requests / 4"]
    )
    await expect(page.locator("#inputs")).to_contain_text("0 notices, 1 override in force, 1 not in force.")
    beside = page.locator("#beside")
    await expect(beside.locator("> .scroll tbody tr")).to_have_text([re.compile("^sdxl622gives up 4 replicas")])
    await expect(beside).to_contain_text("2 models unchanged")
    await expect(beside.get_by_role("link", name="qwen-32b")).to_be_hidden()
    await beside.get_by_text("What stays as it is", exact=True).click()
    await expect(beside.get_by_role("link", name="qwen-32b")).to_be_visible()
    steps = page.locator("#steps-llama-70b")
    await steps.locator("summary").click()  # the only model's are open
    await expect(steps.locator("table")).to_be_hidden()
    await beside.locator("tr", has_text="llama-70b").get_by_role("link", name="steps").click()
    await expect(steps.locator("table")).to_be_visible()
    await expect(page).to_have_url(re.compile("/console/decisions/48211$"))


async def test_a_pools_page_counts_replicas_beside_the_gpus_that_they_are_on(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened(scene.url + "/console/pools/spot")
    await expect(page.locator("#loans h2")).to_have_text("In use: 2 replicas on 4 GPUs")
    await page.goto(scene.url + "/console/pools/a100")
    await expect(page.locator("#loans h2")).to_have_text("Lent")
    await expect(page.locator("#loans")).to_contain_text("Nothing is lent.")


async def test_the_policy_in_force_is_a_page_with_its_last_change_and_what_is_unknown_of_it(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened(scene.url + "/console/")
    await page.get_by_role("link", name="Policy").click()
    await expect(page.locator("h1")).to_have_text("Policy")
    change = page.locator("#change")
    await expect(change).to_contain_text("2 differences from 77aa01b2c3")
    await expect(change.locator("li")).to_have_text(["models.sdxl.maxReplicas 4 -> 8", "models.whisper is gone"])
    await expect(change).to_contain_text("03:02:00 UTC, 10m")
    await expect(change).to_contain_text("unknown: a file has no author")
    await expect(page.locator("#models tbody tr")).to_have_text([re.compile("^sdxlspot1028none$")])
    await page.get_by_text("All of it").click()
    await expect(page.locator("#text pre")).to_contain_text('"pools"')


async def test_health_shows_what_the_doctor_sees_with_the_fix(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/health")
    await shown(page)
    doctor = page.locator("#doctor")
    await expect(doctor).to_contain_text("22 well, 2 not")
    await expect(doctor.locator("li").first).to_contain_text("FAIL scaledobject/serving/sdxl trigger 0")
    await expect(doctor.locator("li").first).to_contain_text("fix: metricType: Value")
    await expect(doctor).to_contain_text("looked through for traps at 03:10:00 UTC")
    await expect(doctor).to_contain_text("nodes, pods and everything else")


async def test_a_telephone_never_scrolls_sideways(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + PAGES[0], viewport=NARROW)
    for path in PAGES:
        await page.goto(scene.url + path)
        await shown(page)
        assert await page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], path


async def test_a_telephone_shows_two_lines_per_model_and_targets_for_thumbs(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/", viewport=NARROW)
    await shown(page)
    for drawing in ("rb-tiles", "rb-lanes", "table.models rb-bar"):
        await expect(page.locator(drawing).first).to_be_hidden()
    row = page.locator("table.models tbody tr").first
    words = await row.evaluate("row => row.innerText.split(/\\s+/).join(' ')")
    assert words.startswith("llama-70b")
    assert "short 1, next 03:14:40" in words
    heights = await page.locator("button:visible").evaluate_all("all => all.map((one) => one.offsetHeight)")
    assert min(heights) >= 44


async def test_j_k_and_enter_walk_the_rows_and_slash_finds(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    focused = "document.activeElement.textContent"
    await page.keyboard.press("j")
    assert "spot-2 goes" in await page.evaluate(focused)
    for _ in range(2):
        await page.keyboard.press("j")
    assert await page.evaluate(focused) == "llama-70b"
    await page.keyboard.press("k")
    assert "llama-70b is short of 1" in await page.evaluate(focused)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/console/models/llama-70b$"))
    await expect(page.locator("h1")).to_have_text("serving/llama-70b")
    await page.keyboard.press("/")
    await page.keyboard.type("qwen")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/console/models/qwen-32b$"))


async def test_find_goes_to_the_only_match_and_to_the_very_name_else_to_the_list(
    scene: SceneServer, opened: Opened
) -> None:
    twins = tuple(replace(scene.overview.models[0], model=name) for name in ("chat", "chat-large", "code"))
    scene.overview = replace(scene.overview, models=twins, models_total=3)
    page = await opened(scene.url + "/console/")
    await shown(page)
    for typed, leads in (("od", "/code"), ("cha", r"\?q=cha"), ("chat", "/chat"), ("nobody", r"\?q=nobody")):
        await page.keyboard.press("/")
        await page.keyboard.press("ControlOrMeta+a")
        await page.keyboard.type(typed)
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(f"/console/models{leads}$"))
        await page.keyboard.press("Escape")
    assert await page.locator("#find-names option").evaluate_all("all => all.map((one) => one.value)") == [
        "chat",
        "chat-large",
        "code",
    ]


async def test_keys_can_be_switched_off(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await page.keyboard.press("?")
    await page.get_by_label("Single keys are on").uncheck()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_be_hidden()
    await page.keyboard.press("?")
    await page.keyboard.press("j")
    await expect(page.locator("dialog")).to_be_hidden()
    assert await page.evaluate("document.activeElement.closest('[data-row]')") is None


async def test_of_two_tabs_the_later_choice_counts_in_both(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    other = await page.context.new_page()
    await other.goto(scene.url + "/console/")
    keys = "Single keys are on"
    for tab in (page, other):
        await shown(tab)
        await tab.keyboard.press("?")
    await page.get_by_label(keys).uncheck()
    await other.get_by_label(keys).uncheck()
    await other.get_by_label(keys).check()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_be_hidden()
    # A browser tells its tabs of a choice in its own time: after what the tab itself can read.
    async with asyncio.timeout(15.0):
        while not await page.locator("dialog").is_visible():
            await page.keyboard.press("?")
    await expect(page.get_by_label(keys)).to_be_checked()


async def test_everything_is_reached_by_tab_and_the_focus_is_seen(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    reached: list[str] = []
    while len(reached) < 100:
        await page.keyboard.press("Tab")
        said, outline = await page.evaluate(
            """() => { const at = document.activeElement;
            return [at.ariaLabel || at.textContent || at.id, at === document.body ? '2px' :
            getComputedStyle(at).outlineWidth] }"""
        )
        if said in reached[:1]:
            break
        reached.append(said)
        assert outline == "2px", said
    wanted = ("Skip to content", "Stop writes", "find", "Keys", "llama-70b", "short 1", "Add", "End cap sdxl 6")
    assert [each for each in wanted if each not in reached] == []


async def test_what_reads_the_same_twice_stands_there_twice(scene: SceneServer, opened: Opened) -> None:
    await scene.show(timeline=(TIMELINE[0],) * 3, policy_problems=("no pool x at 3", "no pool x at 4"))
    page = await opened(scene.url + "/console/")
    for name in ("one", "two"):  # drawn from nothing, then over what is there
        await scene.show(cluster=name)
        await expect(page.locator(".cluster")).to_have_text(name)
        await expect(page.locator(".happenings li")).to_have_count(3)
        await expect(page.locator(".conditions li")).to_have_count(2)


SPECIAL: tuple[tuple[dict[str, object], str], ...] = (
    ({"leader": "", "plan_at": NOW - 22}, "No leader. Nothing changes; HPAs keep the last bounds."),
    ({"instance": "rb-1"}, "Reading standby rb-1; leader is rb-0."),
    ({"write_mode": "shadow"}, "Shadow: nothing is written."),
    (
        {"writes_stopped": WriteStop("stop", "u", "1", "bad rollout", "oncall", at("03:12:40"))},
        "Writes stopped by oncall 03:12:40: bad rollout.",
    ),
    ({"plan_at": None}, "Reading state"),
    ({"sync": Sync(missing=("pods",))}, "Not read yet: pods. Nothing is taken from a model until they are."),
)


async def test_what_is_special_is_said_in_a_sentence(scene: SceneServer, opened: Opened) -> None:
    usual = scene.overview
    page = await opened(scene.url + "/console/")
    for changed, words in SPECIAL:
        scene.overview = usual
        await scene.show(**changed)
        await expect(page.locator(".conditions li")).to_have_text([words])


async def test_unknown_is_a_question_mark_never_zero(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/models/llama-70b")
    latency = page.locator("#signals tbody tr", has_text="latency")
    await expect(latency.locator("td").first).to_have_text("?")


async def test_who_is_not_logged_in_pastes_a_token(scene: SceneServer, opened: Opened) -> None:
    scene.logged_in = False
    opened.expected.append("401")
    page = await opened(scene.url + "/console/models/llama-70b")
    await expect(page.get_by_text("rebalancer login --show-token")).to_be_visible()
    await page.get_by_label("Token").fill("wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_have_text("this token is not good here; get one")
    await page.get_by_label("Token").fill("a-token")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("serving/llama-70b")
    await page.get_by_role("link", name="Health").click()
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_label("Token")).to_be_empty()


async def test_a_wish_for_less_motion_is_kept(scene: SceneServer, opened: Opened) -> None:
    for motion, fade in (("no-preference", "in"), ("reduce", "none")):
        page = await opened(scene.url + "/console/", reduced_motion=motion)
        await shown(page)
        assert await page.evaluate("getComputedStyle(document.getElementById('main')).animationName") == fade
