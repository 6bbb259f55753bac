"""`rebalancer completion SHELL`."""

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """Shells whose completion we write."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def command(shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.", metavar="SHELL")]) -> None:
    """Print the shell's completion script: source <(rebalancer completion bash). It asks the service for names."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # public, yet not in its __all__

    typer.echo(get_completion_script(prog_name="rebalancer", complete_var="_REBALANCER_COMPLETE", shell=shell.value))
