"""Gate D: in the fluid mode nobody has less late work than the bound."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec
import pytest

from rebalancer.sim.fluid.fast import play
from rebalancer.sim.limits.bound import bound
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.suite.gates import bound_kept
from rebalancer.sim.suite.peers import PEERS, Peer
from rebalancer.sim.suite.row import BOUND, Row, played
from rebalancer.sim.suite.scenarios import s2, s7
from tests.beside import recorded_traffic

BEGIN, END = 1740, 2640  # a minute before the first surge until it is over: what the program solves in seconds


def surge() -> Scenario:
    whole = s7(gpus=15, start_seconds=60)
    models = tuple(
        replace(model, work=model.work[BEGIN:END].copy(), requests=model.requests[BEGIN:END].copy())
        for model in whole.models
    )
    return replace(whole, models=models, seconds=END - BEGIN, surges=())


TIGHT = surge()


def row(scenario: Scenario, controller: str, tuning: str | None = None) -> Row:
    return Row(scenario.name, scenario.day, scenario.gpus, 60, controller, None, tuning, 0)


def settings(peer: Peer) -> list[str | None]:
    """Each of the signals that tuning begins with, at the target that is its default."""
    return [f"{signal}@{peer.default:g}" for signal in peer.begins] if peer.targets else [None]


def everybody(scenario: Scenario, least: float) -> Iterator[tuple[bool, str]]:
    """Whether each peer keeps the bound, for each of its settings, and both numbers."""
    limit = msgspec.structs.replace(row(scenario, BOUND), late_work_share=least)
    for peer in PEERS:
        for tuning in settings(peer) if peer.plays(scenario.name) else ():
            record = play(scenario, peer.make(tuning), peer.name)
            yield from bound_kept([played(row(scenario, peer.name, tuning), record).row, limit])


def judged(capsys: pytest.CaptureFixture[str], told: Iterable[tuple[bool, str]], title: str) -> None:
    lines = list(told)
    with capsys.disabled():
        print(f"\ngate D, {title}:", *(numbers for _, numbers in lines), sep="\n  ")  # noqa: T201  # gates tell both numbers
    assert len(lines) >= len(PEERS) - 1
    assert all(holds for holds, _ in lines)


@pytest.fixture(scope="module")
def least() -> float:
    return bound(TIGHT).late_work_share


def test_no_peer_has_less_late_work_than_the_bound(least: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert least > 0.01  # a bound of nothing would hold always
    judged(capsys, everybody(TIGHT, least), "one surge")


def test_the_product_has_no_less_late_work_than_the_bound(least: float, capsys: pytest.CaptureFixture[str]) -> None:
    limit = msgspec.structs.replace(row(TIGHT, BOUND), late_work_share=least)
    ours = played(row(TIGHT, "ours"), play_product(TIGHT, default_policy(TIGHT))).row
    ((holds, numbers),) = bound_kept([ours, limit])
    with capsys.disabled():
        print(f"\ngate D, one surge: {numbers}")  # noqa: T201  # gates tell both numbers
    assert holds


WHOLE_DAY = pytest.mark.proof  # half a minute for a day's bound, two for its peers, on a free core


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "case",
    ["S7 16", "S7 24", pytest.param("S2 0 32 60", marks=WHOLE_DAY), pytest.param("S2 1 40 180", marks=WHOLE_DAY)],
)
def test_no_peer_has_less_late_work_than_the_bound_in_the_suites_scenarios(
    case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *numbers = case.split()
    which = [int(number) for number in numbers]
    scenario = s7(which[0], 60) if name == "S7" else s2(recorded_traffic(), *which)
    limit = bound(scenario)
    assert limit.unsolved == 0
    judged(capsys, everybody(scenario, limit.late_work_share), case)


def test_who_is_below_the_bound_is_found() -> None:
    def late(controller: str, share: float | None, day: str = "1") -> Row:
        return Row("S2", day, 32, 60, controller, None, None, 0, late_work_share=share)

    rows = [late("keda", 0.009), late("hpa", 0.01), late("bound", 0.01), late("keda", 0.0, day="0"), late("kpa", None)]

    assert list(bound_kept(rows)) == [
        (False, "S2 1 32 60 keda: 0.900 % late work, bound 1.000 %"),
        (True, "S2 1 32 60 hpa: 1.000 % late work, bound 1.000 %"),
    ]
