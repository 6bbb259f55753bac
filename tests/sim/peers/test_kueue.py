"""Kueue's admission over wishes that come and go, and the peer that KEDA and Kueue are together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.fluid.fast import play
from rebalancer.sim.peers.hpa import HpaMetric
from rebalancer.sim.peers.keda import Keda
from rebalancer.sim.peers.kueue.controller import KedaKueue
from rebalancer.sim.peers.kueue.quota import QueueQuota
from rebalancer.sim.peers.kueue.scheduler import Scheduler
from rebalancer.sim.peers.kueue.settings import KueueSettings, every, queues
from rebalancer.sim.peers.signals import WorkRate
from rebalancer.sim.scenario import Launches, NodeChange, Scenario, ScenarioModel

SECONDS = 3600


class Wishes:
    """Replicas wanted by queue, one GPU each, as autoscalers set them one after the other."""

    def __init__(self, *nominal: float, shared: float = 0.0, fair: bool = False) -> None:
        self.scheduler = Scheduler([QueueQuota(each) for each in nominal], shared, fair=fair)
        self._now = 0

    def set(self, *wished: int) -> list[int]:
        """Admitted by queue."""
        self._now += 15
        for queue, wish in enumerate(wished):
            for _ in range(self.wished(queue) - wish):
                self.scheduler.end(queue)
        for queue, wish in enumerate(wished):
            for _ in range(wish - self.wished(queue)):
                self.scheduler.create(queue, 1, 0, self._now)
        self.scheduler.settle(self._now)
        return self.admitted

    def wished(self, queue: int) -> int:
        return self.admitted[queue] + self.gated[queue]

    @property
    def admitted(self) -> list[int]:
        return [len(each) for each in self.scheduler.cohort.admitted]

    @property
    def gated(self) -> list[int]:
        return [len(each) for each in self.scheduler.waiting]


def test_idle_quota_is_lent_and_taken_back_and_lent_the_other_way() -> None:
    wishes = Wishes(5, 5)

    assert wishes.set(10, 0) == [10, 0]
    assert wishes.set(10, 8) == [5, 5]
    assert (wishes.scheduler.preemptions, wishes.gated) == (5, [5, 3])
    assert wishes.set(3, 8) == [3, 7]


def test_beyond_the_floors_who_comes_first_keeps() -> None:
    wishes = Wishes(2, 2, shared=8)

    assert wishes.set(10, 2) == [10, 2]
    assert wishes.set(10, 9) == [10, 2]
    assert wishes.set(6, 9) == [6, 6]
    assert wishes.scheduler.preemptions == 0


def test_fair_sharing_levels_what_is_borrowed() -> None:
    wishes = Wishes(2, 2, 2, shared=6, fair=True)

    assert wishes.set(12, 0, 0) == [12, 0, 0]
    assert wishes.set(12, 8, 1) == [6, 5, 1]


def test_replicas_of_several_gpus_take_back_as_many_as_they_need() -> None:
    scheduler = Scheduler([QueueQuota(8), QueueQuota(8)])
    for _ in range(4):
        scheduler.create(0, 4, 0, 0)
    scheduler.settle(0)
    scheduler.create(1, 8, 0, 15)
    scheduler.settle(15)

    assert [len(each) for each in scheduler.cohort.admitted] == [2, 1]
    assert scheduler.preemptions == 2


A_DAY = st.lists(st.integers(0, 12), min_size=1, max_size=6)


@given(
    of=st.lists(st.tuples(st.integers(0, 8), A_DAY), min_size=1, max_size=4),
    shared=st.integers(0, 6),
    fair=st.booleans(),
)
def test_whatever_is_wished_quotas_hold_and_nobody_waits_beside_room(
    of: list[tuple[int, list[int]]], shared: int, *, fair: bool
) -> None:
    wishes = Wishes(*(nominal for nominal, _ in of), shared=shared, fair=fair)
    for step in range(max(len(each) for _, each in of)):
        wished = [each[min(step, len(each) - 1)] for _, each in of]
        admitted = wishes.set(*wished)

        assert sum(admitted) == min(sum(wished), wishes.scheduler.cohort.capacity)
        assert all(has >= min(wish, nominal) for has, wish, (nominal, _) in zip(admitted, wished, of, strict=True))
        before = wishes.scheduler.preemptions
        assert not wishes.scheduler.cycle(step)  # nothing is left to do
        assert wishes.scheduler.preemptions == before


def model(name: str, rate: float, first: int, *, gpus: int = 1, priority: float = 1.0, floor: int = 1) -> ScenarioModel:
    work = np.full(SECONDS, rate)
    work[SECONDS // 2 :] *= 2.0
    return ScenarioModel(name, work, work, first, floor, gpus=gpus, priority=priority, start_seconds=30)


def scenario(*models: ScenarioModel, gpus: int) -> Scenario:
    return Scenario("test", "0", models, (gpus,), SECONDS)


def test_where_there_is_room_for_all_it_is_keda() -> None:
    plenty = scenario(model("a", 3.0, 5), model("b", 4.0, 5), gpus=64)
    asked = [HpaMetric(WorkRate(), 0.7)]

    rationed, keda = (play(plenty, each, "peer") for each in (KedaKueue(asked, KueueSettings()), Keda(asked)))

    assert np.array_equal(rationed.ready, keda.ready)


def test_a_model_gets_its_quota_back_from_one_that_asks_for_everything() -> None:
    greedy = scenario(model("a", 20.0, 10), model("b", 2.0, 2), gpus=12)
    asked = [HpaMetric(WorkRate(), 0.7)]

    rationed, keda = (play(greedy, each, "peer") for each in (KedaKueue(asked, KueueSettings()), Keda(asked)))

    assert keda.ready[:, -1].tolist() == [10, 2]
    assert rationed.ready[:, -1].tolist() == [6, 6]  # b's 4 replica-seconds a second, at 0.7, want 6


@pytest.mark.parametrize(
    ("nominal", "expected", "left"),
    [
        ("equal", [10, 10], 0),
        ("owned", [15, 5], 0),
        ("demand", [4, 16], 0),
        ("half", [6, 5], 9),
        ("floors", [1, 1], 18),
    ],
)
def test_gpus_are_dealt_to_queues_as_chosen_and_the_rest_is_the_cohorts(
    nominal: str, expected: list[int], left: int
) -> None:
    chosen = next(each for each in every() if each == KueueSettings(nominal=nominal))  # type: ignore[arg-type]  # one of them

    made, shared = queues(scenario(model("a", 1.0, 15), model("b", 4.0, 5), gpus=20), chosen)

    assert ([queue.nominal for queue in made], shared) == (expected, left)


def test_a_replica_of_several_gpus_is_never_dealt_in_parts() -> None:
    made, shared = queues(scenario(model("a", 1.0, 1, gpus=8), model("b", 1.0, 1, gpus=3), gpus=30), KueueSettings())

    assert ([queue.nominal % gpus for queue, gpus in zip(made, (8, 3), strict=True)], shared) == ([0, 0], 2)


def test_quotas_count_machines_that_are_away_and_nodes_that_can_be_had() -> None:
    models = (model("a", 1.0, 1), model("b", 1.0, 1))
    away = Scenario(
        "test", "0", models, (4, 0), SECONDS, changes=(NodeChange(600, 1, 2),), launches=Launches(1, 3, (90,))
    )

    made, shared = queues(away, KueueSettings())

    assert sum(queue.nominal for queue in made) + shared == 4 + 2 + 3


def test_every_choice_has_a_name_of_its_own_and_the_guides_is_the_signal_alone() -> None:
    names = [settings.name for settings in every()]

    assert len(set(names)) == len(names)
    assert KueueSettings().name == "work"
    assert KueueSettings("kv-queue", "floors", "fair", window="60").name == "kv-queue+floors+fair+60"
