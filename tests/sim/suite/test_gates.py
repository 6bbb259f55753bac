"""Gate D: in the fluid mode nobody has less late work than the bound."""

from dataclasses import replace

import msgspec
import pytest

from rebalancer.sim.fast import play
from rebalancer.sim.limits.bound import bound
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.suite.gates import bound_kept
from rebalancer.sim.suite.peers import PEERS
from rebalancer.sim.suite.row import BOUND, Row, played
from rebalancer.sim.suite.scenarios import s7

BEGIN, END = 1740, 2640  # a minute before the first surge until it is over: what the program solves in seconds


def surge() -> Scenario:
    whole = s7(gpus=15, start_seconds=60)
    models = tuple(
        replace(model, work=model.work[BEGIN:END].copy(), requests=model.requests[BEGIN:END].copy())
        for model in whole.models
    )
    return replace(whole, models=models, seconds=END - BEGIN, surges=())


TIGHT = surge()


def row(scenario: Scenario, controller: str) -> Row:
    return Row(scenario.name, scenario.day, scenario.gpus, 60, controller, None, None, 0)


def record(name: str) -> Record:
    if name == "ours":
        return play_product(TIGHT, default_policy(TIGHT))
    peer = next(peer for peer in PEERS if peer.name == name)
    return play(TIGHT, peer.make(peer.tunings[8] if peer.targets else None), name)


@pytest.fixture(scope="module")
def limit() -> Row:
    return msgspec.structs.replace(row(TIGHT, BOUND), late_work_share=bound(TIGHT).late_work_share)


@pytest.mark.parametrize("name", [*(peer.name for peer in PEERS), "ours"])
def test_nobody_has_less_late_work_than_the_bound(name: str, limit: Row, capsys: pytest.CaptureFixture[str]) -> None:
    ((holds, numbers),) = bound_kept([played(row(TIGHT, name), record(name)).row, limit])

    with capsys.disabled():
        print(f"\ngate D: {numbers}")  # noqa: T201  # gates tell both numbers
    assert limit.late_work_share is not None
    assert limit.late_work_share > 0.01  # a bound of nothing would hold always
    assert holds


def test_who_is_below_the_bound_is_found() -> None:
    def late(controller: str, share: float | None, day: str = "1") -> Row:
        return Row("S2", day, 32, 60, controller, None, None, 0, late_work_share=share)

    rows = [late("keda", 0.009), late("hpa", 0.01), late("bound", 0.01), late("keda", 0.0, day="0"), late("kpa", None)]

    assert list(bound_kept(rows)) == [
        (False, "S2 1 32 60 keda: 0.900 % late work, bound 1.000 %"),
        (True, "S2 1 32 60 hpa: 1.000 % late work, bound 1.000 %"),
    ]
