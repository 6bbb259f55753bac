"""The tier as the chart has KEDA scale it: more processes while records are not read, fewer once they are.

KEDA, the HPA and Kafka are the real ones. kwok has no containers: for each pod of the StatefulSet a process is launched
under the pod's name, with the pod's own environment, and stopped when the pod goes.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from rebalancer.kafka.broker import Broker
from rebalancer.settings.service import PREFIX
from tests.chart.helm import Json, Rendered, render
from tests.ingest.tier import a_sample_event
from tests.ingest.wire import STRUCTURED
from tests.real.tier import Tier
from tests.testbed.kafka import Kafka
from tests.testbed.keda import Keda
from tests.testbed.kube import Kube
from tests.testbed.objects import gpu_node
from tests.testbed.place import answers

NAME = "rebalancer-aggregate"
LAG_OF_ONE = 100  # records that a pod may have before it
RECORDS = 350  # so 4 pods
MOST = 4


def tier_of_the_chart(kafka: Kafka, namespace: str, prefix: str) -> Rendered:
    return render(
        {
            "aggregate.enabled": True,
            "aggregate.minReplicas": 1,
            "aggregate.maxReplicas": MOST,
            "aggregate.keda.enabled": True,
            "aggregate.keda.lagThreshold": LAG_OF_ONE,
            "dev": True,
            "kafka.bootstrap": kafka.bootstrap,
            "kafka.securityProtocol": "PLAINTEXT",
            "kafka.topicPrefix": prefix,
        },
        namespace,
    )


def at_once(scaled: Json) -> Json:
    """The chart lets one pod go each two minutes, ten minutes after it is needed no more; here at once."""
    behavior = scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 600
    behavior["scaleDown"] = {"stabilizationWindowSeconds": 0}
    return scaled


@asynccontextmanager
async def lives_of_pods(kube: Kube, namespace: str, tier: Tier, held: set[str]) -> AsyncIterator[None]:
    """A process for each pod of the tier but those in `held`, as long as there is the pod."""

    async def follow() -> None:
        while True:
            pods = await kube.items("Pod", namespace)
            names = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
            for name in sorted(names - tier.processes.keys() - held):
                await asyncio.to_thread(tier.launch, name)
            for name in sorted(tier.processes.keys() - names):
                await asyncio.to_thread(tier.processes.pop(name).stop)
            await asyncio.sleep(0.5)

    following = asyncio.create_task(follow())
    yield
    assert not following.done(), following.exception()
    following.cancel()


async def send(kafka: Kafka, topic: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for number in range(RECORDS):
            value = a_sample_event("a", number % 8, 1.0, time.time(), interval_seconds=1)
            await producer.send(topic, value, f"a-{number}".encode(), headers=list(STRUCTURED))


async def samples_in(kafka: Kafka, topic: str, count: int) -> set[tuple[int, int]]:
    """Partition and offset of each sample that the tier has handed on, once there are so many."""
    seen: set[tuple[int, int]] = set()
    async with AIOKafkaConsumer(topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        async with asyncio.timeout(60.0):
            async for record in consumer:
                data = json.loads(record.value)["data"]
                partition = data["stretch"]["partition"]
                seen |= {(partition, one["offset"]) for ones in data["models"].values() for one in ones}
                if len(seen) >= count:
                    break
    return seen


@pytest.mark.timeout(240, func_only=True)
async def test_keda_adds_processes_while_records_wait_and_takes_them_away_when_they_are_read(
    kafka: Kafka,
    keda: Keda,
    kube: Kube,
    namespace: str,
    ours: dict[str, str],
    topic_prefix: str,
    tier: Tier,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rendered = await asyncio.to_thread(tier_of_the_chart, kafka, namespace, topic_prefix)
    broker = Broker(kafka.bootstrap, topic_prefix)
    await broker.make_topics()
    (container,) = rendered.one("StatefulSet")["spec"]["template"]["spec"]["containers"]
    tier.settings = {
        each["name"]: each["value"] for each in container["env"] if each["name"].startswith(PREFIX) and "value" in each
    }
    await kube.create(gpu_node(f"{namespace}-a", labels=ours))
    await kube.apply(rendered.one("ServiceAccount", NAME), rendered.one("StatefulSet"))
    await kube.apply(at_once(rendered.one("ScaledObject")))
    told: list[str] = []
    held: set[str] = set()

    async def replicas(count: int, what: str) -> None:
        began = time.monotonic()

        async def there() -> bool:
            found = await kube.get("StatefulSet", NAME, namespace)
            return bool(found["spec"]["replicas"] == count and found["status"].get("replicas") == count)

        await kube.wait_for(there, what, 90.0)
        told.append(f"{what}: {count} after {time.monotonic() - began:.1f} s")

    async with lives_of_pods(kube, namespace, tier, held):
        await replicas(1, "pods while nothing waits")

        async def ready() -> bool:
            return bool(tier.processes) and await asyncio.to_thread(answers, tier.ports[f"{NAME}-0"], "/readyz")

        await kube.wait_for(ready, "the first reads", 60.0)
        held |= {f"{NAME}-{number}" for number in range(MOST)}  # it reads faster than a test could write
        await asyncio.to_thread(tier.processes.pop(f"{NAME}-0").stop)
        await send(kafka, broker.topic("metrics"))
        await replicas(MOST, f"{RECORDS} records wait, {LAG_OF_ONE} are for one")
        held.clear()
        seen = await samples_in(kafka, broker.topic("readings"), RECORDS)
        told.append(f"{len(seen)} samples handed on by {len(tier.processes)} processes")
        await replicas(1, "pods once all is read")
    with capsys.disabled():
        print("\n  " + "\n  ".join(told))
    assert len(seen) == RECORDS
