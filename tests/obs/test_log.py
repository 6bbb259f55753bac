"""What reaches the log's lines of what others said."""

import json
from collections.abc import Iterator

import pytest
import structlog

from rebalancer.obs.log import EXCEPTION_MOST, configure

FORGED = "2027-01-15T08:00:00Z [info     ] acts                           cycle=1"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def _fails(message: str) -> None:
    raise ValueError(message)


def logged(log_format: str, message: str, capfd: pytest.CaptureFixture[str]) -> str:
    """What stands in the log when an error with that text ends something."""
    thread = configure("info", log_format)
    try:
        _fails(message)
    except ValueError:
        structlog.get_logger().exception("it failed")
    thread.flush()
    return capfd.readouterr().err


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\u2028", "\x85", "\x0b"])
def test_an_errors_text_makes_no_line_of_its_own(end: str, capfd: pytest.CaptureFixture[str]) -> None:
    first, *more = logged("text", f"no such thing{end}{FORGED}", capfd).splitlines()
    assert "it failed" in first
    assert "Traceback (most recent call last):" in more[0]
    assert any("raise ValueError(message)" in line for line in more)
    assert any(FORGED in line for line in more)
    assert all(line.startswith("  ") for line in more)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_traceback_moves_no_terminal_and_floods_no_log(log_format: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = logged(log_format, "\x1b[2J" + "x" * 1_000_000 + "the end", capfd)
    exception = json.loads(text)["exception"] if log_format == "json" else text
    assert "\x1b" not in exception
    assert "Traceback (most recent call last):" in exception
    assert "the end" in exception
    assert len(exception) < 1.2 * EXCEPTION_MOST
