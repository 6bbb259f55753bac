"""Before a person decides: what a kind means, between which numbers, at what cost, what a need offers, and who may."""

import re

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from rebalancer.api.handlers.session import May
from rebalancer.api.pages.values.overview import AttentionItem, WayOut
from rebalancer.planning.overrides.rulings import PRECEDENCE
from tests.console.conftest import Opened
from tests.console.scene import CAP, CYCLE, PREVIEW
from tests.console.server import SceneServer
from tests.console.test_deciding import STOP, ask_cap, shown

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]


async def test_each_kind_of_override_says_what_it_means_in_a_line_of_its_own(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await page.get_by_role("button", name="Add").click()
    kinds = await page.get_by_label("What").locator("option").all_text_contents()
    assert set(kinds) == set(PRECEDENCE)
    told = []
    for kind in kinds:
        await page.get_by_label("What").select_option(kind)
        told.append(await page.locator("dialog .means").inner_text())
    assert len(set(told)) == len(kinds)
    assert all(each.endswith(".") for each in told)


async def test_the_dialog_shows_between_which_numbers_one_chooses(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await page.get_by_role("button", name="Add").click()
    facts = page.locator("dialog .facts-line")
    await expect(facts).to_contain_text("once a model is named")
    await page.get_by_label("Model", exact=True).fill("llama-70b")
    await expect(facts).to_have_text(re.compile(r"now 6\s+floor 2\s+most 8"))


async def test_what_it_costs_and_what_others_gain_stands_before_the_button(scene: SceneServer, opened: Opened) -> None:
    more = "about 31 more of 210 requests late in the next 110 s than with 3"
    fewer = "about 30 fewer of 975 requests late in the next 150 s than with 6"
    cost = f"qwen-32b loses 1 replica: 2.4 replicas of work on 2, {more}"
    gain = f"llama-70b gets 1 replica: 7 replicas of work on 7, {fewer}"
    lines = (*PREVIEW.lines, f"cost {cost}", f"gain {gain}")
    scene.preview = replace(PREVIEW, costs=(cost,), gains=(gain,), lines=lines)
    page = await opened(scene.url + "/console/")
    await shown(page)
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    costs, apply = page.locator("dialog .costs li"), page.get_by_role("button", name="Apply")
    await expect(costs).to_have_text([cost])
    await expect(page.locator("dialog .gains li")).to_have_text([f"For that: {gain}"])
    await expect(page.locator("dialog pre")).not_to_contain_text(re.compile("cost |gain "))
    above, below = await costs.bounding_box(), await apply.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] < below["y"]


async def test_while_writes_are_stopped_a_preview_says_that_the_decision_waits(
    scene: SceneServer, opened: Opened
) -> None:
    scene.overview = replace(scene.overview, writes_stopped=STOP)
    page = await opened(scene.url + "/console/")
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    held = page.locator("dialog .trouble", has_text="acts when a person resumes them")
    await expect(held).to_be_visible()
    await scene.show(writes_stopped=None, cycle=CYCLE + 1)
    await expect(held).to_have_count(0)


async def test_a_need_opens_the_dialog_that_helps_filled_in(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    needs = page.locator(".needs li")
    await expect(needs.nth(1)).to_contain_text("about 140 of 900 requests late in the next 110 s, since 03:11:40")
    await expect(needs.nth(0).locator("code")).to_have_text("rebalancer explain --node spot-2")
    await page.get_by_role("button", name="Cap qwen-32b at 2 now").click()
    await expect(page.get_by_label("Model", exact=True)).to_have_value("qwen-32b")
    await expect(page.get_by_label("Replicas", exact=True)).to_have_value("2")
    await expect(page.get_by_label("What")).to_have_value("cap")


async def test_a_need_that_an_override_makes_offers_to_end_that_one_and_no_other_of_the_name(
    scene: SceneServer, opened: Opened
) -> None:
    end = WayOut("end what keeps sdxl there", "rebalancer override list", "end", "sdxl")
    need = AttentionItem("warning", "sdxl is short of 4 replicas: cap 6 by ci", model="sdxl", way_out=end)
    floor = replace(CAP, name="ov-floor", kind="floor", value=2)
    pool = replace(CAP, name="ov-pool", kind="exclude", subject_kind="pool", value=None)
    scene.overview = replace(scene.overview, attention=(need,), overrides=(floor, pool, CAP))
    page = await opened(scene.url + "/console/")
    await page.get_by_role("button", name="End what keeps sdxl there").click()
    await expect(page.locator("dialog h2")).to_have_text("End cap sdxl 6?")


async def test_buttons_that_one_may_not_press_are_dead_with_the_reason_and_rights_are_asked_once(
    scene: SceneServer, opened: Opened
) -> None:
    scene.may = May(read=True, override=(), stop=False, resume=False, end=(), asked=("rebalancer", "serving"))
    page = await opened(scene.url + "/console/")
    await expect(page.get_by_role("button", name="Stop writes")).to_be_disabled()
    await expect(page.locator(".stand")).to_contain_text("oncall may not create writestops")
    await expect(page.get_by_role("button", name="Add")).to_be_disabled()
    await expect(page.locator("#overrides .title")).to_contain_text("oncall may not create overrides")
    await expect(page.get_by_role("button", name="End cap sdxl 6")).to_be_disabled()
    await expect(page.locator(".overrides li")).to_contain_text("oncall may not delete overrides in namespace serving")
    await expect(page.get_by_role("button", name="Cap qwen-32b at 2 now")).to_be_disabled()
    await expect(page.locator(".needs li").nth(1)).to_contain_text("may not create overrides in namespace serving")
    await page.locator("#models").get_by_role("link", name="llama-70b", exact=True).click()
    await expect(page.get_by_role("button", name="Override").first).to_be_disabled()
    await expect(page.locator(".head")).to_contain_text("oncall may not create overrides in namespace serving")
    await scene.show(writes_stopped=STOP, cycle=CYCLE + 1)
    await expect(page.get_by_role("button", name="Resume writes")).to_be_disabled()
    assert (scene.sessions, scene.asked) == (1, [])


async def test_who_may_decide_elsewhere_hears_before_the_button_that_it_is_not_here(
    scene: SceneServer, opened: Opened
) -> None:
    scene.may = May(
        read=True, override=("rebalancer",), stop=True, resume=True, end=(), asked=("rebalancer", "serving")
    )
    page = await opened(scene.url + "/console/")
    await shown(page)
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    await expect(page.locator("dialog .buttons")).to_contain_text(
        "oncall may not create overrides in namespace serving"
    )


async def test_a_right_that_nobody_asked_about_stops_no_button(scene: SceneServer, opened: Opened) -> None:
    scene.may = May(read=True, override=("rebalancer",), stop=True, resume=True, end=(), asked=("rebalancer",))
    page = await opened(scene.url + "/console/")
    await shown(page)
    await expect(page.get_by_role("button", name="End cap sdxl 6")).to_be_enabled()
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("button", name="Apply")).to_be_enabled()
