"""The shell's completion: names from the service, silence when there is none."""

import asyncio
import os
import subprocess
import sys

import pytest

import rebalancer as package
from tests.cli.running import PROGRAM, process, rebalancer


async def completed(words: str, **environment: str) -> tuple[list[str], str]:
    """What bash would offer after `words`, and what the command said besides."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "_REBALANCER_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("rebalancer explain ", ["llama-70b", "mixtral-8x7b", "qwen-32b", "sdxl"]),
        ("rebalancer explain qw", ["qwen-32b"]),
        ("rebalancer stand-up qw", ["qwen-32b"]),
        ("rebalancer override delete cap", ["cap-sdxl"]),
        ("rebalancer override add cap sd", ["sdxl"]),
        ("rebalancer writes s", ["stop", "status"]),
    ],
)
async def test_names_come_from_the_service(words: str, offered: list[str], people: None) -> None:
    assert await completed(words) == (offered, "")


async def test_a_service_that_is_away_offers_nothing_and_says_nothing() -> None:
    assert await completed("rebalancer explain ", REBALANCER_SERVER="http://127.0.0.1:1") == ([], "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_the_script_of_every_shell_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await rebalancer("completion", shell) == 0
    assert "_REBALANCER_COMPLETE" in capsys.readouterr().out


def test_bash_takes_the_script() -> None:
    with process("completion", "bash") as printing:
        script, _ = printing.communicate()
    done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)  # noqa: S607  whichever bash this machine has
    assert (done.returncode, done.stderr) == (0, "")


async def test_version_says_which(capsys: pytest.CaptureFixture[str]) -> None:
    assert await rebalancer("version") == 0
    assert capsys.readouterr().out == f"rebalancer {package.__version__}\n"
