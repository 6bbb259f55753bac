"""Deciding in the console: what is old forbids, what is sent is looked at first, what is lost is asked for again."""

import asyncio
import re
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from rebalancer.domain.people import WriteStop
from rebalancer.domain.plan import Refusal
from tests.console.conftest import Opened
from tests.console.scene import CAP, CYCLE, LLAMA, NEW, NOW, OVERVIEW, PREVIEW, at
from tests.console.server import SceneServer

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

STOP = WriteStop("stop", "u", "1", "bad rollout", "oncall", at("03:12:40"))


async def shown(page: Page) -> None:
    await expect(page.get_by_role("button", name="Stop writes")).to_be_visible()


async def ask_cap(page: Page) -> None:
    """Fill the form in: cap qwen-32b at 2."""
    await page.get_by_role("button", name="Add").click()
    await page.get_by_label("Model", exact=True).fill("qwen-32b")
    await page.get_by_label("Replicas", exact=True).fill("2")
    await page.get_by_label("Reason").fill("TICKET-1")


# --- staleness


async def test_a_service_that_plans_once_a_minute_is_live_for_a_minute_and_late_for_three(
    scene: SceneServer, opened: Opened
) -> None:
    scene.overview = replace(scene.overview, plan_every_seconds=60.0)
    page = await opened("about:blank")
    await page.clock.install()
    await page.goto(scene.url + "/console/")
    await shown(page)
    scene.silent = True
    age = page.locator("rb-age")
    await page.clock.run_for(50_000)
    await expect(age).to_have_text(re.compile(r"^LIVE 5\d s$"))
    await page.clock.run_for(100_000)
    await expect(age).to_have_text(re.compile(r"^LATE 2m\d+s$"))
    await page.clock.run_for(40_000)
    await expect(age).to_have_text("NOT LIVE since 03:12:06")


async def test_a_silent_service_grows_late_then_not_live(scene: SceneServer, opened: Opened) -> None:
    page = await opened("about:blank")
    await page.clock.install()
    await page.goto(scene.url + "/console/")
    await shown(page)
    age, item = page.locator("rb-age"), page.locator(".needs rb-until").first
    await expect(age).to_have_text(re.compile(r"^LIVE \d+ s$"))
    await expect(item).to_have_text(re.compile(r"^1m\d+s$"))
    scene.silent = True
    await page.clock.run_for(14_000)
    await expect(age).to_have_text(re.compile(r"^LATE 1\d s$"))
    await page.clock.run_for(20_000)
    await expect(age).to_have_text("NOT LIVE since 03:12:06")
    await expect(item).to_have_text("03:13:40")
    await expect(page.get_by_role("button", name="End cap sdxl 6")).to_be_disabled()
    await expect(page.get_by_role("button", name="Stop writes")).to_be_enabled()
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    await expect(page.get_by_text("Apply is off while this page is not live.")).to_be_visible()
    scene.silent = False
    await scene.show(at=NOW + 40, plan_at=NOW + 39)
    await page.clock.run_for(2_000)
    await expect(age).to_have_text(re.compile(r"^LIVE \d s$"))
    await expect(page.get_by_role("button", name="Apply")).to_be_enabled()


async def test_a_service_that_misses_three_beats_and_a_read_dims_the_page_and_says_what_to_do_until_it_speaks(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened("about:blank")
    await page.clock.install()
    await page.goto(scene.url + "/console/")
    await shown(page)
    scene.silent = True
    await page.clock.run_for(12_000)
    gone = page.locator(".gone")
    await expect(gone).to_have_count(0)
    await page.clock.run_for(7_000)
    await expect(gone).to_contain_text("No word from the service since 03:12:07 UTC")
    await expect(gone).to_contain_text("kubectl get pods --namespace gpu-ops")
    await expect(gone).to_contain_text("rebalancer status")
    await expect(page.locator("main")).to_have_class(re.compile("dim"))
    await expect(page.get_by_role("button", name="Stop writes")).to_be_enabled()
    scene.silent = False
    await page.clock.run_for(3_000)
    await expect(gone).to_have_count(0)
    await expect(page.locator("main")).not_to_have_class(re.compile("dim"))


async def test_a_stream_that_died_without_a_word_is_opened_again(scene: SceneServer, opened: Opened) -> None:
    page = await opened("about:blank")
    await page.clock.install()
    await page.goto(scene.url + "/console/")
    await shown(page)
    scene.forget()
    await page.clock.run_for(17_000)
    async with asyncio.timeout(10.0):
        await scene.beat(NOW + 17)
    await page.clock.run_for(1_000)
    await expect(page.locator(".gone")).to_have_count(0)
    await expect(page.locator("rb-age")).to_have_text(re.compile(r"^LATE 1\d s$"))


async def test_a_service_that_died_and_came_back_is_followed_again_by_itself(opened: Opened) -> None:
    opened.expected += ["net::ERR", "ERR_"]
    async with SceneServer().running() as first:
        url = first.url
        page = await opened("about:blank")
        await page.clock.install()
        await page.goto(url + "/console/")
        await shown(page)
    await page.clock.run_for(17_000)
    await expect(page.locator(".gone")).to_be_visible()
    async with SceneServer(replace(OVERVIEW, cluster="again")).running(int(url.rpartition(":")[2])):
        await expect(page.locator(".cluster")).to_have_text("again", timeout=30_000)  # the browser's own patience
        await page.clock.run_for(1_000)
        await expect(page.locator(".gone")).to_have_count(0)


async def test_a_beat_keeps_it_live_only_as_long_as_there_are_plans(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await scene.beat(NOW + 20)
    await expect(page.locator("rb-age")).to_have_text(re.compile("^LATE 2"))
    await expect(page.locator("rb-clock")).to_have_text(re.compile("^03:12:2"))


async def test_what_is_heard_has_no_countdown_and_comes_at_most_each_ten_seconds(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened("about:blank")
    await page.clock.install()
    await page.goto(scene.url + "/console/")
    await shown(page)
    said = page.locator("#said")
    await expect(said).to_have_text("LIVE. WRITING. Needs you 2: spot-2 goes 03:13:40: llama-70b 1, sdxl 4")
    await scene.show(attention=(), at=NOW + 1, plan_at=NOW + 1)
    await page.clock.run_for(3_000)
    await expect(page.get_by_text("Nothing needs you.", exact=True)).to_be_visible()
    await expect(said).to_contain_text("Needs you 2")
    await page.clock.run_for(8_000)
    await expect(said).to_have_text("LIVE. WRITING. Nothing needs you.")
    assert await page.locator("[aria-live]").count() == 1


# --- overrides


async def test_an_override_is_previewed_applied_and_in_force_when_the_stream_says_so(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await ask_cap(page)
    command = "rebalancer override add cap qwen-32b 2 --for 30m --reason TICKET-1"
    await expect(page.locator("dialog .command")).to_contain_text(command)
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog pre")).to_contain_text("now  qwen-32b 3 -> 2  passes step; floor 1 kept")
    totals = "All models together: short by 1 replica without it, by 0 with it."
    await expect(page.locator("dialog")).to_contain_text(totals)
    assert scene.asked == []
    await page.get_by_role("button", name="Apply").click()
    outcome = page.locator("dialog .outcome")
    await expect(outcome).to_have_text("Accepted")
    (asked,) = scene.asked
    assert (asked.method, asked.path) == ("POST", "/v1/overrides")
    assert {
        "kind": "cap",
        "target": {"model": "qwen-32b"},
        "value": 2,
        "reason": "TICKET-1",
    }.items() <= asked.body.items()
    assert (asked.body["preview"], asked.body["forSeconds"], asked.body["confirm"]) == ("a1b2", 1800, None)
    assert len(asked.key) >= 16
    await scene.show(overrides=(CAP, NEW), cycle=CYCLE + 1)
    await expect(page.locator("main .overrides li")).to_have_count(2)
    await expect(outcome).to_have_text("Accepted")
    await scene.show(overrides=(CAP, replace(NEW, phase="InForce")), cycle=48_216)
    await expect(page.locator("dialog")).to_be_hidden()
    await expect(page.locator("#toast")).to_contain_text("cap qwen-32b 2: In force, cycle 48216")


async def test_what_was_just_applied_is_taken_back_by_one_button_and_the_stream_says_so(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog .outcome")).to_have_text("Accepted")
    await scene.show(overrides=(CAP, replace(NEW, phase="InForce")), cycle=CYCLE + 1)
    await page.get_by_role("button", name="Undo").click()
    toast = page.locator("#toast")
    await expect(toast).to_contain_text("cap qwen-32b 2: ending it")
    assert (scene.asked[-1].method, scene.asked[-1].path) == ("DELETE", f"/v1/overrides/{NEW.namespace}/{NEW.name}")
    await scene.show(overrides=(CAP,), cycle=CYCLE + 2)
    await expect(toast).to_contain_text(f"cap qwen-32b 2: Ended, cycle {CYCLE + 2}")
    await page.get_by_role("button", name="Dismiss").click()
    await expect(toast).to_be_empty()


async def test_an_override_that_does_nothing_is_told_why_and_offers_no_undo(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog .outcome")).to_have_text("Accepted")
    refused = replace(NEW, phase="Refused", message="2 is below the floor 3")
    await scene.show(overrides=(CAP, refused), cycle=CYCLE + 1)
    await expect(page.locator("#toast")).to_contain_text("Refused: 2 is below the floor 3")
    await expect(page.get_by_role("button", name="Undo")).to_have_count(0)


async def test_the_page_of_a_model_that_we_stand_down_from_offers_to_stand_up(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened(scene.url + "/console/models/llama-70b")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("llama-70b")
    await expect(page.get_by_role("button", name="Stand up")).to_have_count(0)
    fought = Refusal("foreign", "llama-70b", 3, 4, "argocd changed ScaledObject llama-70b 2 times within 600 s")
    scene.model = replace(LLAMA, refusals=(fought,))
    await page.reload()
    await page.get_by_role("button", name="Stand up").click()
    await page.get_by_label("Reason").fill("argocd ignores it now")
    await expect(page.get_by_label("Minutes", exact=True)).to_have_count(0)
    command = "rebalancer stand-up llama-70b --reason 'argocd ignores it now'"
    await expect(page.locator("dialog .command")).to_contain_text(command)
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog .outcome")).to_have_text("Accepted")
    (asked,) = scene.asked
    assert (asked.body["kind"], asked.body["target"]) == ("standUp", {"model": "llama-70b"})
    assert (asked.body["value"], asked.body["forSeconds"]) == (None, None)


async def test_a_changed_form_wants_a_new_preview(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("button", name="Apply")).to_be_enabled()
    await page.get_by_label("Replicas", exact=True).fill("1")
    await expect(page.get_by_role("button", name="Apply")).to_have_count(0)
    await expect(page.get_by_role("button", name="Preview")).to_be_enabled()


async def test_a_lost_reply_is_asked_for_again_with_the_same_key(scene: SceneServer, opened: Opened) -> None:
    opened.expected.append("net::ERR")
    page = await opened(scene.url + "/console/")
    await shown(page)
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    scene.lost = 1
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog .outcome")).to_have_text("May have been applied; checking")
    await expect(page.locator("dialog .outcome")).to_have_text("Accepted")
    first, second = scene.asked
    assert (first.key, first.body) == (second.key, second.body)


async def test_a_plan_that_changed_since_is_looked_at_again(scene: SceneServer, opened: Opened) -> None:
    opened.expected.append("409")
    page = await opened(scene.url + "/console/")
    await shown(page)
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("button", name="Apply")).to_be_enabled()
    scene.stale, scene.preview = 1, replace(PREVIEW, preview="c3d4")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog .outcome")).to_contain_text("The plan has changed since; look again.")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog .outcome")).to_have_text("Accepted")
    assert [each.body["preview"] for each in scene.asked] == ["a1b2", "c3d4"]
    assert scene.asked[0].key != scene.asked[1].key


async def test_what_is_severe_wants_the_name_typed(scene: SceneServer, opened: Opened) -> None:
    scene.preview = replace(PREVIEW, confirm="spot")
    page = await opened(scene.url + "/console/")
    await shown(page)
    await page.get_by_role("button", name="Add").click()
    await page.get_by_label("What").select_option("drain")
    await page.get_by_label("Of a").select_option("pool")
    await page.get_by_label("Name").fill("spot")
    await page.get_by_label("Reason").fill("it's broken")
    await expect(page.locator("dialog .command")).to_contain_text(
        "rebalancer override add drain pool/spot --for 30m --reason 'it'\\''s broken'"
    )
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    await page.get_by_label("Type spot").fill("spo")
    await expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    await page.get_by_label("Type spot").fill("spot")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator("dialog .outcome")).to_have_text("Accepted")
    assert scene.asked[0].body["target"] == {"pool": "spot"}
    assert scene.asked[0].body["confirm"] == "spot"


async def test_what_would_be_refused_cannot_be_applied(scene: SceneServer, opened: Opened) -> None:
    scene.preview = replace(PREVIEW, refused="2 is below the policy's floor 3")
    page = await opened(scene.url + "/console/")
    await shown(page)
    await ask_cap(page)
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_text("Refused: 2 is below the policy's floor 3")).to_be_visible()
    await expect(page.get_by_role("button", name="Apply")).to_be_disabled()


async def test_ending_an_override_asks_once(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await page.get_by_role("button", name="End cap sdxl 6").click()
    await expect(page.locator("dialog .command")).to_contain_text("rebalancer override delete ov-7f3a")
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog .outcome")).to_have_text("Accepted")
    assert (scene.asked[0].method, scene.asked[0].path) == ("DELETE", "/v1/overrides/serving/ov-7f3a")
    await scene.show(overrides=(), cycle=CYCLE + 1)
    await expect(page.locator("#toast")).to_contain_text(f"cap sdxl 6: Ended, cycle {CYCLE + 1}")
    await expect(page.locator("dialog")).to_be_hidden()


# --- stop and resume


async def test_stop_names_what_is_in_flight_and_enter_stops(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await page.get_by_role("button", name="Stop writes").click()
    dialog = page.locator("dialog")
    await expect(dialog).to_contain_text("llama-70b: 1 replica loading")
    await expect(dialog).to_contain_text("sdxl: 4 replicas on nodes that go")
    await expect(dialog).to_contain_text("rebalancer writes stop --reason")
    assert scene.asked == []
    await page.keyboard.press("Enter")
    await expect(dialog.locator(".outcome")).to_have_text("Accepted")
    assert (scene.asked[0].path, scene.asked[0].body) == ("/v1/writes/stop", {"reason": "stopped in the console"})
    await expect(page.locator(".writing")).to_have_text("WRITING")
    await scene.show(writes_stopped=STOP, cycle=CYCLE + 1)
    await expect(page.locator("#toast")).to_contain_text(f"Writes stopped, cycle {CYCLE + 1}")
    await expect(page.locator(".writing")).to_have_text("STOPPED")


async def test_who_sees_nothing_can_still_stop(scene: SceneServer, opened: Opened) -> None:
    scene.blind = True
    opened.expected.append("503")
    page = await opened(scene.url + "/console/")
    await expect(page.locator("main")).to_contain_text("nothing is decided yet; see /readyz")
    await page.get_by_role("button", name="Stop writes").click()
    await page.keyboard.press("Enter")
    await expect(page.locator("dialog .outcome")).to_have_text("Accepted")
    assert scene.asked[0].path == "/v1/writes/stop"


async def test_escape_stops_nothing(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await shown(page)
    await page.get_by_role("button", name="Stop writes").click()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_be_hidden()
    assert scene.asked == []
    assert await page.evaluate("document.activeElement.textContent") == "Stop writes"


async def test_resume_shows_the_first_plan_and_wants_its_word(scene: SceneServer, opened: Opened) -> None:
    await scene.show(writes_stopped=STOP)
    page = await opened(scene.url + "/console/")
    await page.get_by_role("button", name="Resume writes").click()
    dialog: Any = page.locator("dialog")
    await expect(dialog.locator("pre")).to_contain_text("qwen-32b 3 -> 2")
    await page.keyboard.type("resum")
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_role("button", name="Resume writes")).to_be_disabled()
    await page.keyboard.type("e")
    await page.keyboard.press("Enter")
    await expect(dialog.locator(".outcome")).to_have_text("Accepted")
    assert (scene.asked[0].path, scene.asked[0].body) == ("/v1/writes/resume", {"confirm": "resume"})
    await scene.show(writes_stopped=None, cycle=CYCLE + 1)
    await expect(page.locator("#toast")).to_contain_text(f"Writing again, cycle {CYCLE + 1}")
