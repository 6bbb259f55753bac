"""A pytest plugin that `make test` and `make check` ask for (`-p tests.halves`): the two halves of a run side by side.

Tests on the testbed's one stack mostly wait for other people's controllers: their 20 minutes keep less than half a core
busy, and most others compute. So the first have this process, and a second pytest of the same arguments and seed begins
with the others, at a lower priority: what has deadlines of its own goes first. A long run is then shared by modules:
each process takes the next one that nobody has, this one from the front, the other from the back. Whatever the second
reports is told and counted here: one summary, one exit code. A short run without the stack has one process.
"""

import ast
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Self

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
    config, items = session.config, session.items
    first = [item for item in items if _on_the_stack(item)]
    others = [item for item in items if not _on_the_stack(item)]
    shared = _by_module(others) if len(items) >= _LONG_TESTS else {}
    if file := config.getoption("reports_to"):
        claims = _Claims(file.parent)
        _take_in_turn(session, claims.of(dict(reversed(shared.items()))) if shared else iter([others]))
        config.pluginmanager.register(_Reporter(config, file))
        return (yield)
    if not others or not (first or shared) or session.testsfailed or config.option.collectonly:
        return (yield)
    if any(item.get_closest_marker("real") for item in first):
        _build_everything()
    folder = Path(tempfile.mkdtemp(prefix="rebalancer-second-half-"))
    _take_in_turn(session, chain([first] if first else [], _Claims(folder).of(shared)))
    with _SecondHalf(session, others, folder) as second_half:
        config.pluginmanager.register(second_half)
        done = yield
        second_half.wait()
        return done


def _by_module(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The same in both processes, whose items are the same."""
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path.as_posix(), []).append(item)
    return modules


def _on_the_stack(item: pytest.Item) -> bool:
    return "stack" in getattr(item, "fixturenames", ())


def _build_everything() -> None:
    """Compilers would take both cores from tests that have deadlines. What cannot be built, its tests will say."""
    for piece in RECIPES:
        with suppress(Missing, BuildFailed):
            build(piece)


class _Claims:
    """Which modules have been taken by one of the processes: a file for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "taken"
        self._folder.mkdir(exist_ok=True)

    def of(self, modules: Mapping[str, list[pytest.Item]]) -> Iterator[list[pytest.Item]]:
        """Take one after the other, as long as the other process has not come to it from the other end."""
        for path, items in modules.items():
            try:
                (self._folder / path.replace("/", "!")).touch(exist_ok=False)
            except FileExistsError:
                return
            yield items


class _Taking:
    """Fills `session.items` while they are run: always one module ahead, so that fixtures know what is next."""

    def __init__(self, session: pytest.Session, modules: Iterator[list[pytest.Item]]) -> None:
        self._items, self._modules = session.items, modules
        self._last: pytest.Item | None = None  # the first of those taken last
        self._take()
        self._take()

    def _take(self) -> None:
        module = next(self._modules, None)
        self._last = module[0] if module else None
        self._items += module or ()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, nextitem: pytest.Item | None) -> None:
        if nextitem is not None and nextitem is self._last:
            self._take()


def _take_in_turn(session: pytest.Session, modules: Iterator[list[pytest.Item]]) -> None:
    session.items = []
    session.config.pluginmanager.register(_Taking(session, modules))


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

    def __init__(self, session: pytest.Session, items: Iterable[pytest.Item], folder: Path) -> None:
        config = session.config
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
        mine = {item.nodeid for item in self._session.items}
        code, untold = self._process.returncode, self._untold - mine if not self._session.shouldfail else ()
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
