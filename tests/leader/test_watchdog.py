"""The thread that ends a process whose right has ended, though its event loop hangs."""

import asyncio
import sys
import threading
from asyncio.subprocess import PIPE

from rebalancer.leader.timing import TIMING
from rebalancer.leader.watchdog import EXIT_CODE, GRACE_SECONDS, Watchdog
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.api import EmbeddedKubernetes


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


async def test_a_process_that_leads_and_whose_loop_hangs_is_ended_and_writes_nothing_more() -> None:
    """The real elector, thread and end, in a process of its own: nothing else ends it for 20 s."""
    async with EmbeddedKubernetes(RealClock()) as api:
        api.store.put(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "rebalancer", "namespace": "rebalancer"},
                "spec": {},
            }
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.leader.hangs", api.url, stdout=PIPE, stderr=PIPE
        )
        try:
            assert process.stdout is not None
            while (line := await process.stdout.readline()) != b"leads\n":
                assert line, "it ended before it led"
            began, written = RealClock().monotonic(), len(api.audit)
            _, words = await process.communicate()
            seconds = RealClock().monotonic() - began
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert (process.returncode, b"it is ended" in words) == (EXIT_CODE, True)
        assert seconds <= TIMING.renew_seconds + GRACE_SECONDS + 0.5
        assert len(api.audit) == written
