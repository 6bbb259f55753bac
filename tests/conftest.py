"""What holds for every test: nothing blocks the event loop, chance is printed, CI skips nothing real."""

import asyncio
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import HealthCheck, settings

from rebalancer.obs import log

# No deadline: the machines that run this share few cores; pytest's own time limit catches the endless.
settings.register_profile("everyday", max_examples=50, deadline=None, print_blob=True)
# In CI the same examples every time: a change is judged by itself, not by what chance brings up on its day. Chance
# explores in every other run, and by hand at length.
settings.register_profile(
    "ci",
    max_examples=50,
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(  # by hand: pytest --hypothesis-profile=thorough --timeout=0 tests/planning
    "thorough", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(  # once, over night: --hypothesis-profile=million tests/planning/test_properties_machine.py
    "million", max_examples=25_000, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck)
)
IN_CI = bool(os.environ.get("CI"))
settings.load_profile("ci" if IN_CI else "everyday")


def pytest_configure() -> None:
    """Have no current event loop: asked for one, Python 3.11 else makes a loop that nobody closes. Heed Ctrl-C."""
    asyncio.set_event_loop(None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background by a script: what is ignored stays so in children, and Ctrl-C could not be tried.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Outages last: a restarted API server refuses custom resources, has read no roles and has backed-off clients."""
    items.sort(key=lambda item: item.get_closest_marker("outage") is not None)


@pytest.fixture(scope="session", autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    """Raise BlockingError wherever code under an event loop sleeps, reads a file or a socket."""
    with blockbuster_ctx() as guard:
        yield guard


@pytest.fixture
def may_block(blockbuster: BlockBuster) -> Iterator[None]:
    """The client library's login, which reads files in a thread with a loop of its own, and a test's own files."""
    blockbuster.deactivate()
    yield
    blockbuster.activate()


@pytest.fixture(scope="session", autouse=True)
def logging_as_in_the_service() -> None:
    """Log through the service's thread: writing a line, or reading the source for a traceback, blocks a loop."""
    log.configure("info", "text")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a real part that is missing is a failure, not a skip."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("real"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: the real tier may not be skipped when CI is set: {_reason(report)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module of the real tier that skips itself while it is imported."""
    report = yield
    if IN_CI and report.skipped and "real" in collector.path.parts:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid}: the real tier may not be skipped when CI is set: {_reason(report)}"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
