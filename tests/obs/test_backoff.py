"""Waits between failures grow, stay within their cap, and begin small again after a success."""

import random

from rebalancer.obs.backoff import Backoff


def test_the_ceiling_doubles_up_to_the_cap_and_a_wait_is_its_half_to_the_whole() -> None:
    for seed in range(200):
        backoff = Backoff(random.Random(seed), 1.0, 10.0)
        waits = [backoff.failed() for _ in range(7)]
        for wait, ceiling in zip(waits, (1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0), strict=True):
            assert ceiling / 2 <= wait <= ceiling


def test_clients_that_failed_together_do_not_come_back_together() -> None:
    first = {Backoff(random.Random(seed), 1.0, 10.0).failed() for seed in range(100)}
    assert max(first) - min(first) > 0.4


def test_after_a_success_the_next_failure_waits_as_the_first() -> None:
    backoff = Backoff(random.Random(1), 1.0, 10.0)
    for _ in range(5):
        backoff.failed()
    backoff.succeeded()
    assert backoff.failures == 0
    assert backoff.failed() <= 1.0


def test_a_week_of_failures_does_not_overflow() -> None:
    backoff = Backoff(random.Random(1), 1.0, 10.0)
    assert max(backoff.failed() for _ in range(60_000)) <= 10.0
