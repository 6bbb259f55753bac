"""The guards of tests/conftest.py bite."""

import asyncio
import time
from pathlib import Path

import pytest
from blockbuster import BlockingError

CONFTEST = Path(__file__).parents[1] / "conftest.py"
REAL_TEST_THAT_SKIPS = "import pytest\n@pytest.mark.real\ndef test_x():\n    pytest.skip('no JDK here')\n"
REAL_MODULE_THAT_SKIPS = "import pytest\npytest.skip('no Go here', allow_module_level=True)\n"
PLAIN_TEST_THAT_SKIPS = "import pytest\ndef test_x():\n    pytest.skip('not on this system')\n"


async def test_a_test_that_blocks_the_event_loop_fails() -> None:
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        time.sleep(0.001)  # noqa: ASYNC251, TID251  the offence is the subject


async def test_waiting_on_the_event_loop_is_fine() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("path", "text", "ci", "code", "said"),
    [
        ("test_x.py", REAL_TEST_THAT_SKIPS, "true", pytest.ExitCode.TESTS_FAILED, "no JDK here"),
        ("test_x.py", REAL_TEST_THAT_SKIPS, "", pytest.ExitCode.OK, "1 skipped"),
        ("real/test_x.py", REAL_MODULE_THAT_SKIPS, "true", pytest.ExitCode.INTERRUPTED, "no Go here"),
        ("test_x.py", PLAIN_TEST_THAT_SKIPS, "true", pytest.ExitCode.OK, "1 skipped"),
    ],
    ids=["real test in CI", "real test elsewhere", "real module in CI", "other test in CI"],
)
def test_in_ci_a_skip_of_the_real_tier_is_a_failure_that_names_the_reason(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    text: str,
    ci: str,
    code: pytest.ExitCode,
    said: str,
) -> None:
    monkeypatch.setenv("CI", ci)
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makeini("[pytest]\nmarkers = real\nasyncio_default_fixture_loop_scope = function\n")
    module = pytester.path / path
    module.parent.mkdir(exist_ok=True)
    module.write_text(text)
    done = pytester.runpytest_inprocess("-ra")
    assert done.ret == code
    done.stdout.fnmatch_lines([f"*{said}*"])
