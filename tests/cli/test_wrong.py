"""Wrong input is told in words: what was typed, where, what is allowed, and the nearest of it; no checker's words."""

import re
from pathlib import Path

import pytest

from tests.cli.running import rebalancer

CHECKERS = re.compile(r"Error|Errno|Traceback|Input should|Expected `|\bNone\b|pydantic|msgspec")
KINDS = "pause, freeze, pin, cap, floor, drain, exclude, standUp"
ADD = "override add pin chat"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("status -o xml", "error: --output / -o: no 'xml'; allowed: table, wide, json, yaml"),
        (f"{ADD} -3 --reason x", "error: -3 is negative: a number of replicas is 0 or more"),
        (f"{ADD} 3.5 --reason x", "error: VALUE 3.5 is not a whole number"),
        (f"{ADD} three --reason 4", "error: VALUE three is not a whole number"),
        (f"{ADD} 2x --reason 4", "error: VALUE 2x is not a whole number"),
        ("override add pn chat 3 --reason x", f"error: KIND: no 'pn'; did you mean pin?; allowed: {KINDS}"),
        (f"{ADD} 3 --reason x --for 1000h", "error: --for 1000h is too long: allowed up to 7d0h"),
        (f"{ADD} 3 --reason _", "error: --reason is blank: say why, for whoever reads it at night"),
        ("demo --speed 0", "error: --speed 0 is too small: allowed from 0.1 on"),
        ("demo --speed abc", "error: --speed abc is not a number"),
        ("demo --speed=abc", "error: --speed abc is not a number"),
        ("demo --trace nowhere", "error: --trace nowhere: cannot be read (No such file or directory)"),
        ("replay nowhere --policy neither", "error: --policy neither: No such file or directory"),
        ("explain", "error: give a MODEL, or --node and its name; `rebalancer status` lists the models"),
        ("override add", f"error: Missing argument 'KIND'; one of {KINDS}"),
        ("completion cmd", "error: SHELL: no 'cmd'; allowed: bash, zsh, fish"),
    ],
)
async def test_a_wrong_argument_says_what_is_allowed(
    command: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await rebalancer(*(" " if word == "_" else word for word in command.split())) == 2
    told = capsys.readouterr().err.strip()
    assert told == said
    assert not CHECKERS.search(told)


async def test_a_kubeconfig_that_is_none_is_told_without_the_librarys_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config"
    for text in ("just words", "clusters: [{name: x", ""):
        file.write_text(text)
        assert await rebalancer("override", "list", "--kubeconfig", str(file)) != 0
        told = capsys.readouterr().err
        assert f"kubeconfig {file} cannot be used: " in told
        assert not CHECKERS.search(told)


async def test_the_version_is_told_by_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert await rebalancer("--version") == 0
    by_option = capsys.readouterr().out
    assert await rebalancer("version") == 0
    assert capsys.readouterr().out == by_option
