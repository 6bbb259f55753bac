"""Counts under pools and nodes, against the optimum found by trying every way to seat them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.shares.curves import Curve
from rebalancer.planning.shares.places import MOST_UNIONS, Claim, Space, share_places, smallest, unions


def seats(claims: Sequence[Claim], counts: Sequence[int], spaces: Mapping[str, Space]) -> bool:
    """Whether so many replicas can be seated, large ones first, in every order of pools and nodes."""
    pods = sorted(
        (
            (claim.pod_gpus, tuple(sorted(claim.pools)))
            for claim, n in zip(claims, counts, strict=True)
            for _ in range(n)
        ),
        reverse=True,
    )
    gpus = {name: space.gpus for name, space in spaces.items()}
    nodes = {
        name: [node for node, many in space.nodes for _ in range(many)] or [space.gpus]
        for name, space in spaces.items()
    }
    return _seat(pods, gpus, nodes)


def _seat(pods: list[tuple[int, tuple[str, ...]]], gpus: dict[str, int], nodes: dict[str, list[int]]) -> bool:
    if not pods:
        return True
    (size, pools), *others = pods
    for pool in pools:
        for place in {free: n for n, free in enumerate(nodes[pool])}.values():
            if nodes[pool][place] >= size and gpus[pool] >= size:
                nodes[pool][place] -= size
                gpus[pool] -= size
                if _seat(others, gpus, nodes):
                    return True
                nodes[pool][place] += size
                gpus[pool] += size
    return False


def every(claims: Sequence[Claim]) -> Iterator[tuple[int, ...]]:
    ranges = (range(claim.curve.least, claim.curve.least + len(claim.curve.values)) for claim in claims)
    return itertools.product(*ranges)


def cost(claims: Sequence[Claim], counts: Sequence[int]) -> float:
    return sum(claim.curve.values[n - claim.curve.least] for claim, n in zip(claims, counts, strict=True))


def best(claims: Sequence[Claim], spaces: Mapping[str, Space]) -> float | None:
    ranked = sorted(every(claims), key=lambda counts: cost(claims, counts))
    return next((cost(claims, counts) for counts in ranked if seats(claims, counts, spaces)), None)


def convex(chance: np.random.Generator, steps: int = 4) -> tuple[float, ...]:
    falls = -np.sort(-chance.gamma(1.0, 9.0, steps))
    return tuple((100.0 - np.concatenate([[0], np.cumsum(falls)])).round(6).tolist())


POOLS = (frozenset({"x"}), frozenset({"y"}), frozenset({"x", "y"}), frozenset({"y", "z"}), frozenset({"x", "y", "z"}))


def test_over_several_pools_it_is_the_optimum_for_one_gpu_and_convex_curves() -> None:
    chance = np.random.default_rng(3)
    tight = 0
    for _ in range(40):
        claims = [Claim(Curve(int(chance.integers(0, 2)), convex(chance)), POOLS[chance.integers(0, 5)]) for _ in "abc"]
        spaces = {name: Space(int(chance.integers(1, 6))) for name in "xyz"}
        exact = best(claims, spaces)
        if exact is None:
            continue
        counts = share_places(claims, spaces)
        assert seats(claims, counts, spaces)
        assert cost(claims, counts) == pytest.approx(exact)
        together = {"all": Space(sum(space.gpus for space in spaces.values()))}
        tight += (
            cost(claims, share_places([one._replace(pools=frozenset({"all"})) for one in claims], together)) < exact
        )
    assert tight > 10, "in many of these worlds the pools bind"


def test_with_large_replicas_on_the_nodes_of_one_pool_it_is_near_the_optimum_and_can_be_seated() -> None:
    chance = np.random.default_rng(4)
    gap = gained = 0.0
    for _ in range(60):
        claims, spaces = some_sizes(chance, POOLS[:1])
        counts = share_places(claims, spaces)
        assert seats(claims, counts, spaces)
        exact = best(claims, spaces)
        assert exact is not None
        assert cost(claims, counts) > exact - 1e-6
        gap += cost(claims, counts) - exact
        gained += cost(claims, (0,) * len(claims)) - exact
    assert gap < 0.005 * gained


def test_with_large_replicas_on_several_pools_nearly_all_of_what_it_says_can_be_seated() -> None:
    # Only sums are looked at: that one model's rest on two pools makes no whole replica is not always seen.
    chance = np.random.default_rng(5)
    cannot, gap, gained = 0, 0.0, 0.0
    for _ in range(60):
        claims, spaces = some_sizes(chance, POOLS[:3])
        counts = share_places(claims, spaces)
        if not seats(claims, counts, spaces):
            cannot += 1
            continue
        exact = best(claims, spaces)
        assert exact is not None
        gap += cost(claims, counts) - exact
        gained += cost(claims, (0,) * len(claims)) - exact
    assert cannot <= 3
    assert gap < 0.005 * gained


def some_sizes(chance: np.random.Generator, pools: Sequence[frozenset[str]]) -> tuple[list[Claim], dict[str, Space]]:
    """Three models of 1, 2 or 4 GPUs per replica, on pools of one or two nodes."""
    claims = []
    for _ in "abc":
        size = int(chance.choice([1, 1, 2, 4]))
        claims.append(Claim(Curve(0, convex(chance, 3), size), pools[int(chance.integers(0, len(pools)))], size))
    nodes = {name: tuple(int(n) for n in chance.integers(1, 9, int(chance.integers(1, 3)))) for name in "xy"}
    return claims, {name: Space.of(sum(nodes[name]), nodes[name]) for name in nodes}


@given(st.data())
def test_it_keeps_to_what_sets_of_models_can_have_whatever_the_sizes_and_curves(data: st.DataObject) -> None:
    claims = [
        Claim(
            Curve(0, tuple(map(float, data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=4)))), size),
            data.draw(st.sampled_from(POOLS)),
            size,
        )
        for size in data.draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4))
    ]
    nodes = {name: tuple(data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=2))) for name in "xyz"}
    spaces = {name: Space.of(data.draw(st.integers(0, sum(own))), own) for name, own in nodes.items()}
    counts = share_places(claims, spaces)
    for pools in POOLS:
        for size in (1, 2, 3, 4):
            mine = [
                (one, n) for one, n in zip(claims, counts, strict=True) if one.pools <= pools and one.pod_gpus >= size
            ]
            room = sum(min(spaces[name].gpus, sum(n for n in nodes[name] if n >= size)) for name in pools)
            assert sum(one.curve.gpus * n for one, n in mine) <= room


def test_a_model_that_can_use_one_pool_only_gets_no_more_than_that_pool_holds() -> None:
    # x has 2 GPUs, y has 4. a runs on x alone and gains 9 with each replica; b and c run on y, and gain 5 and 3.
    # Shared as 6 GPUs a would have 4, b 2, c 0. It has 2 = x, and y is shared by b and c: 4 x 5 beats 3.
    a = Claim(Curve(0, (36.0, 27.0, 18.0, 9.0, 0.0)), frozenset({"x"}))
    b = Claim(Curve(0, (15.0, 10.0, 5.0, 0.0)), frozenset({"y"}))
    c = Claim(Curve(0, (9.0, 6.0, 3.0, 0.0)), frozenset({"y"}))
    assert share_places([a, b, c], {"x": Space(2), "y": Space(4)}) == (2, 3, 1)


def test_who_can_use_another_pool_leaves_the_one_that_others_need() -> None:
    # x has 2 GPUs, y has 2; b runs on both: a gets all of x, b all of y.
    a = Claim(Curve(0, (20.0, 10.0, 0.0)), frozenset({"x"}))
    b = Claim(Curve(0, (18.0, 9.0, 0.0)), frozenset({"x", "y"}))
    assert share_places([a, b], {"x": Space(2), "y": Space(2)}) == (2, 2)


def test_two_nodes_with_half_of_the_room_each_hold_no_large_replica() -> None:
    # 6 + 6 GPUs free. a takes 4 each: one per node, 8 of 12, though 12 / 4 = 3. b has the other 2 + 2.
    a = Claim(Curve(0, (30.0, 20.0, 10.0, 0.0), gpus=4), frozenset({"x"}), 4)
    b = Claim(Curve(0, (6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0)), frozenset({"x"}))
    assert share_places([a, b], {"x": Space.of(12, (6, 6))}) == (2, 4)


def test_sizes_that_do_not_divide_one_another_still_get_their_nodes() -> None:
    # A node of 3 holds one replica of 3; that 2 of its GPUs would be all for replicas of 2 says nothing about it.
    a = Claim(Curve(0, (9.0, 0.0), gpus=3), frozenset({"x"}), 3)
    b = Claim(Curve(0, (1.0, 0.0), gpus=2), frozenset({"x"}), 2)
    assert share_places([a, b], {"x": Space.of(3, (3,))}) == (1, 0)


def test_those_whose_least_does_not_fit_leave_the_others_theirs() -> None:
    a = Claim(Curve(3, (1.0, 0.0)), frozenset({"x"}))
    b = Claim(Curve(0, (9.0, 3.0, 0.0)), frozenset({"y"}))
    assert share_places([a, b], {"x": Space(2), "y": Space(2)}) == (3, 2)


def test_a_pool_that_is_paid_by_the_hour_is_no_larger_than_what_is_worth_it() -> None:
    # a needs 3 and b 2; x has 4 for nothing, so 1 of the 8 on offer in y is bought.
    a = Claim(Curve(0, (9.0, 6.0, 3.0, 0.0)), frozenset({"x", "y"}))
    b = Claim(Curve(0, (9.0, 6.0, 0.0)), frozenset({"x", "y"}))
    assert smallest([a, b], (3, 2), {"x": Space(4), "y": Space(8)}, ["y"])["y"].gpus == 1


def test_what_only_the_paid_pool_can_hold_is_bought_though_others_idle() -> None:
    a = Claim(Curve(0, (9.0, 0.0)), frozenset({"y"}))
    b = Claim(Curve(0, (9.0, 0.0)), frozenset({"x", "y"}))
    assert smallest([a, b], (1, 1), {"x": Space(4), "y": Space(8)}, ["y"])["y"].gpus == 1


def test_gpus_of_a_paid_pool_that_take_no_pod_are_none_that_are_worth_it() -> None:
    # 8 of its 16 GPUs are on a node that is closed: a's one replica is on the other one.
    a = Claim(Curve(0, (9.0, 0.0)), frozenset({"y"}))
    assert smallest([a], (1,), {"y": Space.of(16, (8,))}, ["y"])["y"].gpus == 1


def test_nobody_shares_nothing() -> None:
    assert share_places([], {"x": Space(4)}) == ()


class TestManyPools:
    @pytest.mark.parametrize("hub", [True, False])
    def test_of_a_million_unions_of_pools_few_are_looked_at(self, *, hub: bool) -> None:
        # 20 models, each on a pool of its own and on one that is everybody's, or on two neighbours of a ring.
        sets = {frozenset({f"p{place}", "hub" if hub else f"p{(place + 1) % 20}"}) for place in range(20)}
        few = unions(sets)
        assert sets < few
        assert len(few) < MOST_UNIONS

    def test_neighbours_on_a_ring_have_no_more_than_their_pools_hold(self) -> None:
        # Three models that gain most have the four pools between them, of 2 GPUs each, and others what is left.
        names = [f"p{place}" for place in range(20)]
        late = [tuple(100.0 * (9 - n) for n in range(9)) if place < 3 else (9.0, 8.0, 7.0) for place in range(20)]
        claims = [
            Claim(Curve(0, late[place]), frozenset({names[place], names[(place + 1) % 20]})) for place in range(20)
        ]
        counts = share_places(claims, {name: Space(2) for name in names})
        assert sum(counts[:3]) == 8
        assert sum(counts) == 40
