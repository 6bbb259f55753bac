"""Two halves of a run are one run: whatever the second one did is counted, told, and missed if it was not done."""

import pytest

from tests.house.repository import ROOT

CONFTEST = "import pytest\n\n@pytest.fixture(scope='session')\ndef stack():\n    yield 'up'\n"
ON_THE_STACK = "import os\ndef test_on(stack):\n    print('first', os.getpid())\n"


@pytest.fixture
def halves(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # seconds of every start
    pytester.makepyfile(test_on=ON_THE_STACK)
    return pytester


def run(halves: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return halves.runpytest_subprocess("-p", "tests.halves", "-p", "no:cacheprovider", *arguments)


def test_both_halves_are_counted_and_a_failure_of_the_second_is_told_as_ones_own(halves: pytest.Pytester) -> None:
    halves.makepyfile(
        test_off="import pytest\n"
        "def test_fails():\n    print('printed'); assert 1 == 2\n"
        "def test_is_well():\n    pass\n"
        "def test_skips():\n    pytest.skip('no such thing')\n"
        "@pytest.fixture\ndef broken():\n    yield\n    raise OSError('at its end')\n"
        "def test_ends_badly(broken):\n    pass\n"
    )
    done = run(halves, "-rs")
    done.assert_outcomes(passed=3, failed=1, skipped=1, errors=1)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines_random(["*assert 1 == 2", "printed", "*no such thing", "*at its end"])


def test_they_have_a_process_each_and_the_second_gives_way(halves: pytest.Pytester) -> None:
    nice = "min(19, {} + int(os.environ['NICE']))"
    text = f"import os\ndef test_nice{{}}:\n    assert os.getpriority(os.PRIO_PROCESS, 0) == {nice}"
    halves.makepyfile(test_on=text.format("(stack)", 0), test_off=text.format("()", 5))
    halves.makeconftest(
        CONFTEST + "import os\nos.environ.setdefault('NICE', str(os.getpriority(os.PRIO_PROCESS, 0)))\n"
    )
    run(halves).assert_outcomes(passed=2)


def test_a_second_half_that_dies_fails_the_run_by_the_tests_it_did_not_run(halves: pytest.Pytester) -> None:
    halves.makepyfile(test_off="import os\ndef test_dies():\n    os._exit(0)\n")
    done = run(halves)
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.stdout.fnmatch_lines(["*ended with 0 and did not run 1 tests, test_off.py::test_dies among them*"])


def test_a_second_half_that_fails_after_its_last_test_fails_the_run_with_its_words(halves: pytest.Pytester) -> None:
    halves.makepyfile(test_off="def test_is_well():\n    pass\n")
    halves.makeconftest(
        CONFTEST
        + "def pytest_unconfigure(config):\n    if config.getoption('reports_to'):\n        raise OSError('bad end')\n"
    )
    done = run(halves)
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.stdout.fnmatch_lines(["*the second half ended with 1; its last words:*", "*OSError: bad end*"])


def test_the_first_failure_ends_both_when_that_is_asked_for(halves: pytest.Pytester) -> None:
    halves.makepyfile(test_off="def test_fails():\n    assert False\n")
    done = run(halves, "-x")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["*stopping after 1 failures*"])


@pytest.mark.parametrize("chosen", ["test_on.py", "test_off.py"])
def test_a_run_of_one_half_has_one_process(halves: pytest.Pytester, chosen: str) -> None:
    halves.makepyfile(test_off="import os\ndef test_off():\n    print('second', os.getpid())\n")
    done = run(halves, chosen, "-s")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*first *" if chosen == "test_on.py" else "*second *"])  # printed here: -s reaches it


# What both processes can see of each other: `second` is there once the second one begins.
SEEN = """
import os, pathlib, pytest, time
def pytest_collection_finish(session):
    if session.config.getoption("reports_to"):
        pathlib.Path("second").touch()
@pytest.fixture(scope="session")
def once():
    pathlib.Path(f"up-{os.getpid()}").touch(exist_ok=False)
@pytest.fixture
def both():
    while not pathlib.Path("second").exists():
        time.sleep(0.01)
"""
MODULE = """
import pathlib, pytest, time
@pytest.mark.parametrize("number", range(130))
def test_one(once, both, number):
    while number == 0 and __name__ == "test_0" and len([*pathlib.Path().glob("done-*")]) < 6:
        time.sleep(0.01)
    if number == 129:
        pathlib.Path(f"done-{__name__}").touch(exist_ok=False)
"""


def test_in_a_long_run_each_takes_the_next_module_and_each_is_run_once(halves: pytest.Pytester) -> None:
    """The first module, which this process has, ends when six of eight are done: the other two it has, or has taken."""
    halves.makeconftest(SEEN)
    (halves.path / "test_on.py").unlink()
    halves.makepyfile(**{f"test_{number}": MODULE for number in range(8)})
    run(halves).assert_outcomes(passed=8 * 130)
    assert len(list(halves.path.glob("done-*"))) == 8
    assert len(list(halves.path.glob("up-*"))) == 2  # what a session has once was set up once in each process


def test_a_second_half_that_dies_fails_a_long_run_by_what_it_had_taken(halves: pytest.Pytester) -> None:
    halves.makeconftest(SEEN)
    (halves.path / "test_on.py").unlink()
    halves.makepyfile(**{f"test_{number}": MODULE.replace("< 6", "< 0") for number in range(8)})
    halves.makepyfile(test_9="import os\ndef test_dies():\n    os._exit(0)\n")
    done = run(halves)
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.stdout.fnmatch_lines(["*ended with 0 and did not run * tests, test_*.py::test_* among them*"])
