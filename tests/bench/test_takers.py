"""The bench of workers that take what is idle: they have GPUs of the case, and are not counted among who is late."""

from tests.bench.takers import offering, played
from tests.sim.product.scenarios import GPUS, a_surge


def test_workers_have_what_is_idle_break_no_floor_and_no_request_is_counted_twice() -> None:
    scenario = a_surge(1800)
    without, beside = played(scenario)
    assert without.hours == 0.0
    assert 0.1 < beside.hours < GPUS * scenario.seconds / 3600
    assert beside.requests == without.requests > 0.0
    assert beside.floor_breaches == 0


def test_only_the_workers_take_what_is_idle() -> None:
    _, policy = offering(a_surge(60))
    assert [model.id for model in policy.models if model.takes_idle] == ["nightly"]
