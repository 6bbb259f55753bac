"""APA against the project's own cases: `algorithm/apa_test.go` (all 10) and `autoscaler_test.go` (APA's).

Left out: `scaler/apa_test.go` (the project skips it itself, of an older interface), and of `autoscaler_test.go` what is
about KPA, HPA, external metrics, several metrics at once (the judge gives one) and Kubernetes objects.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.fluid.fast import play
from rebalancer.sim.peers.apa import Apa, ApaSettings, allow_for_pending, cool_down, recommend
from rebalancer.sim.scenario import Scenario, ScenarioModel


@pytest.mark.parametrize(
    ("replicas", "use", "max_up", "max_down", "expected"),
    [
        pytest.param(2, 45.0, 2.0, 2.0, 3, id="basic_scale_up"),
        pytest.param(2, 35.0, 2.0, 2.0, 3, id="scale_up_upto_ceiling"),
        pytest.param(2, 90.0, 2.0, 2.0, 4, id="scale_up_upto_max_scale_up"),
        pytest.param(2, 90.0, 2.5, 2.0, 5, id="scale_up_upto_max_scale_up_ceiling"),
        pytest.param(6, 20.0, 2.0, 2.0, 4, id="basic_scale_down"),
        pytest.param(6, 18.0, 2.0, 2.0, 4, id="scale_down_upto_ceiling"),
        pytest.param(6, 10.0, 2.0, 2.0, 3, id="scale_down_upto_max_scale_down"),
        pytest.param(6, 5.0, 2.0, 2.5, 2, id="scale_down_upto_max_scale_down_floor"),
        pytest.param(2, 33.0, 2.0, 2.0, 2, id="no_scaling_as_within_up_tolerance"),
        pytest.param(2, 27.0, 2.0, 2.0, 2, id="no_scaling_as_within_down_tolerance"),
    ],
)
def test_recommends_as_the_project(replicas: int, use: float, max_up: float, max_down: float, expected: int) -> None:
    assert recommend(replicas, use, ApaSettings(30.0, max_up=max_up, max_down=max_down)) == expected


@pytest.mark.parametrize(
    ("replicas", "ready", "use", "expected"),
    [
        pytest.param(4, 2, 90.0, 4, id="apa scale-up adjusted"),
        pytest.param(4, 2, 10.0, 3, id="apa scale-down adjusted"),
        pytest.param(4, 4, 90.0, 8, id="does not hold when no replicas pending"),
        pytest.param(1, 1, 70.0, 2, id="with one metrics source"),
    ],
)
def test_allows_for_pending_replicas_as_the_project(replicas: int, ready: int, use: float, expected: int) -> None:
    settings = ApaSettings(50.0, max_up=4.0)
    assert allow_for_pending(recommend(replicas, use, settings), replicas, ready, use, 50.0) == expected


@pytest.mark.parametrize(("cooldown", "expected"), [("least", 3), ("most", 7)])
def test_a_decrease_is_chosen_among_the_recommendations_of_the_window(cooldown: str, expected: int) -> None:
    settings = ApaSettings(0.7, cooldown="least" if cooldown == "least" else "most")
    history = [(100, 1), (101, 3), (200, 7), (400, 5)]
    assert cool_down(5, 8, 400, history, settings) == expected
    assert cool_down(9, 8, 400, history, settings) == 9


@given(st.integers(1, 50), st.integers(0, 50), st.floats(0.0, 5.0), st.floats(0.1, 1.0))
def test_pending_replicas_only_soften_a_recommendation(replicas: int, ready: int, use: float, target: float) -> None:
    wanted = recommend(replicas, use, ApaSettings(target))
    softened = allow_for_pending(wanted, replicas, min(ready, replicas), use, target)
    assert min(wanted, replicas) <= softened <= max(wanted, replicas)


def test_a_loaded_model_grows_and_an_idle_one_shrinks_to_its_floor() -> None:
    seconds = 3600
    models = tuple(
        ScenarioModel(name, np.full(seconds, work), np.full(seconds, 10.0), first=4, floor=2, start_seconds=30)
        for name, work in (("busy", 5.6), ("idle", 0.1))
    )
    apa = Apa(ApaSettings(0.7, cooldown="most"))
    record = play(Scenario("two", "0", models, (16,), seconds), apa, "apa")
    assert record.ready[0, -1] == 8
    assert record.ready[1, -1] == 2
    assert record.floor_breaches == 0
