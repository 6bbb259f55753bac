"""Wrong bytes inside a body, and events out of order, as the door before the API server makes them; what watches do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.pace import WatchPace
from tests.faults import door
from tests.faults.door import Door
from tests.kube.followers import View, following, names, settle
from tests.kube.server import ApiServer, a_client
from tests.testbed import place

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def _through() -> AsyncIterator[tuple[ApiServer, Door, KubeClient]]:
    async with (
        ApiServer() as server,
        Door.before(place.Access(server.url, ca="", token="")) as link,
        a_client(Access(link.url)) as client,
    ):
        yield server, link, client


async def test_a_list_with_a_wrong_byte_empties_no_view_and_the_next_whole_one_counts() -> None:
    async with _through() as (server, link, client):
        server.pods.put("a")
        view = View()
        async with link.meddling(pieces=door.spoiled), following(client, view):
            await settle(10)
            assert (view.relists, view.pods, {*view.kinds}) == (0, {}, {"unreachable"})
            link.heal()
            await settle(30)
            assert names(view) == ["a"]


async def test_an_event_with_a_wrong_byte_is_told_as_unreadable_and_the_next_list_counts() -> None:
    async with _through() as (server, link, client):
        view = View()
        async with following(client, view, pace=WatchPace(resync_seconds=60.0)):
            await settle()
            async with link.meddling(pieces=door.spoiled):
                server.pods.put("a")
                await settle(0.2)
            assert (view.told, view.kinds) == ([], ["malformed"])
            await settle(65)
            assert names(view) == ["a"]
            assert view.relists == 2


async def test_an_older_event_behind_a_newer_one_is_not_believed_and_lists_again() -> None:
    async with _through() as (server, link, client):
        view = View()
        async with following(client, view), link.meddling(pieces=door.reordered()):
            await settle()
            server.pods.put("a", phase="early")
            await settle(0.2)
            server.pods.put("a", phase="late")
            await settle(0.2)
            assert view.told == ["a@101", "a@102"]
            await settle(10)
            assert view.pods == server.pods.live
            assert view.relists == 2
        assert view.kinds == ["gone"]
