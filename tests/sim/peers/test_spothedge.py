"""SpotHedge. Its project has no table of cases; these follow the rules of the paper and of `sky/serve`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.fluid.fast import play
from rebalancer.sim.peers.spothedge import HedgeSettings, SpotHedge, SpotPools, Steady, Zones, hedge
from rebalancer.sim.scenario import NodeChange, Scenario, ScenarioModel

TWO_EXTRA = HedgeSettings(target=0.7, extra=2)


@pytest.mark.parametrize(
    ("needed", "spot_ready", "expected"),
    [
        pytest.param(4, 6, SpotPools(6, 0), id="all spot is ready"),
        pytest.param(4, 5, SpotPools(6, 1), id="one short of the extra ones"),
        pytest.param(4, 1, SpotPools(6, 4), id="never more on demand than needed"),
        pytest.param(4, 0, SpotPools(6, 4), id="no spot at all"),
        pytest.param(4, 9, SpotPools(6, 0), id="more spot than wanted, while it goes"),
    ],
)
def test_on_demand_replicas_fill_what_spot_lacks(needed: int, spot_ready: int, expected: SpotPools) -> None:
    assert hedge(needed, spot_ready, TWO_EXTRA) == expected


def test_some_replicas_may_always_be_on_demand() -> None:
    settings = HedgeSettings(target=0.7, extra=1, always_on_demand=2)
    assert hedge(5, 4, settings) == SpotPools(4, 2)
    assert hedge(5, 1, settings) == SpotPools(4, 5)


@given(st.integers(0, 40), st.integers(0, 60), st.integers(0, 5))
def test_what_is_ready_and_what_is_on_demand_reach_what_is_needed(needed: int, spot_ready: int, extra: int) -> None:
    pools = hedge(needed, spot_ready, HedgeSettings(target=0.7, extra=extra))
    assert spot_ready + pools.on_demand >= needed
    assert 0 <= pools.on_demand <= needed


def test_the_number_in_force_follows_after_fifteen_and_sixty_decisions() -> None:
    steady = Steady(4)
    assert [steady.follow(6, TWO_EXTRA) for _ in range(15)] == [4] * 14 + [6]
    assert [steady.follow(3, TWO_EXTRA) for _ in range(60)] == [6] * 59 + [3]


def test_a_break_starts_the_count_again() -> None:
    steady = Steady(4)
    for _ in range(14):
        steady.follow(6, TWO_EXTRA)
    steady.follow(4, TWO_EXTRA)
    assert [steady.follow(6, TWO_EXTRA) for _ in range(15)] == [4] * 14 + [6]


def test_spot_goes_where_there_is_least_of_it_and_then_where_it_is_cheapest() -> None:
    zones = Zones({"a": 2.0, "b": 1.0, "c": 3.0})
    assert zones.next([]) == "b"
    assert zones.next(["b"]) == "a"
    assert zones.next(["b", "a", "c"]) == "b"


def test_a_zone_that_lost_a_replica_is_avoided_until_one_starts_there_or_too_few_are_left() -> None:
    zones = Zones({"a": 2.0, "b": 1.0, "c": 3.0})
    zones.lost("b")
    assert zones.active == ["a", "c"]
    zones.launched("b")
    assert zones.active == ["b", "a", "c"]
    zones.lost("b")
    zones.lost("a")
    assert zones.active == ["b", "a", "c"]


def test_on_demand_replicas_come_while_spot_is_gone_and_go_when_it_is_back() -> None:
    seconds = 3600
    model = ScenarioModel("one", np.full(seconds, 2.1), np.full(seconds, 10.0), first=3, start_seconds=30)
    controller = SpotHedge(TWO_EXTRA, lambda seen, index: 0 if 1200 <= seen.now < 2400 else seen.ready[index])
    record = play(Scenario("one", "0", (model,), (20,), seconds), controller, "spothedge")
    assert record.ready[0, [1100, 2300, 3500]].tolist() == [5, 8, 5]


def test_spot_replicas_go_to_the_elastic_pool_and_on_demand_ones_fill_what_is_missing() -> None:
    seconds = 3600
    model = ScenarioModel("one", np.full(seconds, 2.1), np.full(seconds, 10.0), first=3, start_seconds=30)
    gone = tuple(NodeChange(1200, node, 0) for node in range(1, 6))
    back = tuple(NodeChange(2400, node, 1) for node in range(1, 6))
    scenario = Scenario("one", "0", (model,), (20, *(1,) * 5), seconds, changes=gone + back, elastic=5)
    record = play(scenario, SpotHedge(TWO_EXTRA), "spothedge")
    # Three are needed and two more on spot; without spot three on demand.
    assert record.ready[0, [1100, 2300, 3500]].tolist() == [5, 3, 5]
    assert record.ready[0].min() == 0  # nobody had announced it
