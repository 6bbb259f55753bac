"""How the best of many settings is found."""

from dataclasses import replace

import pytest

from rebalancer.sim.peers import static
from rebalancer.sim.peers.static import Static
from rebalancer.sim.suite.peers import TARGETS, Peer
from rebalancer.sim.suite.search import Search, SearchOutcome


def a_peer(*signals: str, targets: tuple[float, ...] = TARGETS, reach: tuple[float, float] = (0.2, 1.2)) -> Peer:
    reaches = dict.fromkeys(signals, reach)
    return Peer("peer", {name: lambda _: Static() for name in signals}, (static,), targets, reaches)


def valley(bottoms: dict[str, tuple[float, float]]) -> tuple[list[str], "Search"]:
    """A peer whose headline, by signal, is least (the second number) at the first number, and grows beside it."""
    judged: list[str] = []

    def judge(tuning: str, limit: float) -> SearchOutcome | None:
        judged.append(tuning)
        signal, _, target = tuning.partition("@")
        at, least = bottoms[signal]
        value = least + abs(float(target) - at)
        return SearchOutcome(value, 0.0) if value <= limit else None

    return judged, Search(a_peer(*bottoms), judge)


@pytest.mark.parametrize("at", [0.2, 0.225, 0.425, 0.5, 0.675, 0.8, 1.0, 1.075, 1.2])
def test_the_bottom_of_a_valley_is_found_within_reach_and_beyond_the_first_targets(at: float) -> None:
    _, search = valley({"work": (at, 0.1)})
    assert search.best() == f"work@{at:g}"


def test_the_better_signal_wins_and_the_worse_one_is_given_up() -> None:
    judged, search = valley({"work": (0.725, 0.1), "gpu-util": (0.8, 5.0)})
    assert search.best() == "work@0.725"
    assert search.tried["gpu-util@0.8"] is None
    assert len(judged) <= len(TARGETS)  # of 2 x 21


def test_no_setting_is_judged_twice() -> None:
    judged, search = valley({"work": (0.65, 0.1), "kv": (0.75, 0.1)})
    search.best()
    assert len(judged) == len(set(judged))


def test_targets_end_where_they_mean_nothing() -> None:
    judged: list[str] = []

    def judge(tuning: str, _limit: float) -> SearchOutcome:
        judged.append(tuning)
        return SearchOutcome(-float(tuning.partition("@")[2]), 0.0)

    assert Search(a_peer("kv", reach=(0.2, 1.0)), judge).best() == "kv@1"
    assert max(float(each.partition("@")[2]) for each in judged) == 1.0


def test_of_equal_settings_the_one_with_fewer_gpu_hours_wins() -> None:
    def judge(tuning: str, _limit: float) -> SearchOutcome:
        return SearchOutcome(0.0, abs(float(tuning.partition("@")[2]) - 0.7))

    assert Search(a_peer("kv"), judge).best() == "kv@0.7"


def test_what_has_one_target_is_tuned_over_its_signals_alone() -> None:
    def judge(tuning: str, _limit: float) -> SearchOutcome:
        return SearchOutcome({"sum@99": 2.0, "fair-sum@99": 1.0}[tuning], 0.0)

    assert Search(a_peer("sum", "fair-sum", targets=(99.0,)), judge).best() == "fair-sum@99"


def test_coarse_steps_are_sketched_and_only_what_is_near_is_judged() -> None:
    judged: list[str] = []
    sketched: list[str] = []

    def cost(tuning: str) -> float:
        return abs(float(tuning.partition("@")[2]) - 0.625)

    def judge(tuning: str, _limit: float) -> SearchOutcome:
        judged.append(tuning)
        return SearchOutcome(1.0 + cost(tuning), 0.0)

    def sketch(tuning: str, _limit: float) -> SearchOutcome:
        sketched.append(tuning)
        return SearchOutcome(1.1 + cost(tuning), 0.0)

    search = Search(a_peer("work"), judge, sketch)
    assert search.best() == "work@0.625"
    assert search.tried["work@0.625"] == SearchOutcome(1.0, 0.0)
    assert len(judged) <= 7
    assert not set(sketched) & set(judged) - {"work@0.6", "work@0.7"}


def test_knobs_are_turned_one_after_the_other_from_the_best_so_far() -> None:
    judged: list[str] = []
    bottoms = {"a": 3.0, "b": 2.0, "a+fair": 0.0, "b+fair": 1.0, "b+idle": 2.0, "b+fair+idle": 1.0}

    def judge(tuning: str, _limit: float) -> SearchOutcome:
        judged.append(tuning)
        signal, _, target = tuning.partition("@")
        return SearchOutcome(bottoms[signal] + abs(float(target) - 0.725), 0.0)

    peer = replace(
        a_peer(*bottoms), few=("a", "b"), knobs=(lambda name: [f"{name}+fair"], lambda name: [f"{name}+idle"])
    )
    assert Search(peer, judge).best() == "b+fair@0.725"
    assert not any(each.startswith("a+fair") for each in judged)  # from the best so far only
    assert [each for each in judged if "idle" in each] == ["b+fair+idle@0.7", "b+fair+idle@0.5"]  # let go at once


def test_a_knob_that_matters_only_where_everybody_asks_for_the_most_is_not_let_go() -> None:
    def judge(tuning: str, _limit: float) -> SearchOutcome:
        signal, _, target = tuning.partition("@")
        low = signal.endswith("+floors") and float(target) < 0.65
        return SearchOutcome(abs(float(target) - 0.55) / 10 if low else 1.0 + abs(float(target) - 0.9), 0.0)

    peer = replace(a_peer("a", "a+floors"), few=("a",), knobs=(lambda name: [f"{name}+floors"],))
    assert Search(peer, judge).best() == "a+floors@0.55"
