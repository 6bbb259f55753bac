"""The broker of the tests of Kafka."""

from tests.kafka.conftest import broker, clock, embedded, outbox, producer, rng

__all__ = ["broker", "clock", "embedded", "outbox", "producer", "rng"]
