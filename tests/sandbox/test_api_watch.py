"""Watches of the embedded API: order, bookmarks, selectors, expired revisions, the end."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from kubernetes_asyncio.client import ApiException
from kubernetes_asyncio.watch import Watch

from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from rebalancer.sandbox.api.resources import PODS
from tests.sandbox.generated import Generated
from tests.sandbox.hand_clock import HandClock
from tests.sandbox.shapes import deployment, pod

Event = dict[str, Any]


@asynccontextmanager
async def watching(kubernetes: EmbeddedKubernetes, **query: str) -> AsyncIterator[Callable[[], Any]]:
    """A watch of the pods as a client sees it; calling what is yielded awaits the next event, None at the end."""
    async with (
        aiohttp.ClientSession() as session,
        asyncio.timeout(10),
        session.get(f"{kubernetes.url}/api/v1/pods", params={"watch": "true", **query}) as response,
    ):

        async def following() -> Event | None:
            line = await response.content.readline()
            return msgspec.json.decode(line) if line else None

        yield following


async def test_the_real_client_lists_then_follows(core: Generated, store: Store) -> None:
    store.put(pod("old"))
    listed = await core.list_namespaced_pod("chat")
    seen = []
    async with Watch() as watch:
        events = watch.stream(
            core.list_namespaced_pod,
            "chat",
            resource_version=listed.metadata.resource_version,
            allow_watch_bookmarks=True,
            timeout_seconds=30,
        )
        store.put(pod("new"))
        async for event in events:
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 1:
                store.patch(PODS, "new", {"status": {"phase": "Running"}}, "chat")
            elif len(seen) == 2:
                store.put(deployment("of no interest", 1))
                store.put(pod("elsewhere", namespace="batch"))
                store.remove(PODS, "new", "chat")
            else:
                break
    assert seen == [("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "new")]


async def test_without_a_revision_everything_comes_first(kubernetes: EmbeddedKubernetes, store: Store) -> None:
    store.put(pod("b"))
    store.put(pod("a"))
    async with watching(kubernetes) as following:
        assert [(await following())["object"]["metadata"]["name"] for _ in range(2)] == ["a", "b"]
        store.put(pod("c"))
        event = await following()
        assert (event["type"], event["object"]["kind"]) == ("ADDED", "Pod")


async def test_a_streamed_list_ends_with_a_marked_bookmark(kubernetes: EmbeddedKubernetes, store: Store) -> None:
    store.put(pod("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with watching(kubernetes, **query) as following:
        assert (await following())["type"] == "ADDED"
        bookmark = await following()
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_quiet_watch_gets_a_bookmark_each_minute_at_the_newest_revision(
    kubernetes: EmbeddedKubernetes, store: Store, clock: HandClock
) -> None:
    store.put(pod("a"))
    async with watching(kubernetes, allowWatchBookmarks="true", resourceVersion=str(store.revision)) as following:
        store.put(deployment("llama", 1))
        for _ in range(2):
            clock.advance(60)
            bookmark = await following()
            assert bookmark["type"] == "BOOKMARK"
            assert bookmark["object"]["metadata"] == {"resourceVersion": str(store.revision)}


async def test_no_bookmark_comes_unasked(kubernetes: EmbeddedKubernetes, store: Store, clock: HandClock) -> None:
    async with watching(kubernetes, resourceVersion=str(store.revision), timeoutSeconds="90") as following:
        clock.advance(61)
        clock.advance(30)
        assert await following() is None


async def test_a_watch_ends_at_its_time_with_a_last_bookmark(
    kubernetes: EmbeddedKubernetes, store: Store, clock: HandClock
) -> None:
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": "20", "resourceVersion": str(store.revision)}
    async with watching(kubernetes, **query) as following:
        clock.advance(20)
        assert (await following())["type"] == "BOOKMARK"
        assert await following() is None


async def test_an_old_revision_is_told_410_in_the_stream(core: Generated, store: Store) -> None:
    old = str(store.revision)
    store.put(pod("a"))
    store.drop_history()
    async with Watch() as watch:
        events = watch.stream(core.list_namespaced_pod, "chat", resource_version=old)
        with pytest.raises(ApiException, match="too old resource version") as caught:
            await anext(events)
    assert caught.value.status == 410


async def test_history_is_bounded(clock: HandClock) -> None:
    store = Store(clock, history=10)
    async with EmbeddedKubernetes(clock, store) as kubernetes:
        old = str(store.put(pod("a"))["metadata"]["resourceVersion"])
        for number in range(40):
            store.patch(PODS, "a", {"metadata": {"labels": {"n": str(number)}}}, "chat")
        recent = str(store.revision - 5)
        async with watching(kubernetes, resourceVersion=old) as following:
            assert (await following())["object"]["code"] == 410
            assert await following() is None
        async with watching(kubernetes, resourceVersion=recent) as following:
            assert (await following())["object"]["metadata"]["labels"]["n"] == "35"


async def test_an_open_watch_that_has_seen_all_survives_lost_history(
    kubernetes: EmbeddedKubernetes, store: Store
) -> None:
    async with watching(kubernetes, resourceVersion=str(store.revision)) as following:
        store.put(pod("a"))
        assert (await following())["type"] == "ADDED"
        store.drop_history()
        store.put(pod("b"))
        assert (await following())["object"]["metadata"]["name"] == "b"


async def test_a_revision_from_another_life_is_refused(kubernetes: EmbeddedKubernetes, store: Store) -> None:
    async with watching(kubernetes, resourceVersion=str(store.revision + 1)) as following:
        assert (await following())["code"] == 504


async def test_an_object_that_leaves_the_selection_is_deleted_for_that_watch(
    kubernetes: EmbeddedKubernetes, store: Store
) -> None:
    store.put(pod("a", model="llama"))
    query = {"labelSelector": "model=llama", "resourceVersion": str(store.revision)}
    async with watching(kubernetes, **query) as following:
        for model, wanted in (("qwen", "DELETED"), ("phi", None), ("llama", "ADDED"), ("llama", None)):
            store.patch(PODS, "a", {"metadata": {"labels": {"model": model}}}, "chat")
            if wanted:
                assert (await following())["type"] == wanted


async def test_an_event_reaches_the_client_within_milliseconds(kubernetes: EmbeddedKubernetes, store: Store) -> None:
    best = float("inf")
    async with watching(kubernetes, resourceVersion=str(store.revision)) as following:
        for number in range(20):
            start = time.perf_counter()
            store.put(pod(f"p{number}"))
            await following()
            best = min(best, time.perf_counter() - start)
    assert best < 0.005


async def test_a_client_that_leaves_leaves_nothing_behind(kubernetes: EmbeddedKubernetes, store: Store) -> None:
    async with watching(kubernetes) as following:
        store.put(pod("a"))
        await following()
        assert kubernetes.open_watches == 1
    async with asyncio.timeout(5):
        while kubernetes.open_watches:
            await asyncio.sleep(0)


async def test_a_watcher_that_has_gone_is_no_error_of_the_server(
    kubernetes: EmbeddedKubernetes, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """`make demo` prints what is logged: a process that is killed leaves its watches."""
    async with watching(kubernetes) as following:
        store.put(pod("old"))
        await following()
    for number in range(50):  # written before the server has heard that the connection is lost
        store.put(pod(f"new-{number}"))
        await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == []
