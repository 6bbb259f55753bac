"""The books: every GPU-second once, sums exact, and nothing guessed where nobody looked."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from msgspec.structs import replace

from rebalancer.domain.readings import Work
from rebalancer.domain.snapshot import Snapshot
from rebalancer.ledger.books import HOUR, MICRO, Books, micro, patience_seconds
from rebalancer.ledger.inventory import inventory
from rebalancer.ledger.states import BORROWED, FREE, OWNED_BUSY, OWNED_IDLE, STATES, UNKNOWN
from tests.builders import NOW, a_load, a_snapshot
from tests.ledger.worlds import POLICY, looks

PATIENCE = patience_seconds(POLICY)


def booked(looks: Sequence[Snapshot]) -> Books:
    books = Books()
    for look in looks:
        books.see(inventory(look, POLICY), PATIENCE)
    return books


def by_state(books: Books) -> dict[tuple[str, str], float]:
    """GPU-seconds by model and state."""
    sums: Counter[tuple[str, str]] = Counter()
    for (_, _, model, state), amount in books.charged.items():
        sums[model, state] += amount
    return {key: amount / MICRO for key, amount in sums.items() if amount}


def at(seconds: float, snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, at=NOW + seconds)


def test_a_look_lasts_until_the_next_one() -> None:
    one = a_snapshot(POLICY, {"a": 4}, work={"a": 1.0})
    books = booked([at(0, one), at(10, a_snapshot(POLICY)), at(15, a_snapshot(POLICY))])
    assert by_state(books) == {
        ("a", OWNED_BUSY): 7.5,
        ("a", OWNED_IDLE): 22.5,
        ("a", BORROWED): 10.0,
        ("", FREE): 40.0 + 40.0,
    }


def test_what_nobody_saw_is_unknown_and_not_idle() -> None:
    one = a_snapshot(POLICY, {"a": 2}, work={"a": 0.0})
    books = booked([at(0, one), at(PATIENCE + 1, one), at(PATIENCE + 11, one)])
    assert by_state(books) == {("", UNKNOWN): 8 * (PATIENCE + 1), ("a", OWNED_IDLE): 20.0, ("", FREE): 60.0}
    assert [(gap.since, gap.until, gap.why) for gap in books.gaps] == [
        (NOW, NOW + PATIENCE + 1, "no cycle was recorded")
    ]


def test_after_a_line_that_cannot_be_read_even_a_short_time_is_unknown() -> None:
    books, one = Books(), a_snapshot(POLICY, {"a": 2})
    books.see(inventory(one, POLICY), PATIENCE)
    books.lost("a line of the journal is damaged")
    books.see(inventory(at(5, one), POLICY), PATIENCE)
    assert by_state(books) == {("", UNKNOWN): 40.0}


def test_a_model_whose_use_is_unknown_is_not_idle() -> None:
    one = a_snapshot(POLICY, {"a": 1}, loads=(a_load("a", work=Work()),))
    assert by_state(booked([at(0, one), at(1, one)])) == {("a", UNKNOWN): 1.0, ("", FREE): 7.0}


def test_no_second_counts_twice_when_the_clock_is_set_back() -> None:
    one = a_snapshot(POLICY)
    books = booked([at(seconds, one) for seconds in (0, 10, 4, 8, 12)])
    assert by_state(books) == {("", FREE): 8 * 12.0}


def test_an_hour_ends_where_it_ends() -> None:
    one = a_snapshot(POLICY)
    begin = -NOW % 3600
    books = booked([at(begin - 10, one), at(begin + 20, one)])
    assert [amount / MICRO for _, amount in sorted(books.capacity.items())] == [80.0, 160.0]


# --- every GPU-second, whatever happens


@given(looks())
def test_the_sums_are_the_capacity_times_the_time_and_nothing_is_left_over(seen: list[Snapshot]) -> None:
    books = booked(seen)
    assert books.residual() == {}
    assert all(amount >= 0 for amount in books.charged.values())
    assert {state for _, _, _, state in books.charged} <= set(STATES)
    assert sum(books.charged.values()) == sum(Fraction(seconds) * there for seconds, there in _by_hand(seen)) * MICRO


def _by_hand(seen: list[Snapshot]) -> list[tuple[Fraction, int]]:
    """(seconds, GPUs) that there were, from nodes and pods one by one, without the books."""
    pieces, until = [], None
    for before, after in zip([None, *seen], seen, strict=False):
        if before is not None and until is not None and micro(after.at) > until:
            pieces.append((Fraction(micro(after.at) - until, MICRO), sum(_gpus(before).values())))
        until = micro(after.at) if until is None else max(until, micro(after.at))
    return pieces


def _gpus(snapshot: Snapshot) -> dict[str, int]:
    there = {}
    for node in snapshot.pools[0].nodes:
        pods = [(model.id, pod.node) for model in snapshot.models for pod in model.targets[0].pods]
        holding = sum({"a": 1, "b": 2}[model] for model, on in pods if on == node.name)
        there[node.name] = max(node.gpus, holding + node.foreign_gpus)
    return there


@given(looks())
def test_what_is_lent_is_never_more_than_what_is_borrowed(seen: list[Snapshot]) -> None:
    books = booked(seen)
    borrowed: Counter[int] = Counter()
    for (piece, _, _, state), amount in books.charged.items():
        borrowed[piece] += amount if state == BORROWED else 0
    for piece in borrowed:
        assert sum(amount for (at_piece, _, _), amount in books.lent.items() if at_piece == piece) <= borrowed[piece]


@pytest.mark.parametrize("width", [HOUR, 60 * MICRO])
def test_the_same_looks_come_to_the_same_whatever_the_width_of_a_piece(width: int) -> None:
    seen = [at(7.3 * n, a_snapshot(POLICY, {"a": n % 5, "b": 1}, work={"a": 1.37})) for n in range(40)]
    books = Books(width)
    for look in seen:
        books.see(inventory(look, POLICY), PATIENCE)
    assert sum(books.charged.values()) == 8 * micro(NOW + 7.3 * 39) - 8 * micro(NOW)
