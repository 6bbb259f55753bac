"""The store as the simulated cluster behind the API uses it, and the pure rules it applies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sandbox.api import Revision, Store
from rebalancer.sandbox.api.objects import merged
from rebalancer.sandbox.api.resources import DEPLOYMENTS, NODES, PODS
from tests.sandbox.hand_clock import HandClock
from tests.sandbox.shapes import deployment, pod


@pytest.fixture
def store(clock: HandClock) -> Store:
    return Store(clock)


def test_what_was_put_is_got_and_listed(store: Store) -> None:
    store.put(pod("b", model="llama"))
    store.put(pod("a", model="llama"))
    store.put(pod("c", namespace="batch", model="llama"))
    store.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}})
    assert store.get(PODS, "a", "chat") is not None
    assert store.get(PODS, "a", "batch") is None
    assert [p["metadata"]["name"] for p in store.list(PODS, labels={"model": "llama"})] == ["c", "a", "b"]
    assert [p["metadata"]["name"] for p in store.list(PODS, "chat")] == ["a", "b"]
    assert len(store.list(NODES)) == 1


def test_the_store_keeps_a_copy_of_what_was_put(store: Store) -> None:
    mine = pod("a")
    store.put(mine)
    mine["spec"]["containers"].clear()
    kept = store.get(PODS, "a", "chat")
    assert kept is not None
    assert len(kept["spec"]["containers"]) == 1


def test_a_second_put_keeps_identity_and_counts_the_generation(store: Store, clock: HandClock) -> None:
    first = store.put(deployment("llama", 3))["metadata"]
    clock.advance(100)
    second = store.put(deployment("llama", 4))["metadata"]
    assert (second["uid"], second["creationTimestamp"]) == (first["uid"], first["creationTimestamp"])
    assert (first["generation"], second["generation"]) == (1, 2)


def test_a_name_used_again_is_another_object(store: Store) -> None:
    first = store.put(pod("a"))["metadata"]["uid"]
    store.remove(PODS, "a", "chat")
    assert store.put(pod("a"))["metadata"]["uid"] != first


def test_the_same_changes_make_the_same_uids(clock: HandClock) -> None:
    uids = [Store(clock).put(pod("a"))["metadata"]["uid"] for _ in range(2)]
    assert uids[0] == uids[1]


@pytest.mark.parametrize(("namespace", "kind"), [("", "Pod"), ("chat", "Node")])
def test_an_object_in_the_wrong_scope_is_refused(store: Store, namespace: str, kind: str) -> None:
    metadata = {"name": "a"} | ({"namespace": namespace} if namespace else {})
    with pytest.raises(ValueError, match=f"{kind} 'a' .* namespace"):
        store.put({"apiVersion": "v1", "kind": kind, "metadata": metadata})


def test_subscribers_see_every_change_in_order_also_their_own(store: Store) -> None:
    seen: list[tuple[str, int]] = []

    def puppet(change: Revision) -> None:
        """Bring the status after the spec, as a controller does."""
        if change.resource == DEPLOYMENTS and change.kind != "DELETED":
            store.patch(DEPLOYMENTS, "llama", {"status": {"replicas": change.obj["spec"]["replicas"]}}, "chat")

    store.subscribe(puppet)
    unsubscribe = store.subscribe(lambda change: seen.append((change.kind, change.revision)))
    store.put(deployment("llama", 3) | {"status": {}})
    assert seen == [("ADDED", 2), ("MODIFIED", 3)]
    final = store.get(DEPLOYMENTS, "llama", "chat")
    assert final is not None
    assert final["status"] == {"replicas": 3}
    unsubscribe()
    store.remove(DEPLOYMENTS, "llama", "chat")
    assert len(seen) == 2


def test_a_change_shows_what_was_before(store: Store) -> None:
    changes: list[Revision] = []
    store.put(deployment("llama", 3))
    store.subscribe(changes.append)
    store.patch(DEPLOYMENTS, "llama", {"spec": {"replicas": 4}}, "chat")
    (change,) = changes
    assert change.previous is not None
    assert (change.previous["spec"]["replicas"], change.obj["spec"]["replicas"]) == (3, 4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_idempotent_and_leaves_no_null_it_brought(obj: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merged(obj, patch)
    assert merged(once, patch) == once
    assert all(once[key] is not None for key in patch if key in once)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_changes_neither_of_its_arguments(obj: dict[str, Any], patch: dict[str, Any]) -> None:
    before = repr((obj, patch))
    merged(obj, patch)
    assert repr((obj, patch)) == before
