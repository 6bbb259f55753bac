"""A helper: metric samples into a Kafka at a steady pace, until its stdin ends.

python -m tests.bench.steady BOOTSTRAP TOPIC PACE MODEL...

Each model in turn says what it said before. Last line: records per second that were taken.
"""

import sys
import threading
import time
from datetime import UTC, datetime

from confluent_kafka import Producer

from tests.bench.children import say, until_the_end

STEP_SECONDS = 0.02
RUNNING = 15


def main() -> None:
    """Speak until the end."""
    bootstrap, topic, pace, *models = sys.argv[1:]
    ended = threading.Event()
    threading.Thread(target=_listen, args=(ended,), daemon=True).start()
    say(f"{_speak(bootstrap, topic, float(pace), models, ended):.0f}")


def _listen(ended: threading.Event) -> None:
    until_the_end()
    ended.set()


def _speak(bootstrap: str, topic: str, pace: float, models: list[str], ended: threading.Event) -> float:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "lz4"})
    began, said, taken = time.monotonic(), 0, [0]
    headers: dict[str, str | bytes | None] = {"content-type": b"application/cloudevents+json"}

    def heard(error: object, _message: object) -> None:
        taken[0] += error is None

    while not ended.is_set():
        due = int((time.monotonic() - began) * pace)
        for number in range(said, due):
            model = models[number % len(models)]
            value = _sample(model, number, time.time())
            producer.produce(topic, value, key=model, headers=headers, on_delivery=heard)
        said = due
        producer.poll(0)
        ended.wait(STEP_SECONDS)
    producer.flush(10)
    return taken[0] / (time.monotonic() - began)


def _sample(model: str, number: int, at: float) -> bytes:
    time_text = datetime.fromtimestamp(at, UTC).isoformat()
    return (
        f'{{"specversion":"1.0","type":"io.rebalancer.metric.sample.v1","source":"flood/{model}","id":"{number}",'
        f'"time":"{time_text}","data":{{"model":"{model}","intervalSeconds":1,'
        f'"gauges":{{"running":{RUNNING},"waiting":0}}}}}}'
    ).encode()


if __name__ == "__main__":
    main()
