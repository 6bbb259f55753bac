"""What people read on a night that was planned, character by character: the real command and a real HTTP server.

A file holds stdout, then stderr behind a line of dashes. After a change that is meant:
`REBALANCER_WRITE_GOLDEN=1 python -m pytest tests/cli/test_golden.py`, then read the difference.
"""

import json
import os
from pathlib import Path

import pytest

from tests.cli.night import Night
from tests.cli.planned import planned_night
from tests.cli.running import rebalancer

GOLDEN = Path(__file__).parent / "golden"
ADD = ("override", "add", "cap", "qwen-32b", "2", "--for", "30m", "--reason", "TICKET-1", "--key", "night")
CASES = {
    "status": ("status",),
    "status-wide": ("status", "-o", "wide"),
    "plan": ("plan",),
    "plan-wide": ("plan", "-o", "wide"),
    "explain": ("explain", "llama-70b"),
    "override-list": ("override", "list"),
    "override-list-wide": ("override", "list", "-o", "wide"),
    "override-add-dry-run": (*ADD, "--dry-run"),
    "override-add": (*ADD, "--yes"),
}
KEYS = {
    "status": ("status",),
    "plan": ("plan",),
    "explain": ("explain", "llama-70b"),
    "override-list": ("override", "list"),
    "override-add": (*ADD, "--yes"),
    "override-add-dry-run": (*ADD, "--dry-run"),
    "writes-status": ("writes", "status"),
}


@pytest.fixture
def night() -> Night:
    return planned_night()


@pytest.mark.parametrize("name", CASES)
async def test_people_read_what_the_golden_file_holds(
    name: str, people: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await rebalancer(*CASES[name]) == 0
    out, err = capsys.readouterr()
    said = f"{out}--------\n{err}" if err else out
    _compare(GOLDEN / f"{name}.txt", said)


@pytest.mark.parametrize("name", KEYS)
async def test_scripts_find_every_key_that_was_ever_there(
    name: str, people: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys are only added: a golden key that is gone breaks somebody's script."""
    assert await rebalancer(*KEYS[name], "-o", "json") == 0
    body = json.loads(capsys.readouterr().out)
    _compare_keys(GOLDEN / f"{name}.keys", _keys(body))


def _keys(value: object, path: str = "") -> set[str]:
    """Paths of all keys; those of a list's items together."""
    if isinstance(value, list):
        return set().union(*(_keys(each, f"{path}[]") for each in value))
    if not isinstance(value, dict):
        return {path or "."}
    return {path or "."}.union(*(_keys(each, f"{path}.{key}") for key, each in value.items()))


def _compare(file: Path, said: str) -> None:
    if "REBALANCER_WRITE_GOLDEN" in os.environ:
        file.write_text(said)
    assert said == file.read_text()


def _compare_keys(file: Path, keys: set[str]) -> None:
    if "REBALANCER_WRITE_GOLDEN" in os.environ:
        file.write_text("\n".join(sorted(keys)) + "\n")
    assert set(file.read_text().split()) <= keys
