"""HPA's `behavior` against kubernetes/kubernetes `pkg/controller/podautoscaler/horizontal_test.go`.

All cases of TestScalingWithRules, TestCalculateScaleUpLimitWithScalingRules, TestCalculateScaleDownLimitWithBehaviors,
TestNormalizeDesiredReplicas and TestNormalizeDesiredReplicasWithBehavior; of TestStoreScaleEvents the change that is
found in a period. Left out: the conditions' texts, how a slot of an old event is reused (nothing depends on it), and
TestConvertDesiredReplicasWithRules (the path without `behavior`; its cases come again in TestScalingWithRules).
"""

from dataclasses import dataclass

import pytest

from rebalancer.sim.peers.behaviour import DOWN, UP, Behaviour, Past, Rate, Rules, down_limit, stabilised, up_limit

NOW = 10_000.0


def rules(pods: int, pods_seconds: int, percent: int, percent_seconds: int, window_seconds: int) -> Rules:
    rates = [Rate(pods, pods_seconds)] if pods else []
    if percent:
        rates.append(Rate(percent, percent_seconds, percent=True))
    return Rules(tuple(rates), window_seconds)


def spread(sizes: tuple[int, ...], seconds: int) -> list[tuple[float, int]]:
    """Events in the middle of equal parts of the last `seconds`, the oldest first, as the project's own helper."""
    part = seconds / len(sizes) if sizes else 0.0
    return [(NOW - int(seconds - part * (index + 0.5)), size) for index, size in enumerate(sizes)]


@dataclass(frozen=True)
class Case:
    current: int
    desired: int
    least: int
    most: int
    expected: int
    up: Rules = UP
    down: Rules = DOWN
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


SCALING = {
    "desired within range": Case(5, 7, 3, 8, 7),
    "desired < min": Case(3, 1, 2, 8, 2),
    "within range when min is 0": Case(1, 0, 0, 10, 0),
    "max is the limit because max < up limit": Case(20, 1000, 1, 10, 10),
    "desired is more than the maximum": Case(100, 1000, 100, 150, 150),
    "up limit with user policies": Case(3, 1000, 1, 2000, 4, up=rules(0, 0, 1, 60, 0)),
    "down limit with user policies": Case(1000, 3, 3, 2000, 980, down=rules(20, 60, 0, 0, 0)),
    "up, default": Case(10, 50, 1, 1000, 20),
    "up, pods > percent": Case(10, 500, 1, 1000, 110, up=rules(100, 60, 100, 60, 0)),
    "up, percent > pods": Case(10, 500, 1, 1000, 20, up=rules(2, 60, 100, 60, 0)),
    "up, max with large pods": Case(10, 50, 1, 1000, 50, up=rules(100, 60, 0, 0, 0)),
    "up, max with large percent": Case(10, 50, 1, 1000, 50, up=rules(10000, 60, 0, 0, 0)),
    "up, pods limit": Case(10, 50, 1, 1000, 40, up=rules(30, 60, 0, 0, 0)),
    "up, percent limit": Case(10, 50, 1, 1000, 30, up=rules(0, 0, 200, 60, 0)),
    "down, pods > percent": Case(100, 2, 1, 1000, 80, down=rules(20, 60, 1, 60, 300)),
    "down, pods > percent, small": Case(100, 2, 1, 1000, 98, down=rules(2, 60, 1, 60, 300)),
    "down, min=nil with large pods": Case(10, 0, 1, 1000, 1, down=rules(100, 60, 0, 0, 300)),
    "down, min with large percent": Case(10, 2, 5, 1000, 5, down=rules(0, 0, 100, 60, 300)),
    "down, pods limit": Case(10, 2, 1, 1000, 5, down=rules(5, 60, 0, 0, 300)),
    "down, percent limit": Case(10, 5, 1, 1000, 5, down=rules(0, 0, 50, 60, 300)),
    "up, max, pods, events": Case(100, 500, 1, 200, 200, up=rules(300, 60, 0, 0, 0), added=(1, 5, 9)),
    "up, max, percent, events": Case(100, 500, 1, 200, 200, up=rules(0, 0, 10000, 60, 0), added=(1, 5, 9)),
    "up, many recent ups": Case(100, 500, 1, 1000, 100, up=rules(5, 120, 0, 0, 0), added=(1, 5, 9)),
    "up, pods and previous ups": Case(100, 500, 1, 1000, 235, up=rules(150, 120, 0, 0, 0), added=(1, 5, 9)),
    "up, percent and previous ups": Case(100, 500, 1, 1000, 255, up=rules(0, 0, 200, 120, 0), added=(1, 5, 9)),
    "up, ups and downs": Case(6, 24, 1, 1000, 16, up=rules(0, 0, 300, 300, 0), added=(4,), removed=(2,)),
    "down, default, events": Case(10, 5, 1, 1000, 5, removed=(1, 5, 9)),
    "down, min=nil, pods, events": Case(100, 0, 1, 1000, 1, down=rules(115, 120, 0, 0, 300), removed=(1, 5, 9)),
    "down, min, pods, events": Case(100, 0, 5, 1000, 5, down=rules(130, 120, 0, 0, 300), removed=(1, 5, 9)),
    "down, min, percent, events": Case(100, 2, 5, 1000, 5, down=rules(0, 0, 100, 120, 300), removed=(1, 5, 9)),
    "down, pods limit, events": Case(100, 2, 1, 1000, 100, down=rules(5, 120, 0, 0, 300), removed=(1, 5, 9)),
    "down, percent limit, events": Case(100, 0, 1, 1000, 56, down=rules(0, 0, 50, 120, 300), removed=(2, 4, 6)),
    "down, ups and downs": Case(10, 1, 1, 1000, 6, down=rules(0, 0, 50, 180, 0), added=(2,), removed=(4,)),
    "down, events prevent more": Case(100, 0, 1, 1000, 100, down=rules(0, 0, 10, 120, 300), removed=(10, 10, 10)),
    "down, events still allow": Case(10, 5, 1, 1000, 5, down=rules(0, 0, 1000, 120, 300), removed=(10, 10, 10)),
    "up, outdated, one": Case(100, 200, 1, 1000, 200, up=rules(1000, 60, 0, 0, 0), added=(8, 12, 9, 11)),
    "up, not outdated, two": Case(100, 200, 1, 1000, 200, up=rules(1000, 120, 100, 60, 0), added=(8, 12, 9, 11)),
    "up, outdated, two": Case(100, 200, 1, 1000, 200, up=rules(1000, 30, 100, 60, 0), added=(8, 12, 9, 11)),
    "down, outdated, one": Case(100, 5, 1, 1000, 5, down=rules(1000, 60, 0, 0, 300), removed=(8, 12, 9, 11)),
    "down, not outdated, two": Case(100, 5, 1, 1000, 5, down=rules(1000, 120, 100, 60, 300), removed=(8, 12, 9, 11)),
    "down, outdated, two": Case(100, 5, 1, 1000, 5, down=rules(1000, 30, 100, 60, 300), removed=(8, 12, 9, 11)),
}


@pytest.mark.parametrize("case", SCALING.values(), ids=SCALING.keys())
def test_rates_limit_as_the_project(case: Case) -> None:
    behaviour = Behaviour(case.up, case.down)
    changes = [(at, size) for at, size in spread(case.added, 120)] + [
        (at, -size) for at, size in spread(case.removed, 120)
    ]
    for at, by in sorted(changes):
        behaviour.changed(at, by)
    assert behaviour.follow(NOW, case.current, case.desired, case.least, case.most) == case.expected


def test_select_min_takes_the_smallest_change_as_the_project() -> None:
    either = Rules((Rate(2, 60), Rate(50, 60, percent=True)), 300, "Min")
    assert up_limit(either, NOW, 1, (), ()) == 2
    assert down_limit(either, NOW, 5, (), ()) == 3


def test_a_disabled_direction_changes_nothing() -> None:
    off = Rules((Rate(10, 60),), 0, "Disabled")
    assert up_limit(off, NOW, 5, (), ()) == 5
    assert down_limit(off, NOW, 5, (), ()) == 5


@pytest.mark.parametrize(
    ("past", "expected_change"),
    [
        pytest.param((), 0, id="empty entries"),
        pytest.param(((61, 7),), 0, id="one outdated entry"),
        pytest.param(((58, 7),), 7, id="one actual entry"),
        pytest.param(((61, 7), (59, 6)), 6, id="two entries, one outdated"),
        pytest.param(((29, 8), (59, 6), (61, 7), (61, 9)), 14, id="different periods"),
        pytest.param(((58, 7), (59, 6)), 13, id="two entries, both actual"),
    ],
)
def test_changes_of_a_period_are_summed_as_the_project(past: tuple[tuple[int, int], ...], expected_change: int) -> None:
    events: Past = [(NOW - ago, size) for ago, size in past]
    assert up_limit(Rules((Rate(1000, 60),)), NOW, 100, events, ()) == 1100 - expected_change
    assert down_limit(Rules((Rate(50, 60),)), NOW, 100, (), events) == 50 + expected_change


@pytest.mark.parametrize(
    ("past", "current", "desired", "up_seconds", "down_seconds", "expected"),
    [
        pytest.param((), 100, 5, 0, 0, 5, id="empty recommendations for scaling down"),
        pytest.param(((120, 4), (60, 5)), 100, 3, 0, 180, 5, id="simple scale down stabilization"),
        pytest.param(((120, 4), (60, 5)), 1, 7, 300, 0, 4, id="simple scale up stabilization"),
        pytest.param(((120, 1), (60, 2)), 100, 3, 300, 0, 3, id="no scale down stabilization"),
        pytest.param(((120, 4), (60, 5)), 1, 3, 0, 300, 3, id="no scale up stabilization"),
        pytest.param(((600, 10), (540, 9)), 100, 3, 0, 0, 3, id="no scale down stabilization, reuse"),
        pytest.param(((600, 10), (540, 9)), 1, 100, 0, 0, 100, id="no scale up stabilization, reuse"),
        pytest.param(((600, 10), (60, 4), (120, 5), (540, 9)), 100, 3, 0, 180, 5, id="scale down, reuse"),
        pytest.param(((6000, 10), (60, 6), (120, 5), (180, 9)), 1, 100, 300, 0, 5, id="scale up, reuse"),
        pytest.param(((6000, 2), (180, 3)), 2, 1, 300, 300, 2, id="do not scale up when the recommendation goes down"),
        pytest.param(((6000, 2), (180, 1)), 2, 3, 300, 300, 2, id="do not scale down when it goes up"),
        # TestNormalizeDesiredReplicas: only the window of decreases, so any larger current
        pytest.param((), 100, 5, 0, 300, 5, id="empty log"),
        pytest.param(((120, 4), (60, 5)), 100, 3, 0, 300, 5, id="stabilize"),
        pytest.param(((120, 1), (60, 2)), 100, 3, 0, 300, 3, id="no stabilize"),
        pytest.param(((600, 10), (540, 9)), 100, 3, 0, 300, 3, id="no stabilize - old"),
        pytest.param(((600, 10), (60, 4), (120, 5), (540, 9)), 100, 3, 0, 300, 5, id="stabilize - old"),
    ],
)
def test_recommendations_are_stabilised_as_the_project(
    past: tuple[tuple[int, int], ...],
    current: int,
    desired: int,
    up_seconds: int,
    down_seconds: int,
    expected: int,
) -> None:
    recommended = [(NOW - ago, replicas) for ago, replicas in past]
    assert stabilised(recommended, NOW, current, desired, (up_seconds, down_seconds)) == expected


def test_a_decrease_waits_for_the_window_and_then_follows() -> None:
    behaviour = Behaviour()
    assert behaviour.follow(0, 10, 10, 1, 100) == 10
    assert [behaviour.follow(at, 10, 4, 1, 100) for at in (15, 285)] == [10, 10]
    assert behaviour.follow(300, 10, 4, 1, 100) == 4


def test_what_was_asked_counts_as_a_change() -> None:
    behaviour = Behaviour(Rules((Rate(4, 60),)))
    assert behaviour.follow(0, 10, 50, 1, 100) == 14
    assert behaviour.follow(15, 14, 50, 1, 100) == 14
    assert behaviour.follow(60, 14, 50, 1, 100) == 18
