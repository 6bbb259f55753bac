"""Journal lines on their way to Kafka when the service ends."""

import asyncio

import pytest

from rebalancer.app.decisions_topic import STOP_SECONDS, DecisionsTopic


class NeverAcknowledged:
    """An outbox that keeps what it is given; `trouble` as it says itself."""

    def __init__(self, trouble: str | None) -> None:
        self.trouble = trouble

    async def send(self, _topic: str, _key: bytes, _line: bytes) -> bool:
        await asyncio.Event().wait()
        return False


@pytest.mark.looptime
@pytest.mark.parametrize(("trouble", "seconds"), [(None, STOP_SECONDS), ("Kafka cannot be written to", 0.0)])
async def test_an_ordered_end_waits_for_lines_under_way_and_not_where_kafka_is_known_to_be_away(
    trouble: str | None, seconds: float
) -> None:
    decisions = DecisionsTopic(NeverAcknowledged(trouble))  # type: ignore[arg-type]  # all that is asked of an outbox
    decisions.tell(b"c1", b"{}")
    await asyncio.sleep(0.0)
    began = asyncio.get_running_loop().time()
    await decisions.stop()
    assert asyncio.get_running_loop().time() - began == seconds
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
