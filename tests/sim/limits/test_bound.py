"""Nobody is less late than the bound: not by luck, not by knowing the future."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.sim.controller import Controller, Seen
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.limits.bound import bound
from rebalancer.sim.limits.foresight import PerfectForesight
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.score import score
from rebalancer.sim.suite.scenarios import s2
from tests.beside import recorded_traffic


class Plan:
    """Replicas by decision, then as they are."""

    def __init__(self, every_seconds: int, rows: list[list[int]]) -> None:
        self.every_seconds = every_seconds
        self._rows = rows

    def decide(self, seen: Seen) -> list[int]:
        index = seen.now // self.every_seconds - 1
        return self._rows[index] if index < len(self._rows) else list(seen.desired)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    seconds = draw(st.integers(30, 120))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    start = draw(st.integers(1, 40))
    models = []
    for name in "abc"[: draw(st.integers(1, 3))]:
        mean = draw(st.floats(0.3, 5.0))
        shape = draw(st.sampled_from([0.1, 0.5, 3.0]))
        work = chance.gamma(shape, mean / shape, seconds)
        if draw(st.booleans()):
            at = draw(st.integers(0, seconds - 1))
            work[at : at + draw(st.integers(1, 20))] *= draw(st.floats(0.0, 6.0))
        floor = draw(st.integers(1, 2))
        models.append(
            ScenarioModel(
                name,
                work,
                chance.poisson(3.0, seconds).astype(np.float64),
                first=floor + draw(st.integers(0, 2)),
                floor=floor,
                gpus=draw(st.sampled_from([1, 1, 2])),
                start_seconds=start,
                release_seconds=draw(st.sampled_from([0, 0, 5])),
                slo_wait_seconds=draw(st.sampled_from([0.5, 2.0])),
                patience_seconds=draw(st.sampled_from([2.0, 30.0])),
            )
        )
    least = sum(model.first * model.gpus for model in models)
    return Scenario("random", "0", tuple(models), (least + draw(st.integers(0, 4)),), seconds)


@st.composite
def plans(draw: st.DrawFn, scenario: Scenario) -> Plan:
    every = draw(st.integers(1, 15))
    counts = [st.integers(model.floor, model.floor + 5) for model in scenario.models]
    return Plan(every, draw(st.lists(st.tuples(*counts).map(list), max_size=scenario.seconds // every)))


@settings(max_examples=15)
@given(data=st.data(), slot=st.sampled_from([1, 3, 5, 10]), window=st.sampled_from([40, 1000]))
def test_no_schedule_is_less_late_than_the_bound(data: st.DataObject, slot: int, window: int) -> None:
    scenario = data.draw(scenarios())
    limit = bound(scenario, window, slot).late_work_share
    controllers: list[Controller] = [Plan(10, []), PerfectForesight(), *(data.draw(plans(scenario)) for _ in range(3))]
    for controller in controllers:
        got = score(play(scenario, controller, "any"))
        assert got.floor_breaches == 0
        assert got.late_work_share >= limit - 1e-9


def test_a_lasting_overload_is_bounded_by_what_one_replica_cannot_do() -> None:
    work = np.full(1000, 2.0)
    scenario = Scenario("over", "0", (ScenarioModel("a", work, work, first=1),), (1,), 1000)
    limit = bound(scenario, window_seconds=1000)
    assert limit.work == 2000.0
    assert limit.late_work == pytest.approx(1000.0, rel=0.01)  # all but what it serves and q = 2.5 s in the queue
    assert limit.late_work <= 1000.0


def test_a_burst_shorter_than_a_start_is_late_even_if_known() -> None:
    # Two bursts of 12 a second for 20 s, one start apart or less: 10 GPUs serve one of them, none serve both.
    a, b = np.full(200, 0.5), np.full(200, 0.5)
    a[100:120], b[125:145] = 12.0, 12.0
    scenario = Scenario(
        "bursts",
        "0",
        tuple(ScenarioModel(n, w, w, first=5, start_seconds=60) for n, w in (("a", a), ("b", b))),
        (10,),
        200,
    )
    near = bound(scenario, 200).late_work_share
    quick = Scenario(
        "quick",
        "0",
        tuple(ScenarioModel(n, w, w, first=5, start_seconds=2) for n, w in (("a", a), ("b", b))),
        (10,),
        200,
    )
    assert near > 1.2 * bound(quick, 200).late_work_share > 0.0


def test_enough_gpus_make_it_nothing() -> None:
    work = np.full(300, 2.0)
    assert bound(Scenario("ample", "0", (ScenarioModel("a", work, work, first=3),), (3,), 300)).late_work_share == 0.0


def test_without_a_floor_there_is_no_bound() -> None:
    work = np.ones(60)
    with pytest.raises(ValueError, match="floor"):
        bound(Scenario("none", "0", (ScenarioModel("a", work, work, first=1, floor=0),), (1,), 60))


EVERYDAY = (0, 32, 60)  # one day's linear program takes half a minute of one core: the other seven are the proof's
DAYS = [(day, gpus, start) for day in (0, 1) for gpus in (32, 40) for start in (60, 180)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("day", "gpus", "start"),
    [pytest.param(*each, marks=[] if each == EVERYDAY else pytest.mark.proof) for each in DAYS],
)
def test_on_s2_neither_static_nor_foresight_is_below_the_bound(
    day: int, gpus: int, start: int, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = s2(recorded_traffic(), day, gpus, start)
    limit = 100 * bound(scenario).late_work_share
    shares = {
        name: 100 * score(play(scenario, controller, name)).late_work_share
        for name, controller in (("static", Plan(600, [])), ("foresight", PerfectForesight()))
    }
    with capsys.disabled():
        cell = f"S2 day {day}, {gpus} GPUs, start {start} s"
        print(f"\n{cell}, late work in %: bound {limit:.4f}, {shares}")  # noqa: T201  # a gate shows both numbers
    assert min(shares.values()) >= limit
