"""The timeline: a shift is one entry, filters act at once, an entry has an address, days are named."""

import asyncio
import re

import pytest
from msgspec.structs import replace
from playwright.async_api import Route, expect

from rebalancer.api.ports.timeline import DecisionRow, TimelineEvent
from tests.console.conftest import Opened
from tests.console.scene import NOW, SHIFT, TIMELINE
from tests.console.server import SceneServer

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="session")]

ENTRIES = ".happenings > li"
A_ROW_PX = 36


def notices(count: int, *, apart: float = 60.0) -> list[DecisionRow]:
    """`count` cycles in which a node was noticed, the last one now."""
    return [
        DecisionRow(
            n,
            NOW - apart * (count - 1 - n),
            (TimelineEvent(NOW - apart * (count - 1 - n), "notice", f"n{n} goes", n, id=f"{n}-aa"),),
        )
        for n in range(count)
    ]


async def test_a_shift_is_one_entry_with_release_wait_and_grant(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/timeline")
    entry = page.locator(ENTRIES, has_text="qwen-32b → llama-70b")
    await expect(entry).to_have_count(1)
    await expect(entry.locator(".steps li")).to_have_text(
        [
            "03:09:40 release: qwen-32b gives 1 replica to llama-70b (4 → 3)",
            "waits 22 s",
            "03:10:02 grant: llama-70b gets 1 replica from qwen-32b on a100-3 (6 → 7)",
        ]
    )
    await expect(page.locator(ENTRIES)).to_have_count(len(TIMELINE) - 1)  # its release is told by it


async def test_a_replica_that_stands_by_says_whose_timeline_has_the_writes(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/timeline")
    await expect(page.locator(ENTRIES)).to_have_count(len(TIMELINE) - 1)
    await expect(page.get_by_text("stands by")).to_have_count(0)
    scene.overview = replace(scene.overview, instance="rb-1")
    await page.reload()
    await expect(page.get_by_text("rb-1 stands by, and what was written is told by rb-0 alone")).to_be_visible()


async def test_a_release_whose_grant_is_still_to_come_says_so(scene: SceneServer, opened: Opened) -> None:
    release = TimelineEvent(NOW - 20, "release", "gives 1 to b", 9, "a", shift="9-a", id="9-aa")
    scene.rows = [DecisionRow(9, NOW - 20, (release,))]
    page = await opened(scene.url + "/console/timeline")
    await expect(page.locator(ENTRIES)).to_have_text([re.compile("a gives 1 to b; the grant is still to come$")])


async def test_filters_act_at_once_and_keep_the_focus_where_one_types(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/timeline")
    await expect(page.locator(ENTRIES)).to_have_count(len(TIMELINE) - 1)
    await page.get_by_label("Kind").select_option("shift")
    await expect(page.locator(ENTRIES)).to_have_count(1)
    await expect(page).to_have_url(re.compile(r"\?kind=shift$"))
    await page.get_by_label("Kind").select_option("")
    await page.get_by_label("Model", exact=True).press_sequentially("sdxl")
    await expect(page.locator(ENTRIES)).to_have_count(2)
    await expect(page).to_have_url(re.compile(r"\?model=sdxl$"))
    await expect(page.get_by_label("Model", exact=True)).to_be_focused()
    await page.get_by_label("Kind").select_option("node")
    await expect(page.get_by_text("Nothing like that since 02:46:30")).to_be_visible()
    await page.get_by_role("link", name="Show all").click()
    await expect(page.locator(ENTRIES)).to_have_count(len(TIMELINE) - 1)
    await expect(page.get_by_label("Model", exact=True)).to_have_value("")
    await expect(page.get_by_label("Kind")).to_have_value("")


async def test_a_link_to_an_old_entry_opens_with_it_in_view_and_marked(scene: SceneServer, opened: Opened) -> None:
    scene.rows = notices(200)
    page = await opened(scene.url + "/console/timeline")
    await expect(page.locator(ENTRIES).first).to_contain_text("n199 goes")
    await expect(page.get_by_text("n40 goes")).to_have_count(0)  # beyond the first window
    await page.goto(scene.url + "/console/timeline?entry=40-aa")
    marked = page.locator(f"{ENTRIES}.here")
    await expect(marked).to_contain_text("n40 goes")
    await expect(marked).to_have_attribute("aria-current", "true")
    await expect(marked).to_be_in_viewport(ratio=1)
    await page.get_by_role("link", name="Newest").click()
    await expect(page.locator(ENTRIES).first).to_contain_text("n199 goes")
    await expect(page.locator(f"{ENTRIES}.here")).to_have_count(0)


async def test_each_entry_links_itself_from_every_page(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/")
    await expect(page.locator("rb-hours svg").first).to_be_visible()  # what comes late moves what is below it
    await page.locator(ENTRIES, has_text="qwen-32b → llama-70b").get_by_role("link").first.click()
    await expect(page).to_have_url(re.compile(rf"/console/timeline\?entry={SHIFT[0]}$"))
    await expect(page.locator(f"{ENTRIES}.here")).to_contain_text("shift of 22 s")


async def test_what_somebody_points_at_stays_where_it_is_when_newer_entries_and_the_last_hours_come(
    scene: SceneServer, opened: Opened
) -> None:
    page = await opened("about:blank")
    answers = asyncio.Event()

    async def later(route: Route) -> None:
        await answers.wait()
        await route.continue_()

    await page.route("**/v1/history*", later)
    await page.goto(scene.url + "/console/")
    await expect(page.get_by_text("Reading history")).to_be_visible()
    heading = page.locator("#models")
    before = await heading.bounding_box()
    answers.set()
    await expect(page.locator("rb-hours svg").first).to_be_visible()
    after = await heading.bounding_box()
    assert before
    assert after
    assert abs(after["y"] - before["y"]) < A_ROW_PX

    link = page.locator(ENTRIES, has_text="qwen-32b → llama-70b").get_by_role("link").first
    await link.focus()
    newest = replace(TIMELINE[-1], at=NOW, text="one more thing", id="48299-0", shift=None, steps=())
    await scene.show(timeline=(*TIMELINE, newest), cycle=48_299)
    await expect(page.locator(ENTRIES).first).to_contain_text("one more thing")
    await expect(link).to_be_focused()


async def test_an_entry_that_is_not_kept_any_more_says_where_it_may_be(scene: SceneServer, opened: Opened) -> None:
    page = await opened(scene.url + "/console/timeline?entry=17-aa")
    await expect(page.locator("main .trouble")).to_contain_text("This entry is not kept here any more")
    await expect(page.get_by_role("link", name="decision 17")).to_have_attribute("href", "/console/decisions/17")


async def test_days_are_named_where_they_change(scene: SceneServer, opened: Opened) -> None:
    scene.rows = notices(4, apart=7200.0)
    page = await opened(scene.url + "/console/timeline")
    await expect(page.locator(".day > h2")).to_have_text(["2027-01-16", "2027-01-15"])
    await expect(page.locator(".day").nth(1).locator("li")).to_have_count(2)
    await expect(page.locator(".day").nth(1).locator("time").first).to_have_text("01-15 23:12:07")


async def test_a_quiet_half_hour_says_so_and_has_the_way_to_older(scene: SceneServer, opened: Opened) -> None:
    scene.rows = [
        replace(row, at=row.at - 7200, timeline=(replace(row.timeline[0], at=row.at - 7200),)) for row in notices(2)
    ]
    scene.overview = replace(scene.overview, timeline=())
    page = await opened(scene.url + "/console/")
    quiet = page.locator("#timeline")
    await expect(quiet.get_by_text("Nothing in the last 30 minutes.")).to_be_visible()
    await quiet.get_by_role("link", name="Older").click()
    await expect(page).to_have_url(re.compile("/console/timeline$"))
    await expect(page.get_by_text("Nothing in the last 30 minutes; the last was 01:12:07.")).to_be_visible()
    await expect(page.locator(ENTRIES)).to_have_count(2)
