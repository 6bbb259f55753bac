"""How many replicas of one role a number of the other bears, and the pair that two roles come to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.couples import ANY, Couple, Role

COUPLE = Couple("prefill", "decode", 0.5, 2.0)


@st.composite
def a_role(draw: st.DrawFn) -> Role:
    least, aim, most = sorted(draw(st.integers(0, 12)) for _ in range(3))
    return Role(aim, least, most)


@pytest.mark.parametrize(
    ("name", "others", "span"), [("prefill", 4, (2, 8)), ("decode", 4, (2, 8)), ("prefill", 0, (0, 0))]
)
def test_a_number_of_one_role_bears_so_many_of_the_other(name: str, others: int, span: tuple[int, int]) -> None:
    assert COUPLE.span(name, others) == span


def test_without_a_least_ratio_a_role_bears_any_number_of_the_other() -> None:
    assert Couple("prefill", "decode", 0.0, 2.0).span("decode", 4) == (2, ANY)


def test_both_roles_see_the_same_excess() -> None:
    assert COUPLE.excess("prefill", 9, 4) == COUPLE.excess("decode", 4, 9) == 1.0
    assert COUPLE.excess("prefill", 8, 4) == 0.0


@pytest.mark.parametrize(("after", "bears"), [(8, True), (9, False)])
def test_a_move_out_of_bounds_is_not_borne(after: int, *, bears: bool) -> None:
    assert COUPLE.bears("prefill", 6, after, (4, 5)) is bears


def test_a_move_that_leaves_it_no_further_out_of_bounds_is_borne() -> None:
    assert COUPLE.bears("prefill", 10, 9, (4,))
    assert not COUPLE.bears("prefill", 9, 10, (4,))


@pytest.mark.parametrize(("by_worth", "pair"), [(True, (4, 2)), (False, (6, 3))])
def test_the_richer_role_has_less_by_worth_and_the_poorer_one_more_by_votes(
    pair: tuple[int, int], *, by_worth: bool
) -> None:
    assert COUPLE.pair(Role(6, 0, 9), Role(2, 0, 9), by_worth=by_worth) == pair


def test_where_one_role_cannot_move_the_other_one_goes_along() -> None:
    assert COUPLE.pair(Role(6, 6, 6), Role(2, 0, 9), by_worth=True) == (6, 3)
    assert COUPLE.pair(Role(6, 0, 9), Role(2, 2, 2), by_worth=False) == (4, 2)


@given(a_role(), a_role(), st.booleans())
def test_a_pair_is_within_the_ratio_wherever_one_is_and_each_role_within_its_range(of: Role, to: Role, by_worth: bool) -> None:  # noqa: E501, FBT001  # fmt: skip  # as hypothesis gives it
    mine, its = COUPLE.pair(of, to, by_worth=by_worth)
    assert of.least <= mine <= of.most
    assert to.least <= its <= to.most
    within = [
        (one, other)
        for one in range(of.least, of.most + 1)
        for other in range(to.least, to.most + 1)
        if COUPLE.excess("prefill", one, other) == 0.0
    ]
    assert ((mine, its) in within) == bool(within)


@given(a_role(), a_role(), st.booleans())
def test_a_pair_within_the_ratio_stays(of: Role, to: Role, by_worth: bool) -> None:  # noqa: FBT001  # as hypothesis gives it
    if COUPLE.excess("prefill", of.aim, to.aim) == 0.0:
        assert COUPLE.pair(of, to, by_worth=by_worth) == (of.aim, to.aim)
