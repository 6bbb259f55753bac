"""Where a start begins to read, by its checkpoint and by the clock, of a broker that looks up by time."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pytest
from aiokafka import TopicPartition

from rebalancer.kafka.offsets import starts

NOW, HOUR = 1_800_000_000.0, 3600.0
ONE = TopicPartition("prom", 0)


class Found(NamedTuple):
    """A record as a look-up by time tells of it."""

    offset: int


class Kept:
    """What a broker says of a partition with a record an hour, the first of offset 100 and 72 hours old."""

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 100)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 173)

    async def offsets_for_times(self, milliseconds: Mapping[TopicPartition, int]) -> dict[TopicPartition, Found | None]:
        hours = {one: max(0, -int((NOW - at / 1000) // -HOUR)) for one, at in milliseconds.items()}
        return {one: Found(max(100, 172 - ago)) for one, ago in hours.items()}


@pytest.mark.parametrize(("read_up_to", "begin"), [({}, 167), ({ONE: 101}, 167), ({ONE: 5}, 167), ({ONE: 170}, 170)])
async def test_metrics_are_read_no_further_back_than_without_a_checkpoint(
    read_up_to: dict[tuple[str, int], int], begin: int
) -> None:
    assert await starts(Kept(), [ONE], {"prom": NOW - 5 * HOUR}, read_up_to, {ONE}) == {ONE: begin}


@pytest.mark.parametrize(("read_up_to", "begin"), [({}, 167), ({ONE: 101}, 101), ({ONE: 170}, 170)])
async def test_what_must_not_be_missed_is_read_from_where_it_was_read_up_to(
    read_up_to: dict[tuple[str, int], int], begin: int
) -> None:
    assert await starts(Kept(), [ONE], {"prom": NOW - 5 * HOUR}, read_up_to) == {ONE: begin}
