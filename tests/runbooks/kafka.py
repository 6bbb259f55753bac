"""Faults of Kafka: it is away, refuses a topic, or answers late."""

import asyncio

from aiokafka import AIOKafkaProducer

from rebalancer.kafka.broker import Broker
from tests.faults.injections import SAMPLE
from tests.real.traffic import cloud_event
from tests.runbooks.stage import Stage

STATE = Broker("").topic("state")


async def away(stage: Stage) -> None:
    stage.sandbox.embedded.cut()


async def back(stage: Stage) -> None:
    stage.sandbox.embedded.heal()


async def no_right_to_read(stage: Stage) -> None:
    """An ACL goes."""
    stage.sandbox.embedded.refuse_reads()


async def read_allowed(stage: Stage) -> None:
    stage.sandbox.embedded.allow_reads()


async def no_right_to_state(stage: Stage) -> None:
    """An ACL goes; clients hear of it when they connect anew."""
    stage.sandbox.embedded.cut()
    stage.sandbox.embedded.refuse(STATE)
    stage.sandbox.embedded.heal()

    async def counted() -> bool:
        failures = await asyncio.to_thread(stage.prometheus.value, "rebalancer_checkpoint_failures_total")
        return (failures or 0.0) > 2.0

    await stage.until(counted, "rebalancer_checkpoint_failures_total grows")


async def state_allowed(stage: Stage) -> None:
    stage.sandbox.embedded.allow(STATE)


async def backlog_of_a_slow_broker(stage: Stage) -> None:
    """4 MiB of one model's readings came while the service was down, and the broker answers late: 512 KiB a time."""
    await stage.service.stop()
    async with AIOKafkaProducer(bootstrap_servers=stage.sandbox.bootstrap) as producer:
        topic, now = Broker(stage.sandbox.bootstrap).topic("metrics"), stage.clock.now()
        for _ in range(15_000):
            _, value = cloud_event(SAMPLE, {"model": "chat", "intervalSeconds": 1.0, "gauges": {"running": 4}}, now)
            await producer.send(topic, value, key=b"chat")
    stage.service = stage.another(stage.settings)
    await stage.service.start()
    stage.sandbox.embedded.slow(1.5)


async def fast_again(stage: Stage) -> None:
    stage.sandbox.embedded.slow(0.0)
