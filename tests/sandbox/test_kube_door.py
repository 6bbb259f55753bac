"""The service's own door to Kubernetes, on the embedded API."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import Ambiguous, Conflict, NotFound, Temporary
from rebalancer.kube.reflector import Reflector, Trouble
from rebalancer.kube.resources import DEPLOYMENTS, OVERRIDES, PODS, Object, Ref, Resource
from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from rebalancer.sandbox.api.resources import PODS as STORED_PODS
from tests.sandbox.hand_clock import HandClock
from tests.sandbox.shapes import deployment, override, pod

LLAMA = Ref(DEPLOYMENTS, "chat", "llama")


class Mirror:
    """A sink that keeps the names it was told of, and wakes a test at each word."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.troubles: list[str] = []
        self.words = 0
        self._word = asyncio.Event()

    def relisted(self, _: Resource, items: Sequence[Object], resource_version: str, now: float) -> None:
        self.names = {item["metadata"]["name"] for item in items}
        self._word.set()

    def changed(self, _: Resource, obj: Object, now: float) -> None:
        self.names.add(obj["metadata"]["name"])
        self._word.set()

    def gone(self, _: Resource, obj: Object, now: float) -> None:
        self.names.discard(obj["metadata"]["name"])
        self._word.set()

    def alive(self, resource: Resource, now: float) -> None:
        self.words += 1
        self._word.set()

    def trouble(self, resource: Resource, reason: Trouble, now: float) -> None:
        self.troubles.append(reason.kind)
        self._word.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._word.clear()
                await self._word.wait()


@pytest.fixture
async def door(kubernetes: EmbeddedKubernetes, clock: HandClock) -> AsyncIterator[KubeClient]:
    access = Access(kubernetes.url, authorization="Bearer sandbox-rebalancer")
    async with KubeClient(access, clock, random.Random(7)) as opened, asyncio.timeout(20):
        yield opened


@pytest.fixture
async def mirror(door: KubeClient, clock: HandClock) -> AsyncIterator[Mirror]:
    sink = Mirror()
    following = asyncio.create_task(Reflector(door, PODS, sink, clock, random.Random(7)).run())
    yield sink
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_scale_goes_by_precondition(door: KubeClient, store: Store) -> None:
    store.put(deployment("llama", 3))
    version = (await door.get_scale(LLAMA))["metadata"]["resourceVersion"]
    await door.put_scale(LLAMA, 5, version)
    with pytest.raises(Conflict):
        await door.put_scale(LLAMA, 6, version)
    assert (await door.get(LLAMA))["spec"]["replicas"] == 5


async def test_status_is_patched_and_pages_are_joined(door: KubeClient, store: Store) -> None:
    for number in range(7):
        store.put(override(f"o{number}"))
    await door.patch_status(Ref(OVERRIDES, "chat", "o3"), {"status": {"phase": "InForce"}})
    listing = await door.list(OVERRIDES, limit=2)
    assert [item.get("status") for item in listing.items] == [None] * 3 + [{"phase": "InForce"}] + [None] * 3


async def test_an_eviction_asks_as_long_as_it_is_refused(
    door: KubeClient, store: Store, kubernetes: EmbeddedKubernetes
) -> None:
    uid = store.put(pod("llama-0", node="gpu-1"))["metadata"]["uid"]
    ref = Ref(PODS, "chat", "llama-0")
    kubernetes.verbs.refuse_eviction = lambda _pod: "one healthy pod is needed"
    with pytest.raises(Temporary):
        await door.evict(ref, uid)
    kubernetes.verbs.refuse_eviction = lambda _pod: None
    with pytest.raises(Conflict):
        await door.evict(ref, "another")
    await door.evict(ref, uid, grace_seconds=5)
    assert (await door.get(ref))["metadata"]["deletionGracePeriodSeconds"] == 5
    store.remove(STORED_PODS, "llama-0", "chat")
    with pytest.raises(NotFound):
        await door.evict(ref, uid)


async def test_a_write_without_an_answer_is_ambiguous(
    door: KubeClient, store: Store, kubernetes: EmbeddedKubernetes
) -> None:
    store.put(deployment("llama", 3))
    kubernetes.faults.lose_next_replies(1, method="PATCH")
    with pytest.raises(Ambiguous):
        await door.patch(LLAMA, {"spec": {"replicas": 5}})
    assert (await door.get(LLAMA))["spec"]["replicas"] == 5
    assert [(entry.user, entry.code) for entry in kubernetes.audit] == [("rebalancer", 200)]


async def test_a_reflector_follows_through_closed_watches_and_lost_history(
    mirror: Mirror, store: Store, kubernetes: EmbeddedKubernetes, clock: HandClock
) -> None:
    store.put(pod("a"))
    await mirror.until(lambda: mirror.names == {"a"})
    store.put(pod("b"))
    await mirror.until(lambda: mirror.names == {"a", "b"})
    spoken = mirror.words
    clock.advance(60)
    await mirror.until(lambda: mirror.words > spoken)
    kubernetes.faults.fail_next(1, 503, path_part="limit=")
    store.remove(STORED_PODS, "a", "chat")
    store.drop_history()
    kubernetes.close_watches()
    store.put(pod("c"))
    async with asyncio.timeout(10):
        while mirror.names != {"b", "c"}:
            clock.advance(1)
            await asyncio.sleep(0)
    assert mirror.troubles == ["gone", "unreachable"]
