"""Machines that go and come on the fast path: what Karpenter brings and takes, what a notice saves, what it costs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.fluid.fast import FastWorld
from rebalancer.sim.fluid.fleet import Fleet
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import ELASTIC, PRIMARY, Launches, NodeChange, Scenario, ScenarioModel

SECONDS = 1200


def a_model(first: int, **more: float) -> ScenarioModel:
    """Two requests of 0.5 replica-seconds in each second, one replica kept busy."""
    return ScenarioModel("one", np.ones(SECONDS), np.full(SECONDS, 2.0), first, start_seconds=30, **more)  # type: ignore[arg-type]  # of several kinds


def launching(*took: int | None, most: int = 4) -> Scenario:
    """Two GPUs, and nodes of one that come as `took` says."""
    launches = Launches(1, most, took, rest_seconds=45, empty_seconds=100)
    return Scenario("one", "0", (a_model(2),), (2,), SECONDS, elastic_usd_per_gpu_hour=3600.0, launches=launches)


def played(scenario: Scenario, asks: dict[int, int]) -> Record:
    """The run in which so many replicas are asked for at those seconds on the elastic pool, beside the first ones."""
    world = FastWorld(scenario, split=bool(asks))
    for second, replicas in sorted(asks.items()):
        world.advance(second)
        world.ask(0, replicas, ELASTIC)
    world.advance(SECONDS)
    return world.record("asked")


def changes_of(values: object) -> list[tuple[int, int]]:
    """(second, new value) wherever it changes."""
    array = np.asarray(values)
    return [(int(at) + 1, int(array[at + 1])) for at in np.flatnonzero(np.diff(array))]


def test_a_waiting_pod_brings_a_node_and_an_empty_node_goes() -> None:
    record = played(launching(150), {100: 1, 500: 0})
    assert changes_of(record.ready[0]) == [(100 + 1 + 150 + 30, 3), (500, 2)]
    assert record.usd == pytest.approx(500 + 100 - 101)  # 1 USD a second, from the order to its end


def test_two_pods_bring_two_nodes_as_far_as_the_limit_goes() -> None:
    record = played(launching(150, 200, most=2), {100: 7})
    assert changes_of(record.ready[0]) == [(281, 3), (331, 4)]


def test_an_order_without_capacity_is_given_again_after_a_rest() -> None:
    record = played(launching(None, 150), {100: 1})
    # Ordered at 101, refused 3 s later, 45 s of rest.
    assert changes_of(record.ready[0]) == [(101 + 3 + 45 + 150 + 30, 3)]
    assert record.usd == pytest.approx(SECONDS - 149)  # what was refused costs nothing


def test_a_node_that_nobody_waits_for_any_more_comes_and_goes() -> None:
    record = played(launching(150), {100: 1, 120: 0})
    assert record.ready[0].max() == 2
    assert record.usd == pytest.approx(150 + 100)


def losing(notice_seconds: int) -> Scenario:
    """Two machines of one GPU; the second goes in second 600, with whoever runs there."""
    model = a_model(2, slots=32.0, scale=2.0)
    return Scenario("one", "0", (model,), (1, 1), SECONDS, elastic=1, changes=(NodeChange(600, 1, 0, notice_seconds),))


def test_requests_die_with_a_machine_that_nobody_announced() -> None:
    record = played(losing(0), {})
    # One replica-second a second on two replicas: each is half busy with 32 requests, two for each recorded one.
    assert record.lost_in_flight == pytest.approx(0.5 * 32 / 2)
    assert changes_of(record.ready[0]) == [(600, 1)]


def test_a_machine_that_is_announced_is_empty_before_it_goes() -> None:
    record = played(losing(120), {})
    assert record.lost_in_flight == 0.0
    assert changes_of(record.ready[0]) == [(482, 1)]  # Karpenter drains it two seconds after the notice


def test_a_drained_replica_comes_again_where_there_is_room() -> None:
    record = played(replace(losing(120), models=(a_model(3),), nodes=(2, 1, 1), elastic=2), {})
    assert changes_of(record.ready[0]) == [(482, 2), (482 + 30, 3)]
    assert (record.starts, record.stops) == (1, 1)


def test_a_deployment_for_a_pool_lands_there_and_nowhere_else() -> None:
    scenario = Scenario("one", "0", (a_model(1),), (4, 1), SECONDS, elastic=1)
    world = FastWorld(scenario, split=True)
    world.ask(0, 3, ELASTIC)
    world.advance(100)
    assert world.fleet.desired_in(PRIMARY) == [1]
    assert world.fleet.ready_in(ELASTIC) == [1]
    assert world.seen.ready_elastic == [1]
    assert (world.fleet.ready, world.fleet.waiting) == ([2], [2])


def test_gpus_of_both_pools_have_their_price() -> None:
    scenario = Scenario(
        "one", "0", (a_model(2),), (2, 1), SECONDS, usd_per_gpu_hour=6.0, elastic=1, elastic_usd_per_gpu_hour=3.0
    )
    assert played(scenario, {600: 1}).usd == pytest.approx(2 * 6.0 / 3 + 3.0 / 6)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "drain", "become", "pass"]), st.integers(0, 2), st.integers(0, 6), st.booleans()
        ),
        max_size=30,
    )
)
def test_counts_of_a_fleet_are_those_of_its_pods(deeds: list[tuple[str, int, int, bool]]) -> None:
    models = (a_model(1, release_seconds=7), replace(a_model(1), gpus=2))
    fleet = Fleet(models, [4, 2, 2], pool_of=[PRIMARY, ELASTIC, ELASTIC], split=True)
    size, now = [4, 2, 2], 0
    for deed, node, number, flag in deeds:
        if deed == "ask":
            fleet.ask(node % 2, number, ELASTIC if flag else PRIMARY)
        elif deed == "drain":
            fleet.drain(node)
        elif deed == "become":
            size[node] = 2 if flag else 0
            fleet.become(node, size[node])
        else:
            now += 5 * number
        fleet.advance(now)
        for index, model in enumerate(models):
            counted = fleet.ready[index] + fleet.loading[index] + fleet.waiting[index]
            assert counted == fleet.desired[index] == sum(fleet.desired_in(pool)[index] for pool in (PRIMARY, ELASTIC))
            assert model.gpus * fleet.waiting[index] >= 0
        assert fleet.used == sum(fleet.used_in) == sum(size) - sum(fleet.free)
        assert min(fleet.free) >= 0


def test_a_replica_that_fits_nowhere_at_first_waits_and_loads_when_it_gets_a_node() -> None:
    fleet = Fleet((replace(a_model(1), first=3, start_seconds=60),), [2, 0])
    assert (fleet.ready, fleet.loading, fleet.waiting) == ([2], [0], [1])
    fleet.become(1, 1)
    fleet.advance(1)
    assert (fleet.ready, fleet.loading, fleet.waiting) == ([2], [1], [0])
    fleet.advance(62)
    assert (fleet.ready, fleet.loading, fleet.waiting) == ([3], [0], [0])


def test_a_replica_that_waited_for_gpus_and_starts_in_no_time_is_ready_once_they_are_free() -> None:
    model = ScenarioModel("one", np.ones(9), np.ones(9), 2, start_seconds=0, release_seconds=5)
    fleet = Fleet((model, replace(model, name="other")), [4])
    fleet.ask(0, 1)
    fleet.ask(1, 3)
    fleet.advance(4)
    assert (fleet.ready, fleet.waiting) == ([1, 2], [0, 1])
    fleet.advance(5)
    assert (fleet.ready, fleet.loading, fleet.waiting) == ([1, 3], [0, 0], [0, 0])
