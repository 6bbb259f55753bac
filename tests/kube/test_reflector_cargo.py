"""What a reflector carries: large events, malformed objects, a sink that fails, and its own end."""

import asyncio

import msgspec
import pytest

from rebalancer.kube.client import KubeClient
from rebalancer.kube.pace import WatchPace
from rebalancer.kube.resources import Object, Resource
from tests.kube.followers import View, following, names, settle
from tests.kube.server import (
    ApiServer,
    silent,
)

pytestmark = pytest.mark.looptime


async def test_issue_192_an_event_of_5_mib_is_told_whole(server: ApiServer, client: KubeClient) -> None:
    view = View()
    async with following(client, view):
        await settle()
        server.pods.put("big", note="x" * 5 * 2**20)
        server.pods.put("small")
        await settle()
    assert view.pods == server.pods.live
    assert view.troubles == []


async def test_an_event_lost_without_a_trace_is_found_by_the_resync(server: ApiServer, client: KubeClient) -> None:
    view = View()
    async with following(client, view, pace=WatchPace(resync_seconds=300)):
        await settle()
        server.pods.put("a")
        server.pods.history.clear()  # nobody will ever send it
        await settle(290)
        assert names(view) == []
        await settle(70)
        assert names(view) == ["a"]
    assert view.troubles == []


class Meta(msgspec.Struct):
    name: str
    labels: dict[str, int]


class Pod(msgspec.Struct):
    """Fits only pods whose labels are numbers."""

    metadata: Meta


class TypedView(View):
    """Takes `Pod` values."""

    def relisted(self, resource: Resource, items: object, version: str, now: float) -> None:
        super().relisted(resource, msgspec.to_builtins(items), version, now)

    def changed(self, resource: Resource, obj: object, now: float) -> None:
        assert isinstance(obj, Pod)
        self.pods[obj.metadata.name] = msgspec.to_builtins(obj)


async def test_a_malformed_object_is_told_and_loses_no_neighbour(server: ApiServer, client: KubeClient) -> None:
    server.pods.put("good")
    view = TypedView()
    async with following(client, view, into=Pod):
        await settle()
        server.pods.put("bad", size="not a number")
        server.pods.put("late")
        await settle(5)
        assert names(view) == ["good", "late"]
        assert view.kinds == ["malformed"]
        assert view.relists == 1, "a watch goes on past an object that nobody can read"
        assert "serving/bad" in view.troubles[-1][1].message
        assert view.troubles[-1][1].objects == ()
        server.pods.put("later")
        await settle(1)
        assert names(view) == ["good", "late", "later"]


async def test_a_sink_that_fails_is_told_so_and_gets_the_whole_truth_again(
    server: ApiServer, client: KubeClient
) -> None:
    class Stumbles(View):
        def changed(self, resource: Resource, obj: Object, now: float) -> None:
            if obj["metadata"]["name"] == "b" and self.relists == 1:
                raise LookupError("no such model")
            super().changed(resource, obj, now)

    view = Stumbles()
    async with following(client, view):
        await settle()
        for name in ("a", "b", "c"):
            server.pods.put(name)
        await settle(5)
        assert view.pods == server.pods.live
    assert [str(reason) for _at, reason in view.troubles] == ["rejected: LookupError: no such model"]


async def test_issue_330_cancelling_ends_it_in_the_middle_of_a_silent_watch(
    server: ApiServer, client: KubeClient
) -> None:
    server.on_watch.append(silent)
    before = asyncio.get_running_loop().time()
    async with following(client, View()):
        await settle(3)
    assert asyncio.get_running_loop().time() - before == pytest.approx(3)
