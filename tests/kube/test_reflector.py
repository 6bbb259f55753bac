"""The reflector through every fault that the client library's watch was seen to fail under.

Numbers are issues of kubernetes_asyncio unless another project is named.
"""

import asyncio

import pytest
from aiohttp import web

from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.pace import WatchPace
from tests.kube.followers import View, following, least_gap, names, settle
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

pytestmark = pytest.mark.looptime


# --- when all is well


async def test_it_lists_then_tells_each_change_in_order(server: ApiServer, client: KubeClient) -> None:
    server.pods.put("a")
    view = View()
    async with following(client, view):
        await settle()
        assert names(view) == ["a"]
        server.pods.put("b")
        server.pods.put("b", phase="late")
        server.pods.delete("a")
        await settle(0.01)
        assert view.told == ["b@102", "b@103", "-a"]
        assert view.pods == server.pods.live
    assert len(server.watches) == 1
    assert view.troubles == []


async def test_issue_364_the_watch_asks_for_bookmarks_and_an_end(server: ApiServer, client: KubeClient) -> None:
    async with following(client, View()):
        await settle()
    query = server.watches[0].query
    assert query["allowWatchBookmarks"] == "true"
    assert query["resourceVersion"] == "100"
    assert 300 <= int(query["timeoutSeconds"]) <= 600


async def test_a_quiet_resource_is_alive_by_its_bookmarks(server: ApiServer, client: KubeClient) -> None:
    view = View()
    async with following(client, view):
        await settle(250)
    assert view.heard == [0, 60, 120, 180, 240]
    assert len(server.asked) == 2


async def test_a_quiet_resource_is_alive_as_soon_as_its_watch_is_taken_up_again(
    server: ApiServer, client: KubeClient
) -> None:
    server.on_watch.append(answers(429, message="storage is (re)initializing", retry_after="1"))
    view = View()
    async with following(client, view):
        await settle(10)
    assert view.kinds == ["unreachable"]
    assert len(view.heard) == 2
    assert view.heard[1] <= 5
    assert view.relists == 1


async def test_issue_291_and_kube_rs_1615_bookmarks_keep_a_quiet_watch_from_expiring(
    server: ApiServer, client: KubeClient
) -> None:
    view = View()
    async with following(client, view):
        server.pods.revision += 50  # other resources move on
        await settle(61)
        server.pods.forget()
        await settle(3600)
        server.pods.put("a")
        await settle()
    assert names(view) == ["a"]
    assert view.relists == 1
    assert view.troubles == []
    assert 6 <= len(server.watches) <= 13  # one each 5-10 min


async def test_it_follows_one_namespace(server: ApiServer, client: KubeClient) -> None:
    async with following(client, View(), namespace="serving"):
        await settle()
    assert {asked.path for asked in server.asked} == {"/api/v1/namespaces/serving/pods"}


# --- watches that end


async def test_issue_325_a_watch_closed_at_once_each_time_is_no_hot_loop(server: ApiServer, client: KubeClient) -> None:
    server.on_watch.extend([closes_at_once] * 1000)
    view = View()
    async with following(client, view):
        await settle(5)
        assert len(server.asked) <= 6  # the library: 8,277 in 5 s
        server.pods.put("a")
        await settle(30)
        assert names(view) == ["a"]  # seen by listing again, as no watch tells it
        await settle(600)
    assert len(server.asked) <= 65
    assert set(view.kinds) == {"unreachable"}


async def test_a_watch_ended_by_the_server_every_5_s_loses_nothing(server: ApiServer, client: KubeClient) -> None:
    async def ends_after_5_s(server: ApiServer, request: web.Request) -> web.StreamResponse:
        end = asyncio.get_running_loop().time() + 5
        return await server.watch_until(request, lambda _sent: asyncio.get_running_loop().time() >= end)

    server.on_watch.extend([ends_after_5_s] * 20)
    view = View()
    async with following(client, view):
        await settle(0.5)
        for number in range(60):
            server.pods.put(f"p{number}")
            await settle(1)
    assert view.pods == server.pods.live
    assert [told.split("@")[0] for told in view.told] == [f"p{number}" for number in range(60)]
    assert least_gap(server.watches) >= 1
    assert view.relists == 1
    assert len(server.watches) >= 10


async def test_issue_321_a_broken_watch_goes_on_from_the_last_revision(server: ApiServer, client: KubeClient) -> None:
    server.on_watch.extend([breaks_after(2), ends_after(1)])
    view = View()
    async with following(client, view):
        await settle(0.5)
        for number in range(6):
            server.pods.put(f"p{number}")
        await settle(10)
    assert [asked.query["resourceVersion"] for asked in server.watches] == ["100", "102", "103"]
    assert view.told == [f"p{number}@{101 + number}" for number in range(6)]  # each once
    assert view.relists == 1


async def test_an_event_cut_in_half_is_told_once_and_whole(server: ApiServer, client: KubeClient) -> None:
    server.on_watch.extend([ends_after(1), cuts_the_next_event, cuts_the_next_event])
    view = View()
    async with following(client, view):
        await settle(0.5)
        server.pods.put("a")
        server.pods.put("b")
        await settle(20)
    assert view.told == ["a@101", "b@102"]
    assert least_gap(server.watches) >= 1


@pytest.mark.parametrize("fault", [silent, hangs])
async def test_kopf_1267_a_half_open_watch_is_replaced_by_a_list_after_75_s(
    server: ApiServer, client: KubeClient, fault: Fault
) -> None:
    server.on_watch.append(fault)
    view = View()
    async with following(client, view):
        await settle(10)
        server.pods.put("a")
        await settle(64)
        assert names(view) == []
        await settle(2)
        assert names(view) == ["a"]
    assert view.kinds == ["silent"]
    assert "said nothing for 75 s" in view.troubles[0][1].message
    assert [round(at) for at in view.heard] == [0, 75]


async def test_a_resource_without_bookmarks_is_listed_each_75_s_and_watched_all_the_time(
    server: ApiServer, client: KubeClient
) -> None:
    server.bookmark_seconds = 10_000
    view = View()
    async with following(client, view):
        await settle(3600 - 5)
        assert 46 <= view.relists <= 48
        server.pods.put("a")
        await settle(0.01)
        assert names(view) == ["a"]
    assert least_gap(server.watches) == pytest.approx(75)


# --- 410


@pytest.mark.parametrize("fault", [expired, answers(410, "Expired"), garbles])
async def test_issues_136_327_an_expired_or_garbled_watch_lists_again(
    server: ApiServer, client: KubeClient, fault: Fault
) -> None:
    server.pods.put("a")
    server.on_watch.extend([fault, fault])
    view = View()
    async with following(client, view):
        await settle(0.2)
        server.pods.delete("a")
        server.pods.put("b")
        await settle(10)
        assert names(view) == ["b"]
        assert view.relists == 3
    assert view.kinds == ["gone", "gone"]
    assert least_gap(server.watches) >= 0.5


async def test_issue_136_410_for_ever_is_no_hot_loop(server: ApiServer, client: KubeClient) -> None:
    server.on_watch.extend([expired] * 1000)
    view = View()
    async with following(client, view):
        await settle(600)
        server.pods.put("a")
        await settle(31)
        assert names(view) == ["a"]
    assert len(server.asked) <= 2 * 60


async def test_a_watch_from_a_forgotten_revision_recovers(server: ApiServer, client: KubeClient) -> None:
    server.on_watch.append(ends_after(0))
    view = View()
    async with following(client, view):
        await settle(0.1)
        server.pods.put("a")
        server.pods.delete("a")
        server.pods.put("b")
        server.pods.forget()
        await settle(5)
    assert names(view) == ["b"]
    assert view.kinds == ["unreachable", "gone"]


# --- refusals


@pytest.mark.parametrize("which", ["list", "watch"])
@pytest.mark.parametrize("fault", [html_502, html_200, empty_200, resets, answers(500)])
async def test_a_passing_fault_is_told_and_survived(
    server: ApiServer, client: KubeClient, which: str, fault: Fault
) -> None:
    server.pods.put("a")
    (server.on_list if which == "list" else server.on_watch).extend([fault] * 2)
    view = View()
    async with following(client, view):
        server.pods.put("b")
        await settle(20)
        assert view.pods == server.pods.live
    assert len(view.troubles) == 2
    assert all(isinstance(pod, dict) for pod in view.pods.values())


@pytest.mark.parametrize("fault", [html_502, html_200, empty_200])
async def test_a_faulty_list_never_empties_the_view(server: ApiServer, client: KubeClient, fault: Fault) -> None:
    server.pods.put("a")
    view = View()
    async with following(client, view, pace=WatchPace(resync_seconds=60)):
        await settle()
        server.on_list.extend([fault] * 5)
        await settle(90)
        assert names(view) == ["a"]
    assert len(view.troubles) >= 3


async def test_html_instead_of_every_answer_is_no_hot_loop(server: ApiServer, client: KubeClient) -> None:
    server.on_list.extend([html_502] * 1000)
    async with following(client, View()):
        await settle(5)
        assert len(server.asked) <= 5  # the library: 7,612 in 5 s
        await settle(3600)
    assert len(server.asked) <= 5 + 3600 / 15
    assert least_gap(server.asked) >= 1


async def test_old_failures_do_not_slow_down_the_next_recovery(server: ApiServer, client: KubeClient) -> None:
    server.on_list.extend([html_502] * 8)
    view = View()
    async with following(client, view):
        server.on_watch.append(ends_after(1))
        await settle(240)
        server.on_watch.append(resets)
        server.pods.put("a")  # ends the watch; the next one is reset
        await settle(0.1)
        server.pods.put("b")
        await settle(2)
        assert names(view) == ["a", "b"]
    assert view.relists == 1


async def test_retry_after_is_honoured(server: ApiServer, client: KubeClient) -> None:
    server.on_list.append(answers(429, retry_after="7"))
    server.on_watch.append(answers(429, retry_after="9"))
    async with following(client, View()):
        await settle(20)
    at = [asked.at - server.asked[0].at for asked in server.asked]
    assert at == [0, pytest.approx(7), pytest.approx(7), pytest.approx(16)]


@pytest.mark.parametrize(("code", "kind"), [(401, "unauthorized"), (403, "forbidden")])
@pytest.mark.parametrize("which", ["list", "watch"])
async def test_missing_rights_are_told_and_tried_until_they_are_there(
    server: ApiServer, client: KubeClient, code: int, kind: str, which: str
) -> None:
    (server.on_list if which == "list" else server.on_watch).extend([answers(code)] * 6)
    server.pods.put("a")
    view = View()
    async with following(client, view):
        await settle(100)
        assert names(view) == ["a"]
        assert view.kinds == [kind] * 6
        server.pods.put("b")
        await settle(1)
        assert names(view) == ["a", "b"]


async def test_a_resource_that_is_not_installed_is_absent_and_looked_for_each_30_s(
    server: ApiServer, client: KubeClient
) -> None:
    server.on_list.extend([not_installed] * 4)
    server.pods.put("a")
    view = View()
    async with following(client, view):
        await settle(95)
        assert view.kinds == ["absent"] * 4
        assert view.relists == 0
        await settle(30)
        assert names(view) == ["a"]
    gaps = [b.at - a.at for a, b in zip(server.asked, server.asked[1:4], strict=False)]
    assert gaps == [pytest.approx(30)] * 3


async def test_a_crd_removed_and_installed_again_is_followed_again(server: ApiServer, client: KubeClient) -> None:
    server.pods.put("a")
    server.on_watch.append(ends_after(1))
    view = View()
    async with following(client, view):
        await settle(1)
        server.on_watch.append(not_installed)
        server.on_list.append(not_installed)
        server.pods.delete("a")
        await settle(3)
        assert view.kinds == ["absent"]
        server.pods.put("b")
        await settle(65)
        assert names(view) == ["b"]
    assert view.kinds == ["absent", "absent"]


async def test_an_api_server_away_for_30_minutes_is_found_again() -> None:
    view = View()
    async with ApiServer() as server:
        port = int(server.url.rsplit(":", 1)[1])
    async with a_client(Access(f"http://127.0.0.1:{port}")) as client, following(client, view):
        await settle(1800)
        assert set(view.kinds) == {"unreachable"}
        assert 1800 / 30 <= len(view.troubles) <= 1800 / 15 + 10
        async with ApiServer(port=port) as server:
            server.pods.put("a")
            await settle(31)
            assert names(view) == ["a"]
