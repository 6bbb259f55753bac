"""A pytest plugin that `make test` and `make check` ask for (`-p tests.halves`): the two halves of a run side by side.

Tests on the testbed's one stack mostly wait for other people's controllers: their 20 minutes keep less than half a core
busy, and most others compute. So the first have this process, and the others a second pytest of the same arguments and
seed, at a lower priority: what has deadlines of its own goes first. Whatever the second reports is told and counted
here: one summary, one exit code. A run without the stack is halved by modules where it is long enough to gain by that;
any other has one process.
"""

import ast
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self
from zlib import crc32

import pytest

from tests.testbed.build import RECIPES, BuildFailed, Missing, build
from tests.testbed.process import Reaper

# Where both halves want the same core, the second has a quarter of it: the kernel weighs 5 as 335, 0 as 1024.
_NICENESS = 5
_LONG_TESTS = 1000  # a second process costs 5 to 10 s of collecting
_LOOK_SECONDS = 0.5
_STOP_SECONDS = 10.0
_LOG_BYTES = 4000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reports-to", metavar="FILE", type=Path, help="be the second half: run it, report into FILE")


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, bool, bool]:
    """Run one of the halves; the first starts the second, and does not end before it."""
    config = session.config
    first, second = _halved(session.items)
    if file := config.getoption("reports_to"):
        session.items = second
        config.pluginmanager.register(_Reporter(config, file))
        return (yield)
    if not (first and second) or session.testsfailed or config.option.collectonly:
        return (yield)
    if any(item.get_closest_marker("real") for item in first):
        _build_everything()
    session.items = first
    with _SecondHalf(session, second) as second_half:
        config.pluginmanager.register(second_half)
        done = yield
        second_half.wait()
        return done


def _halved(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The same in both processes, whose items are the same."""
    first = [item for item in items if _on_the_stack(item)]
    if not first and len(items) >= _LONG_TESTS:
        first = [item for item in items if crc32(item.path.as_posix().encode()) % 2]
    chosen = {*first}
    return first, [item for item in items if item not in chosen]


def _on_the_stack(item: pytest.Item) -> bool:
    return "stack" in getattr(item, "fixturenames", ())


def _build_everything() -> None:
    """Compilers would take both cores from tests that have deadlines. What cannot be built, its tests will say."""
    for piece in RECIPES:
        with suppress(Missing, BuildFailed):
            build(piece)


class _Reporter:
    """In the second half: writes each report as a line of Python literals (in JSON a tuple would come back a list)."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self._config = config
        self._file = file.open("a", buffering=1)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        written = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._file.write(f"{written!r}\n")

    def pytest_sessionfinish(self) -> None:
        self._file.close()


class _SecondHalf:
    """In the first half: the process of the second. Between two tests of its own the first tells what came from it.

    Ends with the `with` block, or with this process if that is killed.
    """

    def __init__(self, session: pytest.Session, items: Iterable[pytest.Item]) -> None:
        config = session.config
        folder = Path(tempfile.mkdtemp(prefix="rebalancer-second-half-"))
        self._session = session
        self._untold = {item.nodeid for item in items}
        self._failed = False
        self._log = folder / "log"
        self._reaper = Reaper(folder)
        reports = folder / "reports"
        self._reports = reports.open("a+b")
        self._piece = b""  # of a line that is still being written
        seed = config.getoption("randomly_seed", None)
        command = [
            *("nice", f"-n{_NICENESS}", sys.executable, "-m", "pytest", *config.invocation_params.args),
            f"--reports-to={reports}",
            *([f"--randomly-seed={seed}"] if seed is not None else []),
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  the command that started this process, once more
                command,
                cwd=config.invocation_params.dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._reaper.watch(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # its fixtures end what they started
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        self._reports.close()
        self._reaper.close()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        done = yield
        self._tell()
        return done

    def wait(self) -> None:
        """Tell the rest as it comes. Raises `Session.Interrupted` when it ended as no run of tests does."""
        while self._process.poll() is None:
            self._tell()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LOOK_SECONDS)
        self._tell()
        code, untold = self._process.returncode, self._untold if not self._session.shouldfail else ()
        if untold or code != (pytest.ExitCode.TESTS_FAILED if self._failed else pytest.ExitCode.OK):
            end = self._log.read_bytes()[-_LOG_BYTES:].decode(errors="replace")
            missed = f" and did not run {len(untold)} tests, {min(untold)} among them" if untold else ""
            raise self._session.Interrupted(f"the second half ended with {code}{missed}; its last words:\n{end}")

    def _tell(self) -> None:
        *lines, self._piece = (self._piece + self._reports.read()).split(b"\n")
        for line in lines:
            self._tell_one(ast.literal_eval(line.decode()))

    def _tell_one(self, written: object) -> None:
        config = self._session.config
        report = config.hook.pytest_report_from_serializable(config=config, data=written)
        if report.when == "setup":
            config.hook.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)
        config.hook.pytest_runtest_logreport(report=report)
        self._failed |= report.failed
        if report.when == "teardown":
            config.hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)
            self._untold.discard(report.nodeid)
