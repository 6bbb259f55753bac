"""How far a partition is done, whatever the order in which dead letters are acknowledged."""

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.events import Position, Rejection
from rebalancer.kafka.frontier import MOST_REFUSED, Frontier


def test_without_rejections_all_that_was_read_is_done() -> None:
    frontier = Frontier(7)
    frontier.next_offset = 12
    assert frontier.safe == 12


def test_what_was_put_off_stays_open_until_it_was_read_again() -> None:
    frontier = Frontier(0)
    frontier.hold(3)
    frontier.put_off(5)
    frontier.put_off(9)
    frontier.next_offset = 20
    frontier.acknowledged(3)
    assert frontier.safe == 5
    frontier.read_again(9)
    assert frontier.safe == 9
    frontier.read_again(10)
    assert frontier.safe == 20


def test_of_more_reasons_than_are_remembered_the_record_itself_stays_open() -> None:
    frontier = Frontier(0)
    for offset in range(MOST_REFUSED + 1):
        frontier.put_off(offset, Rejection(Position("t", 0, offset), 0.0, "not-applied", ""))
    frontier.next_offset = MOST_REFUSED + 1
    assert len(frontier.refused) == MOST_REFUSED
    frontier.read_again(MOST_REFUSED + 1)
    assert frontier.safe == MOST_REFUSED


@given(st.data())
def test_safe_is_the_first_record_that_is_neither_applied_nor_acknowledged(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 30))
    rejected = data.draw(st.sets(st.integers(0, length - 1)))
    frontier, open_offsets = Frontier(0), set[int]()
    for offset in range(length):
        if offset in rejected:
            frontier.hold(offset)
            open_offsets.add(offset)
        frontier.next_offset = offset + 1
        if data.draw(st.booleans()) and open_offsets:
            acknowledged = data.draw(st.sampled_from(sorted(open_offsets)))
            frontier.acknowledged(acknowledged)
            open_offsets.remove(acknowledged)
        assert frontier.safe == min(open_offsets, default=offset + 1)
