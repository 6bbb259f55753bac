"""What became of every sample that Kafka acknowledged (invariant I4)."""

import json
import time
from datetime import datetime
from typing import NamedTuple

import numpy as np
from aiokafka import AIOKafkaProducer

from rebalancer.kafka.broker import Broker
from rebalancer.state.checkpoint import ModelPast
from rebalancer.state.ring_level import COVERAGE
from rebalancer.state.rings import Rings
from tests.real.records import checkpointed
from tests.real.traffic import Traffic

_LAST_RECORDS = 60
"""Of the topic `state`: twenty rounds of all models' pasts."""


class Taken(NamedTuple):
    """A sample that Kafka acknowledged: whose, of what instant, requests in it, and when it was acknowledged."""

    model: str
    at: float
    running: float
    acknowledged_at: float


class Voices(Traffic):
    """Traffic that remembers what Kafka took of it, the newest last."""

    def __init__(self, producer: AIOKafkaProducer, topic_prefix: str) -> None:
        super().__init__(producer, topic_prefix)
        self.taken: list[Taken] = []

    async def _send_sample(self, model: str, event_id: str, value: bytes) -> None:
        await super()._send_sample(model, event_id, value)
        event = json.loads(value)
        at = datetime.fromisoformat(event["time"]).timestamp()
        self.taken.append(Taken(model, at, event["data"]["gauges"]["running"], time.time()))


async def unaccounted(broker: Broker, samples: list[Taken]) -> list[str]:
    """Those of the samples in whose second the last checkpoint has looked at nobody: neither it nor a newer one."""
    pasts = await checkpointed(broker, _LAST_RECORDS)
    return [
        f"a sample of {name} at {at:.3f} is in no checkpoint"
        for name in sorted({sample.model for sample in samples})
        for at in _missing(pasts.get(name), [sample.at for sample in samples if sample.model == name])
    ]


def _missing(past: ModelPast | None, instants: list[float]) -> list[float]:
    if past is None:
        return instants
    rings = Rings(1)
    rings.restore(0, past.rings)
    starts, looks = rings.series(0, COVERAGE)
    cells = np.searchsorted(starts, np.floor(instants), side="right") - 1
    return [at for at, cell in zip(instants, cells.tolist(), strict=True) if cell < 0 or not looks[cell] > 0]
