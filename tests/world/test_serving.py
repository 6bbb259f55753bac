"""The fluid line of requests of one model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.world import Engine, Requests
from rebalancer.world.serving import WaitingLine

ENGINE = Engine(concurrency=8.0, prompt_tokens_per_second=8000.0, seconds_per_token=0.04, patience_seconds=10.0)
SERVICE_SECONDS = 4.1  # 800 / 8000 + 100 x 0.04


def requests(count: float) -> Requests:
    return Requests(count, prompt_tokens=800 * count, generated_tokens=100 * count)


def flow(line: WaitingLine, rate: float, replicas: int, seconds: float, step: float = 0.5) -> None:
    for _ in range(round(seconds / step)):
        line.flow(requests(rate * step), replicas, step)


@given(
    st.lists(st.tuples(st.floats(0, 200), st.integers(0, 5), st.sampled_from([0.1, 0.5, 1.0, 5.0])), max_size=60),
)
def test_every_request_is_waiting_running_served_or_has_given_up(steps: list[tuple[float, int, float]]) -> None:
    line = WaitingLine(ENGINE)
    for count, replicas, seconds in steps:
        line.flow(requests(count), replicas, seconds)
        assert line.arrived.count == pytest.approx(line.inside.count + line.finished, abs=1e-6)
        assert line.inside.count == pytest.approx(line.running + line.waiting)
        assert 0 <= line.running <= replicas * ENGINE.concurrency + 1e-9


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(0, 4)), min_size=1, max_size=40))
def test_arrivals_are_what_finished_and_the_change_of_what_is_inside(steps: list[tuple[float, int]]) -> None:
    """That is how the service learns them from counters and gauges."""
    line = WaitingLine(ENGINE)
    for count, replicas in steps:
        before = line.finished + line.running + line.waiting
        line.flow(requests(count), replicas, 0.5)
        assert line.finished + line.running + line.waiting - before == pytest.approx(count, abs=1e-6)


@pytest.mark.parametrize("step", [0.1, 0.5, 1.0, 2.0])
def test_at_rest_rate_times_service_time_is_running(step: float) -> None:
    line = WaitingLine(ENGINE)
    flow(line, rate=3.0, replicas=2, seconds=300, step=step)
    assert line.running == pytest.approx(3.0 * SERVICE_SECONDS, rel=1e-3)
    assert line.waiting == pytest.approx(0.0, abs=1e-6)
    assert line.utilisation == pytest.approx(3.0 * SERVICE_SECONDS / 16, rel=1e-3)


@pytest.mark.parametrize("step", [0.1, 0.5, 2.0])
def test_a_full_line_is_served_at_the_replicas_rate(step: float) -> None:
    line = WaitingLine(ENGINE)
    flow(line, rate=20.0, replicas=2, seconds=100, step=step)
    before = line.served.count
    flow(line, rate=20.0, replicas=2, seconds=100, step=step)
    assert line.served.count - before == pytest.approx(100 * 16 / SERVICE_SECONDS, rel=1e-3)


def test_who_waits_longer_than_clients_do_gives_up() -> None:
    line = WaitingLine(ENGINE)
    flow(line, rate=20.0, replicas=2, seconds=200)
    assert line.wait_seconds == pytest.approx(ENGINE.patience_seconds, rel=0.01)
    assert line.gave_up > 0


def test_without_replicas_nobody_is_served_and_latency_is_unknown() -> None:
    line = WaitingLine(ENGINE)
    flow(line, rate=2.0, replicas=0, seconds=100)
    assert line.served.count == 0
    assert line.latencies is None
    assert line.utilisation is None
    assert line.waiting == pytest.approx(2.0 * ENGINE.patience_seconds, rel=0.05)


def test_requests_on_replicas_that_went_wait_again() -> None:
    line = WaitingLine(ENGINE)
    flow(line, rate=3.0, replicas=2, seconds=100)
    line.flow(requests(1.5), 1, 0.5)
    assert line.running == 8.0
    assert line.waiting > 3.0


def test_longer_prompts_and_answers_take_longer() -> None:
    short, long = Requests(1, 100, 10), Requests(1, 8000, 500)
    assert ENGINE.service_seconds(long) == pytest.approx(1.0 + 20.0)
    assert ENGINE.first_token_seconds(long) == pytest.approx(1.0)
    assert ENGINE.service_seconds(short) < ENGINE.service_seconds(long)
