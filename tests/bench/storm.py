"""A helper: a storm of metric samples into a Kafka, some of them poison, for so many seconds or until its stdin ends.

python -m tests.bench.storm BOOTSTRAP TOPIC PACE POISON SECONDS MODEL...

PACE in records per second, POISON the share of them that nobody can read. First line: that it has begun. Last line:
records that Kafka took, poisoned ones among them, and per second.
"""

import sys
import threading
import time
from datetime import UTC, datetime

from confluent_kafka import Producer

from tests.bench.children import say, until_the_end

STEP_SECONDS = 0.01
POISON = b'{"specversion":"1.0","type":"io.rebalancer.metric.sample.v1","source":"storm","id":"x","data":{"model":7}}'
QUEUED = 500_000  # records that wait for the broker: beyond, the storm itself waits


def main() -> None:
    """Storm until the end."""
    bootstrap, topic, pace, poison, seconds, *models = sys.argv[1:]
    ended = threading.Event()
    threading.Thread(target=_listen, args=(ended,), daemon=True).start()
    say("began")
    taken, poisoned, took = _storm(bootstrap, topic, float(pace), float(poison), float(seconds), models, ended)
    say(f"{taken} {poisoned} {taken / took:.0f}")


def _listen(ended: threading.Event) -> None:
    until_the_end()
    ended.set()


def _storm(  # what a storm is made of
    bootstrap: str,
    topic: str,
    pace: float,
    poison: float,
    seconds: float,
    models: list[str],
    ended: threading.Event,
) -> tuple[int, int, float]:
    settings = {
        "bootstrap.servers": bootstrap,
        "linger.ms": 20,
        "compression.type": "lz4",
        "acks": "all",
        "queue.buffering.max.messages": QUEUED,
        "batch.num.messages": 10_000,
    }
    producer = Producer(settings)
    headers: dict[str, str | bytes | None] = {"content-type": b"application/cloudevents+json"}
    taken, sent, poisoned = [0], 0, 0
    every = round(1 / poison) if poison else 0

    def heard(error: object, _message: object) -> None:
        taken[0] += error is None

    began = time.monotonic()
    while not ended.is_set() and (passed := time.monotonic() - began) < seconds:
        at = datetime.fromtimestamp(time.time(), UTC).isoformat()
        for number in range(sent, int(passed * pace)):
            model = models[number % len(models)]
            bad = every and not number % every
            value = POISON if bad else _sample(model, number, at)
            while True:
                try:
                    producer.produce(topic, value, key=model, headers=headers, on_delivery=heard)
                    break
                except BufferError:
                    producer.poll(0.1)
            poisoned += bool(bad)
            sent += 1
            if not sent % 1000:
                producer.poll(0)
                if time.monotonic() - began > seconds:
                    break
        producer.poll(0)
        ended.wait(STEP_SECONDS)
    producer.flush(60)
    return taken[0], poisoned, time.monotonic() - began


def _sample(model: str, number: int, at: str) -> bytes:
    return (
        f'{{"specversion":"1.0","type":"io.rebalancer.metric.sample.v1","source":"storm/{model}","id":"{number}",'
        f'"time":"{at}","data":{{"model":"{model}","intervalSeconds":1,"gauges":{{"running":15,"waiting":0}}}}}}'
    ).encode()


if __name__ == "__main__":
    main()
