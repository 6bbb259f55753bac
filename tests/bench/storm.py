"""A helper: a storm of metric samples into a Kafka, some of them poison, for so many seconds or until its stdin ends.

python -m tests.bench.storm BOOTSTRAP TOPIC PACE POISON SECONDS MODEL...

PACE in records per second, POISON the share of them that nobody can read, or not whole. First line: that it has begun.
Last line: records that Kafka took, how many of them nobody can read, of how many more a part is no gauge, and records
per second. It ends with an error when Kafka did not take all.
"""

import sys
import threading
import time
from datetime import UTC, datetime

from confluent_kafka import Producer

from tests.bench.children import say, until_the_end

STEP_SECONDS = 0.01
TOO_LONG = b" " * 64 * 1024  # after any sample
LONG_IN = 400  # of what is poisoned: more of these would be a flood of bytes
QUEUED = 500_000  # records that wait for the broker: beyond, the storm itself waits


def main() -> None:
    """Storm until the end."""
    bootstrap, topic, pace, poison, seconds, *models = sys.argv[1:]
    ended = threading.Event()
    threading.Thread(target=_listen, args=(ended,), daemon=True).start()
    say("began")
    taken, unreadable, mended, took = _storm(
        bootstrap, topic, float(pace), float(poison), float(seconds), models, ended
    )
    say(f"{taken} {unreadable} {mended} {taken / took:.0f}")


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
) -> tuple[int, int, int, float]:
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
    taken, sent, unreadable, mended = [0], 0, 0, 0
    every = round(1 / poison) if poison else 0

    def heard(error: object, _message: object) -> None:
        taken[0] += error is None

    began = time.monotonic()
    while not ended.is_set() and (passed := time.monotonic() - began) < seconds:
        at = datetime.fromtimestamp(time.time(), UTC).isoformat()
        for number in range(sent, int(passed * pace)):
            model = models[number % len(models)]
            value = _sample(model, number, at)
            if every and not number % every:
                value, readable = _poisoned(value, number // every)
                mended += readable
                unreadable += not readable
            while True:
                try:
                    producer.produce(topic, value, key=model, headers=headers, on_delivery=heard)
                    break
                except BufferError:
                    producer.poll(0.1)
            sent += 1
            if not sent % 1000:
                producer.poll(0)
                if time.monotonic() - began > seconds:
                    break
        producer.poll(0)
        ended.wait(STEP_SECONDS)
    producer.flush(60)
    if taken[0] != sent:
        raise SystemExit(f"Kafka took {taken[0]} of {sent} records")
    return sent, unreadable, mended, time.monotonic() - began


def _sample(model: str, number: int, at: str) -> bytes:
    return (
        f'{{"specversion":"1.0","type":"io.rebalancer.metric.sample.v1","source":"storm/{model}","id":"{number}",'
        f'"time":"{at}","data":{{"model":"{model}","intervalSeconds":1,"gauges":{{"running":15,"waiting":0}}}}}}'
    ).encode()


def _poisoned(sample: bytes, number: int) -> tuple[bytes, bool]:
    """The sample spoiled, each time in another way, and whether what is left of it can be read."""
    if not number % LONG_IN:
        return sample + TOO_LONG, False
    match number % 4:
        case 0:
            return sample[:-7], False  # no JSON
        case 1:
            return sample.replace(b'"intervalSeconds":1', b'"intervalSeconds":"one"'), False
        case 2:
            return bytes(byte ^ 0xA5 for byte in sample), False  # no text
        case _:
            return sample.replace(b'"waiting":0', b'"waiting":0,"patience":3'), True  # a gauge that nobody knows


if __name__ == "__main__":
    main()
