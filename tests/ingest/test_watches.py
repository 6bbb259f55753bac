"""All Kubernetes sources followed on an API that answers, told to one sink as events."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from rebalancer.domain.cluster import SOURCES, Pod, Workload
from rebalancer.domain.events import Event, ObjectChanged, ObjectGone, ObjectsListed, SourceState
from rebalancer.domain.node_groups import AutoscalerStatus
from rebalancer.domain.people import Override
from rebalancer.domain.target_spec import TargetSpec
from rebalancer.ingest.watches import RESOURCES, SourceSink, Watches
from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.reflector import Trouble
from rebalancer.kube.resources import NODES
from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from rebalancer.sandbox.api.resources import NODEPOOLS, OVERRIDES, PODS, STATEFULSETS
from rebalancer.sandbox.api.resources import RESOURCES as SERVED
from rebalancer.state import ClusterState
from tests.builders import a_model, a_policy, a_pool
from tests.ingest import node_groups, quota_manifests
from tests.ingest.manifests import (
    deployment,
    hpa,
    node,
    node_claim,
    node_pool,
    override,
    pod,
    pod_autoscaler,
    scaled_object,
    write_stop,
)
from tests.kafka.waiting import SkippingClock, until


class Told:
    """What the sink heard."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, events: list[Event]) -> None:
        self.events += events

    def listed(self, source: str) -> list[ObjectsListed]:
        return [one for one in self.events if isinstance(one, ObjectsListed) and one.source == source]

    def changed(self, source: str) -> list[ObjectChanged]:
        return [one for one in self.events if isinstance(one, ObjectChanged) and one.source == source]

    def states(self, source: str) -> list[SourceState]:
        return [one for one in self.events if isinstance(one, SourceState) and one.source == source]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def clock() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
async def kubernetes(clock: SkippingClock) -> AsyncIterator[EmbeddedKubernetes]:
    async with EmbeddedKubernetes(clock) as server:
        yield server


@pytest.fixture
def store(kubernetes: EmbeddedKubernetes) -> Store:
    return kubernetes.store


@pytest.fixture
async def watches(kubernetes: EmbeddedKubernetes, clock: SkippingClock, told: Told) -> AsyncIterator[Watches]:
    access = Access(kubernetes.url, authorization="Bearer sandbox-rebalancer")
    async with KubeClient(access, clock, random.Random(1)) as client:
        opened = Watches(client, clock, random.Random(2), told)
        running = asyncio.create_task(opened.run())
        yield opened
        assert not running.done()
        running.cancel()
        await asyncio.wait({running})


async def all_listed(told: Told) -> None:
    await until(lambda: all(told.listed(source) for source in SOURCES))


async def test_every_source_is_listed_with_its_objects_and_then_followed(
    store: Store, watches: Watches, told: Told
) -> None:
    for obj in (
        node(),
        pod(),
        deployment(),
        hpa(),
        scaled_object(),
        pod_autoscaler(),
        node_pool(),
        node_claim(),
        override(),
        write_stop(),
        *(make() for make in quota_manifests.ALL.values()),
    ):
        store.put(obj)
    await all_listed(told)
    await until(lambda: all(told.listed(one)[-1].objects or told.changed(one) for one in SOURCES))
    assert set(RESOURCES) == set(SOURCES)
    store.patch(PODS, "llama-7d9f8b6c5d-x1", {"spec": {"nodeName": "n2"}}, "serving")
    await until(lambda: told.changed("pods"))
    moved = told.changed("pods")[-1].object
    assert isinstance(moved, Pod)
    assert (moved.node, moved.gpus) == ("n2", {"nvidia.com/gpu": 1})
    store.remove(PODS, "llama-7d9f8b6c5d-x1", "serving")
    await until(lambda: any(isinstance(one, ObjectGone) and one.source == "pods" for one in told.events))
    assert watches.counts == {}


async def test_the_kinds_of_targets_that_a_policy_names_are_followed_until_it_names_them_no_more(
    store: Store, watches: Watches, told: Told
) -> None:
    store.put(deployment() | {"kind": "StatefulSet"})
    watches.follow(a_policy(a_model("llama", kind="StatefulSet")))
    await until(lambda: told.listed("statefulsets"))
    (found,) = told.listed("statefulsets")[-1].objects
    assert isinstance(found, Workload)
    assert (found.ref.kind, found.replicas) == ("StatefulSet", 3)
    store.patch(STATEFULSETS, "llama", {"spec": {"replicas": 4}}, "serving")
    await until(lambda: told.changed("statefulsets"))
    watches.follow(a_policy(a_model("llama")))
    assert "statefulsets" not in watches.sources
    told.events.clear()
    store.patch(STATEFULSETS, "llama", {"spec": {"replicas": 5}}, "serving")
    store.put(node())
    await until(lambda: told.changed("nodes"))
    assert not told.changed("statefulsets")


async def test_of_config_maps_the_status_of_cluster_autoscaler_alone_is_asked_for_and_only_where_a_pool_names_groups(
    store: Store, watches: Watches, told: Told
) -> None:
    other = node_groups.status("a secret of somebody else's")
    store.put(node_groups.status())
    store.put(other | {"metadata": other["metadata"] | {"name": "coredns"}})
    grown = a_policy(a_model("llama"), pools=(a_pool(node_groups=("aks-gpu1-*-vmss",)),))
    watches.follow(grown)
    await until(lambda: told.listed("autoscalerstatus"))
    (found,) = told.listed("autoscalerstatus")[-1].objects
    assert isinstance(found, AutoscalerStatus)
    assert [group.target for group in found.groups] == [3, 1, 2]
    store.put(other | {"metadata": other["metadata"] | {"name": "kubeadm"}})
    store.put(node_groups.status(node_groups.STATUS.replace("cloudProviderTarget: 3", "cloudProviderTarget: 5")))
    await until(lambda: told.changed("autoscalerstatus"))
    (now,) = (one.object for one in told.changed("autoscalerstatus"))
    assert isinstance(now, AutoscalerStatus)
    assert [group.target for group in now.groups] == [5, 1, 2]
    assert watches.sources["autoscalerstatus"].counts == {}
    watches.follow(a_policy(a_model("llama")))
    assert "autoscalerstatus" not in watches.sources


async def test_a_kind_that_the_cluster_does_not_have_is_absent_and_is_looked_for_again(
    watches: Watches, told: Told, clock: SkippingClock
) -> None:
    watches.follow(a_policy(a_model("llama", kind="LeaderWorkerSet")))
    await until(lambda: told.states("leaderworkersets"))
    clock.skipped += 31.0
    await until(lambda: len(told.states("leaderworkersets")) > 1)
    assert {state.absent for state in told.states("leaderworkersets")} == {True}


async def test_an_object_that_cannot_be_used_costs_no_neighbour_and_is_told(
    store: Store, told: Told, watches: Watches
) -> None:
    store.put(override() | {"metadata": {"name": "good", "namespace": "serving"}})
    store.put(override(target={}) | {"metadata": {"name": "bad", "namespace": "serving"}})
    store.put(override(value="three") | {"metadata": {"name": "malformed", "namespace": "serving"}})
    await until(lambda: watches.sources["overrides"].counts["unusable"] >= 2)
    await until(lambda: told.listed("overrides"))
    found = [one for one in told.listed("overrides")[-1].objects if isinstance(one, Override)]
    assert [one.name for one in found] == ["good"]
    assert all(state.trouble is None for state in told.states("overrides"))
    assert any("serving/bad" in what for what in watches.sources["overrides"].unusable)


async def test_an_object_that_becomes_unusable_keeps_its_last_good_state(
    store: Store, told: Told, watches: Watches
) -> None:
    await all_listed(told)
    store.put(override())
    await until(lambda: told.changed("overrides"))
    store.put(override(target={}))
    await until(lambda: watches.sources["overrides"].counts["unusable"])
    assert len(told.changed("overrides")) == 1
    assert not any(isinstance(one, ObjectGone) for one in told.events)


async def test_a_source_that_fails_says_so_and_that_it_is_back(
    kubernetes: EmbeddedKubernetes, told: Told, watches: Watches, clock: SkippingClock
) -> None:
    await all_listed(told)
    kubernetes.faults.fail_next(2, 503, path_part="/nodes")
    kubernetes.close_watches()
    await until(lambda: any(state.trouble for state in told.states("nodes")))
    await until(lambda: skip(clock) and told.states("nodes")[-1].trouble is None)
    assert watches.sources["nodes"].counts["troubles"] >= 1


def test_a_quiet_watch_warns_nobody_and_one_that_cannot_be_listed_either_warns_once() -> None:
    sink = SourceSink("nodes", lambda _events: None)
    with capture_logs() as logs:
        sink.trouble(NODES, Trouble("silent", "nothing for 75 s"), 75.0)
        sink.relisted(NODES, (), "1", 75.1)
        assert logs == []
        sink.trouble(NODES, Trouble("silent", "nothing for 75 s"), 150.0)
        for at in (150.1, 151.0, 153.0):
            sink.trouble(NODES, Trouble("unreachable", "not connected"), at)
        sink.relisted(NODES, (), "2", 160.0)
    assert [(each["log_level"], each["trouble"]) for each in logs] == [
        ("warning", "unreachable: not connected"),
        ("info", None),
    ]


def skip(clock: SkippingClock) -> bool:
    clock.skipped += 1
    return True


async def test_an_api_that_the_cluster_does_not_have_is_absent_and_no_trouble(clock: SkippingClock, told: Told) -> None:
    without = [one for one in SERVED if one is not NODEPOOLS]
    async with EmbeddedKubernetes(clock, Store(clock, without)) as server:
        access = Access(server.url, authorization="Bearer sandbox-rebalancer")
        async with KubeClient(access, clock, random.Random(1)) as client:
            running = asyncio.create_task(Watches(client, clock, random.Random(2), told).run())
            await until(
                lambda: told.states("nodepools") and all(told.listed(one) for one in {*SOURCES} - {"nodepools"})
            )
            running.cancel()
            await asyncio.wait({running})
    assert {(one.absent, one.trouble) for one in told.states("nodepools")} == {(True, None)}
    assert not told.listed("nodepools")


async def test_a_busy_watch_does_not_say_that_it_is_alive_each_time(store: Store, told: Told, watches: Watches) -> None:
    await all_listed(told)
    before = len(told.states("pods"))
    for number in range(200):
        store.put(pod() | {"metadata": {"name": f"p{number}", "namespace": "serving"}})
        await asyncio.sleep(0)
    await until(lambda: len(told.changed("pods")) == 200)
    assert len(told.states("pods")) - before <= 2


async def test_an_object_that_is_unusable_in_a_new_list_keeps_its_last_good_state_alone(
    kubernetes: EmbeddedKubernetes, store: Store, told: Told, watches: Watches
) -> None:
    for name in ("first", "second", "third"):
        store.put(override() | {"metadata": {"name": name, "namespace": "serving"}})
    await until(lambda: any(len(one.objects) == 3 for one in told.listed("overrides")) or told.changed("overrides"))
    store.put(override(target={}) | {"metadata": {"name": "first", "namespace": "serving"}})
    store.put(override(value="three") | {"metadata": {"name": "second", "namespace": "serving"}})
    await until(lambda: watches.sources["overrides"].counts["unusable"] >= 2)
    before = len(told.listed("overrides"))
    kubernetes.faults.fail_next(1, 410, path_part="/overrides")
    kubernetes.close_watches()
    await until(lambda: len(told.listed("overrides")) > before)
    listed = told.listed("overrides")[-1]
    assert [one.name for one in listed.objects if isinstance(one, Override)] == ["third"]
    assert listed.unreadable == ("serving/first", "serving/second")


async def test_nodes_and_pods_that_nobody_can_read_keep_what_was_known_and_are_there_where_nothing_was(
    kubernetes: EmbeddedKubernetes, store: Store, told: Told, watches: Watches, clock: SkippingClock
) -> None:
    """By a first list, a watch, and a new list; wrong by a value or by the shape."""
    wrong: tuple[dict[str, object], ...] = {"allocatable": {"nvidia.com/gpu": "eight"}}, {"allocatable": []}
    store.put(deployment())
    for name in ("good", "turns"):
        store.put(node(name=name))
    store.put(node(status=wrong[0], name="never-1"))
    store.put(node(status=wrong[1], name="never-2"))
    for place, name in enumerate(("good", "turns", "never-1", "never-2", "late-1", "late-2", "nowhere")):
        store.put(pod(spec={"nodeName": name}, name=f"llama-7d9f8b6c5d-{place}", uid=f"uid-{place}"))
    await all_listed(told)
    store.put(node(status=wrong[0], name="late-1"))
    store.put(node(status=wrong[1], name="late-2"))
    store.put(node(status=wrong[0], name="turns"))
    await until(lambda: watches.sources["nodes"].counts["unusable"] >= 5)
    assert phases(told, clock.now()) == ["ready"] * 6 + ["lost"]
    assert told.listed("nodes")[0].unreadable == ("never-1", "never-2")
    before = len(told.listed("nodes"))
    kubernetes.faults.fail_next(1, 410, path_part="/nodes")
    kubernetes.close_watches()
    await until(lambda: len(told.listed("nodes")) > before)
    assert told.listed("nodes")[-1].unreadable == ("late-1", "late-2", "never-1", "never-2", "turns")
    assert phases(told, clock.now()) == ["ready"] * 6 + ["lost"]
    store.put(pod(spec={"nodeName": []}, name="llama-7d9f8b6c5d-0", uid="uid-0"))
    await until(lambda: watches.sources["pods"].counts["unusable"])
    assert phases(told, clock.now()) == ["ready"] * 6 + ["lost"]


def phases(told: Told, now: float) -> list[str]:
    """What the state makes of the pods of `llama`, by name."""
    targets = (TargetSpec(pool="a100", name="llama"),)
    state = ClusterState(a_policy(a_model("llama", 1, targets=targets)), started_at=now - 600.0)
    state.apply_all(told.events, now)
    (model,) = state.peek(now).models
    return [pod.phase for pod in sorted(model.targets[0].pods, key=lambda each: each.name)]


async def test_an_unusable_object_that_is_deleted_is_gone_at_the_list_that_follows(
    store: Store, told: Told, watches: Watches
) -> None:
    await all_listed(told)
    store.put(override())
    await until(lambda: told.changed("overrides"))
    store.put(override(target={}))
    await until(lambda: watches.sources["overrides"].counts["unusable"])
    name = override()["metadata"]["name"]
    before = len(told.listed("overrides"))
    store.remove(OVERRIDES, name, "serving")
    await until(lambda: len(told.listed("overrides")) > before)
    assert (told.listed("overrides")[-1].objects, told.listed("overrides")[-1].unreadable) == ((), ())


def test_a_watch_tells_that_it_is_alive_also_after_the_clock_was_set_back() -> None:
    """Five seconds of silence between two words are no half hour of it."""
    heard: list[Event] = []
    sink = SourceSink("nodes", heard.extend)
    sink.alive(NODES, 1_800_000_000.0)
    sink.alive(NODES, 1_800_000_001.0)
    assert len(heard) == 1
    sink.alive(NODES, 1_800_000_001.0 - 1800.0)
    assert len(heard) == 2
