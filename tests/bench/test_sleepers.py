"""The bench of sleeping engines: which victims it chooses, and that the service sees the starts that happen."""

from collections import Counter
from dataclasses import replace

import msgspec

from rebalancer.domain.plan import Change
from rebalancer.sim.product import default_policy
from rebalancer.sim.product.ears import Ears
from rebalancer.sim.product.stage import Stage
from rebalancer.sim.scenario import Scenario
from rebalancer.state import ClusterState
from rebalancer.world.slots import Sleeping, Slots
from tests.bench.sleepers import cut, twin_victims
from tests.builders import a_pod, a_target
from tests.sim.product.scenarios import a_surge


def a_release(**fields: object) -> Change:
    """`a` gives its replica `a-1` to `b`; `a-2` is Ready, too, `a-3` loads."""
    pods = (a_pod("a-1"), a_pod("a-2"), a_pod("a-3", phase="loading"))
    change = Change("1-a-x", "release", "a", a_target("a", pods=pods), 3, 2, 1, "")
    return msgspec.structs.replace(
        change, **{"victims": (pods[0].uid,), "victim_names": ("a-1",), "recipients": ("b",)} | fields
    )


def surge_on(gpus: int) -> Scenario:
    scenario = a_surge()
    return replace(scenario, nodes=(gpus,))


def chosen(change: Change, asleep: dict[str, list[str]]) -> tuple[str, ...]:
    return twin_victims(change, lambda uid: asleep.get(uid, [])).victim_names


def test_the_ready_victim_is_the_one_on_whose_gpu_the_recipients_engine_sleeps() -> None:
    uids = {pod.name: pod.uid for pod in a_release().target.pods}
    assert chosen(a_release(), {uids["a-2"]: ["b", "a"]}) == ("a-2",)
    assert chosen(a_release(), {uids["a-2"]: ["c", "a"]}) == ("a-1",)
    assert chosen(a_release(), {uids["a-1"]: ["b"], uids["a-2"]: ["b"]}) == ("a-1",)
    assert chosen(a_release(recipients=()), {uids["a-2"]: ["b"]}) == ("a-1",)


def test_one_that_loads_goes_before_any_twin_as_its_replica_set_has_it() -> None:
    uids = {pod.name: pod.uid for pod in a_release().target.pods}
    loading = a_release(victims=(uids["a-3"],), victim_names=("a-3",))
    assert chosen(loading, {uids["a-2"]: ["b"]}) == ("a-3",)


def test_hours_are_cut_from_a_day_and_its_gpus_stand_on_nodes_of_eight() -> None:
    whole = surge_on(24)
    hours = cut(whole, 600, 1200)
    assert (hours.seconds, hours.nodes) == (600, (8, 8, 8))
    assert hours.models[0].work.tolist() == whole.models[0].work[600:1200].tolist()


def test_the_service_sees_the_kinds_of_starts_that_happen() -> None:
    scenario = cut(surge_on(8), 0, 1800)
    policy = default_policy(scenario)
    slots = Slots(Sleeping(2, warm_seconds=40.0), policy.models[0].namespace)
    stage = Stage(scenario, policy, slots=slots)
    state = ClusterState(policy, stage.world.now)
    ears = Ears(stage.world, state)
    slots.kinds.clear()
    for turn in range(12):
        for number, deployment in enumerate(stage.deployments):
            stage.world.scale(deployment.ref, 4 if number == turn % 3 else 2)
        for _ in range(130):
            stage.world.advance(stage.world.now + 1.0)
            ears.hear()
    seen = Counter({(kind, model): count for (model, _, kind), count in state.starts.counts.items()})
    assert seen == slots.kinds
    assert {kind for kind, _ in seen} == {"hot", "warm"}
