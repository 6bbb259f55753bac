"""What late requests are made of adds up, and starts at once are the only difference of a run that has them."""

import pytest

from rebalancer.sim.suite.cases import cases
from tests.bench.loss import FORESIGHT, Loss, at_once, parts_of
from tests.sim.product.scenarios import a_surge


def test_the_parts_add_up_to_what_the_service_loses() -> None:
    loss = Loss(0.01, 0.012, 0.017, 0.02, 0.021)
    assert sum(loss.parts.values()) == pytest.approx(loss.ours)
    assert loss.parts["not knowing a start ahead"] == pytest.approx(0.001)


def test_every_part_is_one_run_in_the_order_of_the_sums() -> None:
    runs = parts_of(cases()[0])
    assert len(runs) == len(Loss._fields)
    assert [run.who == FORESIGHT for run in runs] == [name.startswith(FORESIGHT) for name in Loss._fields]
    assert [run.at_once for run in runs] == [name.endswith("at_once") for name in Loss._fields]


def test_at_once_changes_nothing_but_starts_and_ends() -> None:
    scenario = a_surge()
    quick = at_once(scenario)
    assert {model.start_seconds for model in quick.models} == {1}
    assert all(model.work is other.work for model, other in zip(quick.models, scenario.models, strict=True))
    assert (quick.gpus, quick.seconds) == (scenario.gpus, scenario.seconds)
