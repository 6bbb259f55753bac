"""How long each topic has stood still."""

from aiokafka import TopicPartition

from rebalancer.kafka.progress import Progress
from tests.kafka.test_progress import Seen

METRICS = (TopicPartition("metrics", 0), TopicPartition("metrics", 1))
NOTICES = TopicPartition("notices", 0)


async def test_a_topic_stands_still_as_long_as_its_worst_partition_and_another_goes_on() -> None:
    progress, seen = Progress(0.0), Seen()
    progress.follow([*METRICS, NOTICES], 0.0)
    for figures in (seen.answered, seen.read, seen.readable):
        figures.update(dict.fromkeys((*METRICS, NOTICES), 0))
    for second in range(1, 100):
        seen.answer(NOTICES, METRICS[0], *([METRICS[1]] if second <= 30 else []))
        await progress.look(seen, float(second))
    assert progress.stuck_by_topic(99.0) == {"metrics": 69, "notices": 0}
