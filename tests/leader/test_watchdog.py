"""The thread that ends a process whose right has ended, though its event loop hangs."""

import threading

from rebalancer.leader.watchdog import GRACE_SECONDS, Watchdog


def test_it_ends_the_process_once_the_grace_is_over_while_nothing_else_runs() -> None:
    ended = threading.Event()
    asked = iter([0.0, 0.0, 1.9, GRACE_SECONDS])
    Watchdog(lambda: next(asked), ended.set).start()
    assert ended.wait(5.0)  # this thread does nothing meanwhile, as a loop that hangs
    assert list(asked) == []


def test_a_watchdog_that_was_stopped_ends_nothing() -> None:
    ended, looked = threading.Event(), threading.Event()
    for_seconds = [0.0]

    def asked() -> float:
        looked.set()
        return for_seconds[0]

    watchdog = Watchdog(asked, ended.set)
    watchdog.start()
    assert looked.wait(5.0)
    watchdog.stop()
    for_seconds[0] = 99.0
    assert not ended.wait(0.3)
