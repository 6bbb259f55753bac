"""The testbed itself: what comes up behaves as the real thing does, and nothing stays behind."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from rebalancer.act.deletion_cost import ANNOTATION as DELETION_COST
from tests.testbed.audit import AuditLog
from tests.testbed.build import Missing, build, cache_folder
from tests.testbed.control_plane import ADMIN
from tests.testbed.kafka import Kafka
from tests.testbed.karpenter import Karpenter
from tests.testbed.keda import Keda
from tests.testbed.kube import ApiError, Json, Kube
from tests.testbed.line import chosen_line
from tests.testbed.objects import (
    deployment,
    gpu_node,
    hpa,
    metrics_api_trigger,
    node_class,
    node_pool,
    scaled_object,
)
from tests.testbed.process import wait_until
from tests.testbed.stack import Stack, with_foundations

_ROOT = Path(__file__).parents[2]


def test_a_piece_starts_after_what_it_stands_on() -> None:
    assert with_foundations(["karpenter", "kafka"]) == ["kafka", "kubernetes", "kwok", "karpenter"]


def test_an_unknown_piece_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="zookeeper"):
        with_foundations(["zookeeper"])


def test_an_unknown_line_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTBED_LINE", "latest")
    with pytest.raises(ValueError, match="'latest'; there is newest and oldest"):
        chosen_line()


def test_what_is_built_is_at_hand_while_another_line_of_it_is_being_built() -> None:
    try:
        built = build("kwok")
    except Missing as missing:
        pytest.skip(f"the testbed cannot be built: {missing.reason}")
    with ThreadPoolExecutor(1) as thread, ExitStack() as locks:
        for file in {*cache_folder().glob("kwok*.lock"), cache_folder() / "kwok.lock"}:
            fcntl.flock(locks.enter_context(file.open("w")), fcntl.LOCK_EX)
        assert thread.submit(build, "kwok").result(timeout=30) == built


async def _produce(kafka: Kafka, topic: str, values: list[bytes]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all") as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def _consume(kafka: Kafka, topic: str, count: int) -> list[bytes]:
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        return [(await consumer.getone(partition)).value for _ in range(count)]


@pytest.mark.outage
async def test_acknowledged_records_survive_a_killed_broker(kafka: Kafka, topic_prefix: str) -> None:
    topic = f"{topic_prefix}metrics"
    await _produce(kafka, topic, [b"before"])
    await asyncio.to_thread(kafka.kill)
    assert kafka.process.pid is None
    await asyncio.to_thread(kafka.start)
    await _produce(kafka, topic, [b"after"])
    assert await _consume(kafka, topic, 2) == [b"before", b"after"]


async def test_pods_run_on_gpu_nodes_after_their_load_time(kube: Kube, namespace: str, ours: dict[str, str]) -> None:
    await kube.create(gpu_node(f"{namespace}-a", gpus=2, labels=ours, instance_id="i-0123456789abcdef0"))
    await kube.apply(deployment("chat", namespace, 3, node_labels=ours, load_seconds=3))
    started = time.monotonic()
    pods = await kube.wait_ready(2, namespace)
    assert time.monotonic() - started >= 3
    assert {pod["spec"]["nodeName"] for pod in pods} == {f"{namespace}-a"}
    assert len(await kube.items("Pod", namespace)) == 3, "the third has no GPU and waits"

    node = await kube.get("Node", f"{namespace}-a")
    assert node["spec"]["providerID"] == "aws:///zone-a/i-0123456789abcdef0"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"


async def test_a_deleted_pod_stays_as_long_as_it_is_told(kube: Kube, namespace: str, ours: dict[str, str]) -> None:
    await kube.create(gpu_node(f"{namespace}-a", labels=ours))
    await kube.apply(deployment("chat", namespace, 1, node_labels=ours, end_seconds=3))
    await kube.wait_ready(1, namespace)
    await kube.patch("Deployment", "chat", {"spec": {"replicas": 0}}, namespace, "scale")
    started = time.monotonic()

    async def gone() -> bool:
        return not await kube.items("Pod", namespace)

    await kube.wait_for(gone, "the pod gone")
    assert 2 <= time.monotonic() - started <= 10


async def test_a_replica_set_ends_a_loading_pod_before_a_ready_one_that_is_marked(
    kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await kube.create(gpu_node(f"{namespace}-a", gpus=3, labels=ours))
    await kube.apply(deployment("chat", namespace, 2, node_labels=ours, load_seconds=8))
    first, second = (pod["metadata"]["name"] for pod in await kube.wait_ready(2, namespace))
    await kube.patch("Pod", first, {"metadata": {"annotations": {DELETION_COST: "-1000"}}}, namespace)
    await kube.patch("Deployment", "chat", {"spec": {"replicas": 3}}, namespace, "scale")

    async def placed(count: int) -> set[str] | None:
        pods = await kube.items("Pod", namespace)
        names = {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}
        return names if len(names) == len(pods) == count else None

    await kube.wait_for(lambda: placed(3), "a third pod that loads")
    await kube.patch("Deployment", "chat", {"spec": {"replicas": 2}}, namespace, "scale")
    assert await kube.wait_for(lambda: placed(2), "one of them gone") == {first, second}


async def test_a_silenced_node_becomes_not_ready(kube: Kube, namespace: str, ours: dict[str, str]) -> None:
    name = f"{namespace}-a"
    await kube.create(gpu_node(name, labels=ours))

    async def ready(status: str) -> bool:
        conditions = (await kube.get("Node", name))["status"].get("conditions", [])
        return any(entry["type"] == "Ready" and entry["status"] == status for entry in conditions)

    await kube.wait_for(lambda: ready("True"), "Ready")
    await kube.silence_node(name)
    await kube.wait_for(lambda: ready("Unknown"), "Ready unknown", 120)


@pytest.fixture
async def metric() -> AsyncIterator[TestServer]:
    """A server that KEDA asks for the load of a model: always 1."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"load": 1})

    app = web.Application()
    app.router.add_get("/load", answer)
    server = TestServer(app)
    async with server:
        yield server


async def _scaled(kube: Kube, namespace: str, metric: TestServer, ours: dict[str, str]) -> None:
    """A Deployment of one replica that KEDA owns, within 1 and 4."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=4, labels=ours))
    trigger = metrics_api_trigger(str(metric.make_url("/load")), "load", "1")
    await kube.apply(
        deployment("chat", namespace, 1, node_labels=ours), scaled_object("chat", namespace, 1, 4, [trigger])
    )

    async def owned() -> Json | None:
        return await kube.find("HorizontalPodAutoscaler", "keda-hpa-chat", namespace)

    await kube.wait_for(owned, "the HPA that KEDA makes")


async def _replicas(kube: Kube, namespace: str, count: int, seconds: float) -> None:
    async def reached() -> bool:
        scale = await kube.get("Deployment", "chat", namespace, "scale")
        return bool(scale["spec"].get("replicas", 0) == count)

    await kube.wait_for(reached, f"{count} replicas", seconds)


async def test_bounds_of_a_scaled_object_reach_the_deployment_through_the_hpa(
    keda: Keda, kube: Kube, namespace: str, ours: dict[str, str], metric: TestServer
) -> None:
    await _scaled(kube, namespace, metric, ours)
    for count in (3, 1):
        bounds = {"spec": {"minReplicaCount": count, "maxReplicaCount": count}}
        await kube.patch("ScaledObject", "chat", bounds, namespace)
        await _replicas(kube, namespace, count, 15)
    await kube.wait_ready(1, namespace)


async def test_the_hpa_keeps_its_default_pace_when_asked_to(
    kube: Kube, namespace: str, ours: dict[str, str], hpa_at_15_seconds: None
) -> None:
    """A bare one: KEDA, told of a new minimum, may ask for it by itself at once."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=4, labels=ours))
    await kube.apply(deployment("chat", namespace, 1, node_labels=ours), hpa("chat", namespace, 1, 4))
    moments = []
    for count in (2, 3):
        bounds = {"spec": {"minReplicas": count, "maxReplicas": count}}
        await kube.patch("HorizontalPodAutoscaler", "chat", bounds, namespace)
        await _replicas(kube, namespace, count, 45)
        moments.append(time.monotonic())
    waited = moments[1] - moments[0] >= 10
    assert waited is not chosen_line().hpas_at_once, "the next look comes 15 s after the one before, or at once"


async def test_the_hpa_reads_keda_s_external_metric(
    keda: Keda, kube: Kube, namespace: str, ours: dict[str, str], metric: TestServer
) -> None:
    await _scaled(kube, namespace, metric, ours)

    async def active() -> bool:
        made = await kube.get("HorizontalPodAutoscaler", "keda-hpa-chat", namespace)
        conditions = made.get("status", {}).get("conditions") or []
        return any(entry["type"] == "ScalingActive" and entry["status"] == "True" for entry in conditions)

    await kube.wait_for(active, "the HPA scales by KEDA's metric", 45)


async def test_keda_s_webhook_refuses_a_second_owner(
    keda: Keda, kube: Kube, namespace: str, ours: dict[str, str], metric: TestServer
) -> None:
    await _scaled(kube, namespace, metric, ours)
    trigger = metrics_api_trigger(str(metric.make_url("/load")), "load", "1")
    second = scaled_object("other", namespace, 1, 2, [trigger], scaleTargetRef={"name": "chat"})
    with pytest.raises(ApiError, match="already managed"):
        await kube.apply(second)


async def test_karpenter_launches_a_node_for_a_pod_that_finds_no_gpu(
    karpenter: Karpenter, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await kube.apply(node_class(), node_pool(namespace, labels=ours, capacity_types=["spot"], gpu_limit=1))
    await kube.apply(deployment("chat", namespace, 2, node_labels=ours))
    (pod,) = await kube.wait_ready(1, namespace)
    node = await kube.get("Node", pod["spec"]["nodeName"])
    assert node["metadata"]["labels"]["karpenter.sh/capacity-type"] == "spot"
    assert node["spec"]["providerID"].startswith("kwok://")

    await kube.patch("NodePool", namespace, {"spec": {"limits": {"nvidia.com/gpu": "2"}}})
    await kube.wait_ready(2, namespace)


async def test_karpenter_launches_nothing_where_there_is_no_capacity(
    karpenter: Karpenter, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await kube.apply(node_class(), node_pool(namespace, labels=ours, instance_types=["sold-out"]))
    await kube.apply(deployment("chat", namespace, 1, node_labels=ours))

    async def refused() -> bool:
        events = await kube.items("v1/Event", namespace)
        return any(event.get("source", {}).get("component") == "karpenter" for event in events)

    await kube.wait_for(refused, "Karpenter says that it cannot")
    assert await kube.items("NodeClaim", labels=f"karpenter.sh/nodepool={namespace}") == []


async def test_the_audit_log_tells_what_an_account_wrote_and_when(
    cluster: Stack, kube: Kube, namespace: str, audit: AuditLog
) -> None:
    await kube.apply(deployment("chat", namespace, 1))
    rules = [{"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]}]
    token = await kube.account(namespace, "mover", rules)
    before = time.time()
    async with cluster.kube(token) as mover:
        await mover.patch("Deployment", "chat", {"spec": {"replicas": 2}}, namespace, "scale")
        with pytest.raises(ApiError) as refused:
            await mover.delete("Deployment", "chat", namespace)
    assert refused.value.status == 403
    await audit.settle(kube)
    after = time.time()

    user = f"system:serviceaccount:{namespace}:mover"
    patch, delete = await asyncio.to_thread(audit.writes, user, since=before - 1, until=after + 1)
    assert (patch.what, patch.verb, patch.code) == (f"deployments/scale {namespace}/chat", "patch", 200)
    assert patch.request == {"spec": {"replicas": 2}}
    assert patch.response["spec"] == {"replicas": 2}
    assert before - 1 <= patch.received <= patch.answered <= after + 1
    assert (delete.verb, delete.code, delete.succeeded) == ("delete", 403, False)
    assert await asyncio.to_thread(audit.writes, user, since=after + 1) == []


async def test_a_request_with_a_token_that_nobody_knows_is_nobodys(
    cluster: Stack, kube: Kube, namespace: str, audit: AuditLog
) -> None:
    async with cluster.kube("not a token") as stranger:
        with pytest.raises(ApiError) as refused:
            await stranger.request("DELETE", f"/api/v1/namespaces/{namespace}")
    assert refused.value.status == 401
    await audit.settle(kube)
    asked = await asyncio.to_thread(lambda: list(audit.requests("")))
    assert ("delete", "namespaces", False) in [(each.verb, each.target, each.allowed) for each in asked]
    assert await asyncio.to_thread(audit.writes, "") == []


@pytest.mark.outage
async def test_the_cluster_goes_on_after_its_api_server_was_restarted(
    cluster: Stack, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await kube.create(gpu_node(f"{namespace}-a", gpus=2, labels=ours))
    await kube.apply(deployment("chat", namespace, 1, node_labels=ours))
    await kube.wait_ready(1, namespace)
    await asyncio.to_thread(cluster.apiserver.restart)
    await kube.patch("Deployment", "chat", {"spec": {"replicas": 2}}, namespace)
    await kube.wait_ready(2, namespace)


@pytest.mark.outage
async def test_an_outage_of_the_api_server_loses_nothing(
    cluster: Stack, kube: Kube, namespace: str, ours: dict[str, str], audit: AuditLog
) -> None:
    await kube.create(gpu_node(f"{namespace}-a", gpus=2, labels=ours))
    await kube.apply(deployment("chat", namespace, 1, node_labels=ours))
    await kube.wait_ready(1, namespace)
    await asyncio.to_thread(cluster.apiserver.kill)
    with pytest.raises(OSError, match="Cannot connect"):
        await kube.items("Pod", namespace)
    await asyncio.to_thread(cluster.apiserver.start)
    await asyncio.to_thread(cluster.restart_controllers)
    await kube.patch("Deployment", "chat", {"spec": {"replicas": 2}}, namespace)
    await kube.wait_ready(2, namespace, seconds=120.0)  # client-go backs off up to a minute
    await audit.settle(kube)
    writes = await asyncio.to_thread(audit.writes, ADMIN, namespace=namespace, resource="deployments")
    assert [write.code for write in writes] == [201, 200]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_nothing_runs_and_no_file_stays_after_stop(cluster: Stack, kafka: Kafka) -> None:
    """`cluster` and `kafka` are asked for only so that all is built."""
    with Stack() as stack:
        stack.start("kafka", "kubernetes")
        pids = [process.pid for process in stack.processes]
        assert len(pids) == 5
        assert all(pid is not None and _alive(pid) for pid in pids)
    assert not [pid for pid in pids if pid is not None and _alive(pid)]
    assert not stack.folder.exists()


@pytest.mark.parametrize(("ending", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -9)])
def test_the_stack_ends_with_whoever_started_it(
    kafka: Kafka, tmp_path: Path, ending: signal.Signals, code: int
) -> None:
    """By hand: the address is printed, and Ctrl-C, kill and kill -9 all leave nothing behind."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.testbed", "kafka"],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as by_hand:
        assert by_hand.stdout is not None
        line = by_hand.stdout.readline()
        assert line.startswith("export KAFKA_BOOTSTRAP=127.0.0.1:"), line
        port = int(line.rsplit(":", 1)[1])
        assert _listens(port)
        (folder,) = tmp_path.iterdir()
        by_hand.send_signal(ending)
        assert by_hand.wait(20) == code
    wait_until(lambda: not _listens(port), "the broker gone", 5)
    wait_until(lambda: not folder.exists(), "its folder gone", 5)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
