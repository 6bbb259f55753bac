"""A batch taken together leaves what its records leave one by one, whatever is in it."""

import random
from datetime import UTC, datetime
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.domain.codec import to_bytes
from rebalancer.ingest.reader import DECODERS, Reader
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.records import ConsumerRecord, TopicPartition
from rebalancer.loop.clock import RealClock
from tests.ingest.rig import Refusing
from tests.ingest.wire import NOW, STRUCTURED, event
from tests.state.loads import two_pods

METRICS = TopicPartition("rebalancer.metrics", 0)
BATCH_SECONDS = 5.0


class Told(NamedTuple):
    """One record: whose it is and who tells it, how old it is, and whether it can be read."""

    pod: str | None
    source: str
    age: float
    running: float
    waiting: float
    finished: int | None
    readable: bool = True


told = st.builds(
    Told,
    pod=st.sampled_from(["uid-b-1", "uid-b-1", "uid-b-2", "uid-b-2", "uid-nobody", None]),
    source=st.sampled_from(["vllm", "vllm", "dcgm"]),
    age=st.sampled_from([0.0, 0.0, 0.0, 0.5, 5.0, 12.0, 40.0, -60.0]),  # late ones, and one that is ahead of time
    running=st.sampled_from([0.0, 2.0, 6.0]),
    waiting=st.sampled_from([0.0, 4.0]),
    finished=st.sampled_from([None, 0, 10, 200]),
    readable=st.sampled_from([True, True, True, False]),
)
again = st.integers(0, 5)  # the record so many before is handed out once more
batches = st.lists(st.lists(told | again, min_size=1, max_size=8), min_size=1, max_size=6)


class Reading:
    """A reader and the state behind it."""

    def __init__(self) -> None:
        self.state, self.keeper, self.now = two_pods(), Refusing(), NOW
        letters = DeadLetters(self.keeper, RealClock(), random.Random(1))
        self.reader = Reader(
            {METRICS.topic: DECODERS["metrics"]}, lambda events: self.state.apply_all(events, self.now), letters
        )
        self.reader.frontiers[METRICS] = Frontier(0)

    def read(self, records: list[ConsumerRecord], now: float) -> None:
        self.now = now
        self.reader.read({METRICS: records}, now)

    def left(self) -> tuple[object, ...]:
        """The checkpoint of the model, what a plan would see, what became of the records, and where reading goes on."""
        seen = to_bytes(self.state.peek(self.now))
        frontier = self.reader.frontiers[METRICS]
        return self.state.rings_bytes("b"), seen, self.reader.counts, frontier.safe, frontier.next_offset


@settings(max_examples=50)
@given(batches)
def test_a_batch_leaves_the_same_state_as_its_records_one_by_one(found: list[list[Told | int]]) -> None:
    together, singly, records = Reading(), Reading(), list[ConsumerRecord]()
    for number, batch in enumerate(found):
        now, begun = NOW + number * BATCH_SECONDS, len(records)
        for one in batch:
            if isinstance(one, Told):
                records.append(record(one, len(records), now))
            elif records:
                records.append(records[max(0, len(records) - 1 - one)])
        if not (taken := records[begun:]):
            continue
        together.read(taken, now)
        for each in taken:
            singly.read([each], now)
    assert together.left() == singly.left()


def record(one: Told, offset: int, now: float) -> ConsumerRecord:
    counters = {"startTime": "2027-01-15T07:00:00Z", "requestsFinished": one.finished}
    data: dict[str, object] = {
        "model": "b",
        "pod": one.pod,
        "intervalSeconds": 5,
        "gauges": {"running": one.running, "waiting": one.waiting},
    }
    data |= {"counters": counters} if one.finished is not None else {}
    at = datetime.fromtimestamp(now - one.age, UTC).isoformat()
    whole = event({name: value for name, value in data.items() if value is not None}, source=one.source, time=at)
    value = whole if one.readable else whole[:-2]
    return ConsumerRecord(*METRICS, offset, int(now * 1000), 0, None, value, None, 0, len(value), STRUCTURED)
