"""What found no room to wait in becomes a dead letter or an override in the process that put it off."""

from aiokafka import AIOKafkaProducer

from rebalancer.kafka.broker import Broker
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.ingest.rig import Intake, Refusing
from tests.ingest.wire import STRUCTURED
from tests.kafka.waiting import SkippingClock, time_passes, until

METRICS = "rebalancer.metrics"
POISON, POISONED = b"no event" * 7_500, 400  # 16 MiB of letters are some 280 of them


async def test_letters_that_were_put_off_are_buried_without_a_restart(embedded: EmbeddedBroker, broker: Broker) -> None:
    """The dead-letter topic takes nothing for a while: later than 5 h on no start would read these again."""
    keeper, clock = Refusing(), SkippingClock()
    async with AIOKafkaProducer(
        bootstrap_servers=embedded.bootstrap, compression_type="gzip", max_batch_size=900_000
    ) as producer:
        for _ in range(POISONED):
            await producer.send(METRICS, POISON, headers=list(STRUCTURED), partition=0)
        await producer.flush()
        async with Intake(broker, keeper, clock=clock) as intake:
            consumer = intake.intake.consumer
            await until(lambda: intake.intake.counts["rejected.not-json"] == POISONED)
            assert intake.intake.counts["put-off"] > 0
            assert consumer.safe_offsets()[METRICS, 0] == 0
            keeper.takes = True
            keeper.asked.clear()
            await until(lambda: time_passes(clock) and consumer.safe_offsets()[METRICS, 0] == POISONED)
            assert {rejection.position.offset for rejection in keeper.asked} == set(range(POISONED))
            assert intake.intake.counts["rejected.not-json"] == POISONED, "each is counted once"
