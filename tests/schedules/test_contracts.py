"""The ports in memory answer as the embedded API server and broker do, in what schedules ask of them."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from rebalancer.act.deletion_cost import ANNOTATION as DELETION_COST
from rebalancer.act.drain import CORDONED_BY
from rebalancer.act.originals import ANNOTATION as ORIGINALS
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kafka.topic_past import read_past
from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import Invalid, KubeError
from rebalancer.kube.resources import (
    DEPLOYMENTS,
    EVENTS,
    HPAS,
    LEASES,
    NODEPOOLS,
    NODES,
    OVERRIDES,
    PODS,
    SCALEDOBJECTS,
    WRITESTOPS,
    Object,
    Ref,
    Resource,
)
from rebalancer.leader.candidate import LeaseClaim
from rebalancer.leader.lease import EPOCH, LeaseObject
from rebalancer.sandbox.api import EmbeddedKubernetes
from rebalancer.sandbox.broker import EmbeddedBroker
from rebalancer.world import World
from rebalancer.world.port import WorldPort
from tests.act.rig import GPU, hpa, node_pool
from tests.kube.server import LoopClock
from tests.sandbox.shapes import deployment, override, pod, scaled_object
from tests.schedules.api import ApiServer, ApiWay, admit
from tests.schedules.kafka import DECISIONS, Logs
from tests.schedules.links import Answer, ApiLink
from tests.schedules.virtual import START, Host, VirtualLoop

TARGET = Ref(DEPLOYMENTS, "serving", "chat")
SCALER = Ref(HPAS, "serving", "chat")
MISSING = Ref(DEPLOYMENTS, "serving", "nobody")
KEDA, POOL, NODE = Ref(SCALEDOBJECTS, "serving", "asked"), Ref(NODEPOOLS, None, "spot"), Ref(NODES, None, "n1")
PIN = Ref(OVERRIDES, "serving", "pin-1")
# Of an object, what is asked at the version that was seen, and what at that one once more.
PATCHES: list[tuple[Ref, Object, Object]] = [
    (
        KEDA,
        {"metadata": {"annotations": {EPOCH: "7", ORIGINALS: "{}"}}, "spec": {"minReplicaCount": 2}},
        {"spec": {"maxReplicaCount": 9}},
    ),
    (KEDA, {"metadata": {"annotations": {ORIGINALS: None}}, "spec": {"minReplicaCount": None}}, {"spec": {}}),
    (
        POOL,
        {
            "metadata": {"annotations": {EPOCH: "7"}},
            "spec": {"limits": {GPU: "8"}, "disruption": {"budgets": [{"nodes": "0", "reasons": ["Empty"]}]}},
        },
        {"spec": {"limits": {GPU: "12"}}},
    ),
    (
        NODE,
        {"metadata": {"annotations": {CORDONED_BY: "us"}}, "spec": {"unschedulable": True}},
        {"metadata": {"annotations": {CORDONED_BY: None}}, "spec": {"unschedulable": None}},
    ),
    (
        NODE,
        {"metadata": {"annotations": {CORDONED_BY: None}}, "spec": {"unschedulable": None}},
        {"metadata": {"annotations": {CORDONED_BY: "us"}}, "spec": {"unschedulable": True}},
    ),
]
Seen = list[str]


def with_chat(world: World) -> World:
    """Two Deployments, one with an HPA and one with a ScaledObject, a NodePool and a node."""
    chat, asked = (WorkloadRef("serving", "Deployment", name) for name in ("chat", "asked"))
    world.add_deployment("chat", chat, 3, 1, node_selector={"pool": "x"}, load_seconds=1.0)
    world.add_hpa("chat", chat, 1, 5)
    world.add_deployment("asked", asked, 1, 1, node_selector={"pool": "x"}, load_seconds=1.0)
    world.add_scaled_object("asked", asked, 1, 5)
    world.add_node_pool("spot", 4, {"pool": "spot"}, 60.0, limit=4)
    world.add_node("n1", 2, {"pool": "y"})
    return world


THERE = [(Ref(PODS, "serving", each.name), each.uid) for each in with_chat(World(START)).pods.values()]
(POD, UID), (LAST_POD, LAST_UID) = THERE[:2]  # as each world like this one calls them


async def said(call: Awaitable[Object | None]) -> str:
    """The kind of answer."""
    try:
        await call
    except KubeError as error:
        exists = " exists" if getattr(error, "already_exists", False) else ""
        return f"{type(error).__name__}{exists}"
    return "taken"


async def version_of(kube: Any, ref: Ref) -> str:  # noqa: ANN401  # either way to an API server
    obj = await (kube.get_scale(ref) if ref.resource == DEPLOYMENTS else kube.get(ref))
    version: str = obj["metadata"]["resourceVersion"]
    return version


async def replicas_of(kube: Any) -> str:  # noqa: ANN401  # either way to an API server
    return f"{(await kube.get_scale(TARGET))['spec']['replicas']} replicas"


async def writes(kube: Any, fail: Callable[[Answer], None]) -> Seen:  # noqa: ANN401  # either way to an API server
    """Conflicts, what is missing, and writes whose answers are bad."""
    seen = [await said(kube.get_scale(MISSING)), await said(kube.put_scale(MISSING, 1, "1"))]
    first = await version_of(kube, TARGET)
    seen += [await said(kube.put_scale(TARGET, 4, first)), await replicas_of(kube)]
    seen += [await said(kube.put_scale(TARGET, 5, first)), await replicas_of(kube)]
    fail("503")
    seen += [await said(kube.put_scale(TARGET, 5, await version_of(kube, TARGET))), await replicas_of(kube)]
    fail("504")  # applied: who tries again at the version that was seen meets what was written
    second = await version_of(kube, TARGET)
    seen += [await said(kube.put_scale(TARGET, 6, second)), await replicas_of(kube)]
    seen += [await said(kube.put_scale(TARGET, 6, second)), await replicas_of(kube)]
    fail("504 unread")
    seen += [await said(kube.put_scale(TARGET, 7, await version_of(kube, TARGET))), await replicas_of(kube)]
    bounds = {"spec": {"minReplicas": 2, "maxReplicas": 3}}
    third = await version_of(kube, SCALER)
    seen += [await said(kube.patch(SCALER, bounds, resource_version=third))]
    seen += [await said(kube.patch(SCALER, {"spec": {"maxReplicas": 9}}, resource_version=third))]
    seen += [str((await kube.get(SCALER))["spec"]["maxReplicas"])]
    gone = Ref(PODS, "serving", "nobody")
    seen += [await said(kube.delete(gone, uid="1")), await said(kube.evict(gone, "1"))]
    return seen


async def objects(kube: Any, _fail: object) -> Seen:  # noqa: ANN401  # either way to an API server
    """Patches of each kind at the right version and at an older one, pods by their UID, lists, an Event, a status."""
    seen: Seen = []
    for ref, body, older in PATCHES:
        first = await version_of(kube, ref)
        seen += [await said(kube.patch(ref, body, resource_version=first)), _shown(await kube.get(ref))]
        seen += [await said(kube.patch(ref, older, resource_version=first)), _shown(await kube.get(ref))]
        seen += [await said(kube.patch(replace(ref, name="nobody"), body))]
    for uid in ("another", UID):
        mark = {"metadata": {"uid": uid, "annotations": {DELETION_COST: "5"}}}
        seen += [await said(kube.patch(POD, mark)), await said(kube.patch(replace(POD, name="nobody"), mark))]
    seen += [await said(kube.evict(POD, "another")), await said(kube.delete(POD, uid="another"))]
    seen += [await said(kube.evict(POD, UID)), await said(kube.delete(LAST_POD, uid=LAST_UID, grace_seconds=5))]
    for resource, namespace in itertools.product((DEPLOYMENTS, HPAS, SCALEDOBJECTS), ("serving", "elsewhere", None)):
        listed = (await kube.list(resource, namespace)).items
        seen += [f"{resource}: {sorted(one['metadata']['name'] for one in listed)}"]
    seen += [str((await kube.list(WRITESTOPS)).items)]
    event = {"metadata": {"name": "chat.1", "namespace": "serving"}, "involvedObject": {}, "reason": "Released"}
    seen += [await said(kube.create(EVENTS, event))]
    status = {"status": {"phase": "InForce", "message": "", "observedAt": "2036-01-01T00:00:00Z"}}
    version = (await kube.patch_status(PIN, status))["metadata"]["resourceVersion"]
    seen += [await said(kube.patch_status(PIN, status | {"status": {"phase": "Expired"}}, resource_version="1"))]
    told = await kube.patch_status(PIN, status, resource_version=version)
    missing = await said(kube.patch_status(replace(PIN, name="nobody"), status))
    return [*seen, told["status"]["phase"], missing]


def _shown(obj: Object) -> str:
    notes, spec = obj["metadata"].get("annotations") or {}, obj.get("spec", {})
    own = {key: spec.get(key) for key in ("minReplicaCount", "maxReplicaCount", "limits", "unschedulable")}
    return f"{notes} {own} {(spec.get('disruption') or {}).get('budgets')}"


async def leases(kube: Any) -> Seen:  # noqa: ANN401  # either way to an API server
    """Made once, taken at the version that was seen, read back."""
    lease = LeaseObject(kube, "rebalancer", "rebalancer", LoopClock())
    seen = [str(await lease.read())]
    made = await lease.write(LeaseClaim(None, "unknown", 3, 8.0))
    seen += [await said(lease.write(LeaseClaim(None, "unknown", 9, 8.0)))]  # type: ignore[arg-type]  # any answer
    taken = await lease.write(LeaseClaim(made, "rb-0_1", 4, 8.0))
    seen += [await said(lease.write(LeaseClaim(made, "rb-1_2", 5, 8.0)))]  # type: ignore[arg-type]  # any answer
    now = await lease.read()
    assert now is not None
    assert now.version == taken
    kept = await kube.get(Ref(LEASES, "rebalancer", "rebalancer"))
    return [*seen, f"{now.holder} {now.epoch} {now.lease_seconds}", str(kept["metadata"]["annotations"])]


def in_memory(play: Callable[[Any, Callable[[Answer], None]], Awaitable[Seen]]) -> Seen:
    """On the ports of schedules."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_in_memory(play))


async def _in_memory(play: Callable[[Any, Callable[[Answer], None]], Awaitable[Seen]]) -> Seen:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    link = ApiLink()
    port = WorldPort(with_chat(World(START)))
    server = ApiServer(lambda: START)
    server.pin("chat", 2, 3600.0)
    way = ApiWay(server, port, link, Host("a"), loop, lambda _call: nullcontext())
    return await play(way, link.answers.append)


async def embedded(play: Callable[[Any, Callable[[Answer], None]], Awaitable[Seen]]) -> Seen:
    """On the embedded API server, by the client that the service has."""
    async with EmbeddedKubernetes(LoopClock()) as server:
        server.store.put(deployment("chat", 3, "serving"))
        server.store.put(deployment("asked", 1, "serving"))
        for name in ("chat", "keda-hpa-asked"):
            server.store.put(hpa(name, 1, 5))
        server.store.put(scaled_object("asked", 1, 5, "serving"))
        server.store.put(node_pool(limits={GPU: "4"}))
        server.store.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        server.store.put(override("pin-1", "serving"))
        for ref, uid in THERE:
            there = pod(ref.name, "serving")
            server.store.put(there | {"metadata": there["metadata"] | {"uid": uid}})

        def fail(answer: Answer) -> None:
            if answer == "504":
                server.faults.lose_next_replies(1, method="PUT")
            else:
                server.faults.fail_next(1, int(answer[:3]), method="PUT")

        access = Access(server.url, "Bearer sandbox-rebalancer")
        async with KubeClient(access, LoopClock(), random.Random(1)) as kube:
            return await play(kube, fail)


async def _leases(kube: Any, _fail: object) -> Seen:  # noqa: ANN401  # either way to an API server
    return await leases(kube)


@pytest.mark.parametrize("play", [writes, objects, _leases])
def test_the_api_in_memory_answers_as_the_embedded_one(
    play: Callable[[Any, Callable[[Answer], None]], Awaitable[Seen]],
) -> None:
    with asyncio.Runner() as runner:
        assert in_memory(play) == runner.run(embedded(play))


class Stamping(NamedTuple):
    """A patch of the annotations of an object that carries a term.

    held: the term there; None: none. originals: whether the object is held by us.
    patch: annotations to merge. refused: in what words the chart's admission policies do; "": they let it pass.
    """

    held: str | None
    originals: str | None
    patch: Object
    refused: str


LATER, NO_NUMBER = "another replica of the rebalancer leads since", "the term of a leader of the rebalancer is a number"
# Read by tests/chart/test_applied.py, too: there the real API server says it.
STAMPINGS = [
    Stamping(None, None, {EPOCH: "1", ORIGINALS: "{}"}, ""),
    Stamping("17", "{}", {EPOCH: "17", ORIGINALS: "{}"}, ""),
    Stamping("17", "{}", {EPOCH: "18"}, ""),
    Stamping("17", "{}", {EPOCH: "16"}, LATER),
    Stamping("17", "{}", {EPOCH: "9"}, LATER),  # a number, no text
    Stamping("17", "{}", {ORIGINALS: "{ }"}, ""),
    Stamping("17", "{}", {EPOCH: None}, LATER),
    Stamping("17", "{}", {EPOCH: "16", ORIGINALS: None}, LATER),
    Stamping("17", "{}", {EPOCH: None, ORIGINALS: None}, ""),  # given back
    Stamping("17", None, {EPOCH: None}, ""),
    Stamping("17", "{}", {EPOCH: "seventeen"}, NO_NUMBER),
    Stamping("17", "{}", {EPOCH: "1000000000000000"}, NO_NUMBER),  # a digit too many
    Stamping(None, None, {EPOCH: "-1"}, NO_NUMBER),
    Stamping("seventeen", "{}", {EPOCH: "1"}, ""),
    Stamping("seventeen", "{}", {EPOCH: None}, ""),
    Stamping("seventeen", "{}", {ORIGINALS: "{ }"}, NO_NUMBER),  # by a person; who writes beside it writes it again
]


@pytest.mark.parametrize("one", STAMPINGS)
@pytest.mark.parametrize("resource", [HPAS, SCALEDOBJECTS, NODEPOOLS])
def test_the_api_in_memory_admits_the_terms_that_the_chart_does(resource: Resource, one: Stamping) -> None:
    held = {key: text for key, text in {EPOCH: one.held, ORIGINALS: one.originals}.items() if text is not None}
    before, patch = {"metadata": {"annotations": held}}, {"metadata": {"annotations": one.patch}}
    with pytest.raises(Invalid, match=one.refused) if one.refused else nullcontext():
        admit(resource, before, patch)
    admit(PODS, before, patch)


RECORDS = [(b"intent", b"1"), (b"memory", b"2"), (b"intent", b"3")]
Kept = tuple[list[int], list[tuple[bytes, bytes]], list[tuple[int, bytes | None]]]
"""Offsets as they were sent, all that is read of the past, and what is fetched from offset 1 on."""


async def kept_in_memory() -> Kept:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    logs = Logs(loop)
    offsets = [logs.append(DECISIONS, 0, key, value) for key, value in RECORDS]
    fetched = logs.fetched(TopicPartition(DECISIONS, 0), 1)
    return offsets, [(one.key, one.value) for one in logs.past(DECISIONS)], [(one.offset, one.value) for one in fetched]


async def kept_by_a_broker() -> Kept:
    async with EmbeddedBroker({DECISIONS: 1}) as broker:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True) as producer:
            sent = [(await producer.send_and_wait(DECISIONS, value, key=key)).offset for key, value in RECORDS]
        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False) as consumer:
            consumer.assign([TopicPartition(DECISIONS, 0)])
            consumer.seek(TopicPartition(DECISIONS, 0), 1)
            fetched = [await consumer.getone() for _ in RECORDS[1:]]
        past = await read_past(broker.bootstrap, DECISIONS, {})
    return sent, [(one.key, one.value) for one in past], [(one.offset, one.value) for one in fetched]


def test_the_logs_in_memory_keep_offsets_and_order_as_the_embedded_broker() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as memory:
        ours = memory.run(kept_in_memory())
    with asyncio.Runner() as runner:
        assert runner.run(kept_by_a_broker()) == ours
