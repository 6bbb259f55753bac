"""Whatever faults come in whatever order, the view ends as the truth and nobody is hammered."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.kube.pace import WatchPace
from tests.kube.followers import View, following, least_gap
from tests.kube.server import (
    ApiServer,
    Fault,
    a_client,
    answers,
    breaks_after,
    closes_at_once,
    cuts_the_next_event,
    empty_200,
    ends_after,
    expired,
    garbles,
    hangs,
    html_200,
    html_502,
    not_installed,
    resets,
    silent,
)

ON_LIST: dict[str, Fault] = {
    "html 502": html_502,
    "html 200": html_200,
    "empty": empty_200,
    "reset": resets,
    "hang": hangs,
    "401": answers(401),
    "403": answers(403),
    "not installed": not_installed,
    "410": answers(410, "Expired"),
    "429": answers(429, retry_after="3"),
    "500": answers(500),
}
ON_WATCH: dict[str, Fault] = {
    **ON_LIST,
    "closed at once": closes_at_once,
    "silent": silent,
    "expired": expired,
    "garbled": garbles,
    "cut": cuts_the_next_event,
    "ends after 1": ends_after(1),
    "breaks after 1": breaks_after(1),
    "ends after 3": ends_after(3),
    "breaks after 2": breaks_after(2),
}

STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abcd")),
    st.tuples(st.just("put"), st.sampled_from("abcd")),
    st.tuples(st.just("delete"), st.sampled_from("abcd")),
    st.tuples(st.just("wait"), st.sampled_from(["0.3", "2", "20"])),
    st.tuples(st.just("forget"), st.just("")),
    st.tuples(st.just("watch"), st.sampled_from(sorted(ON_WATCH))),
    st.tuples(st.just("list"), st.sampled_from(sorted(ON_LIST))),
)


async def do(server: ApiServer, step: tuple[str, str]) -> None:
    match step:
        case "put", name:
            server.pods.put(name)
        case "delete", name if name in server.pods.live:
            server.pods.delete(name)
        case "wait", seconds:
            await asyncio.sleep(float(seconds))
        case "forget", _:
            server.pods.forget()
        case "watch", fault:
            server.on_watch.append(ON_WATCH[fault])
        case "list", fault:
            server.on_list.append(ON_LIST[fault])


@pytest.mark.looptime
@given(st.lists(STEPS, max_size=25), st.integers(0, 9))
async def test_the_view_ends_as_the_truth_and_requests_stay_rare(steps: list[tuple[str, str]], seed: int) -> None:
    view = View()
    async with ApiServer() as server, a_client(server.access) as client:
        server.page_size = 2
        async with following(client, view, seed, pace=WatchPace(resync_seconds=None)):
            start = asyncio.get_running_loop().time()
            for step in steps:
                await do(server, step)
            server.on_list.clear()
            server.on_watch.clear()
            # The worst that may be under way: a silent watch (75 s), then a wait (30 s), then a list.
            await asyncio.sleep(120)
            server.pods.put("last")
            await asyncio.sleep(1)
            assert view.pods == server.pods.live
            elapsed = asyncio.get_running_loop().time() - start
        lists = [asked for asked in server.asked if not asked.is_watch and "continue" not in asked.query]
        assert least_gap(server.watches) >= 0.5 - 1e-6
        assert len(server.watches) <= elapsed + 2
        restarts = steps.count(("list", "410"))  # of a list whose page token expired, at once
        assert len(lists) <= elapsed + 2 + restarts
