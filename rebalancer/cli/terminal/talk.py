"""Talk with whoever sits at the terminal: on stderr, so that results can be piped; questions only on a TTY."""

import os
import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from rebalancer.cli.failure import USAGE, Failed

NoInputOption = Annotated[bool, typer.Option("--no-input", help="Never ask; what needs an answer fails.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Results only, no talk.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ConfirmOption = Annotated[
    str | None, typer.Option("--confirm", help="The name to type for what is severe, typed here.", metavar="NAME")
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key", help="Idempotency key: the same key twice makes one object. Default: a new one.", metavar="KEY"
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be written, write nothing.")]


@dataclass(frozen=True, slots=True)
class Talk:
    """How much may be said and asked."""

    quiet: bool = False
    no_input: bool = False

    def say(self, *lines: str) -> None:
        """Lines for people."""
        if not self.quiet:
            for line in lines:
                typer.echo(line, err=True)

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to answer."""
        return not self.no_input and sys.stdin.isatty() and sys.stderr.isatty()

    def ask(self, question: str) -> str:
        """The line typed in answer, "" at the end of input."""
        typer.echo(f"{question} ", nl=False, err=True)
        return sys.stdin.readline().strip()

    def agreed(self, question: str, *, yes: bool) -> None:
        """Ask unless `yes`. Raises Failed when nobody is there, or the answer is no."""
        if yes:
            return
        if not self.can_ask:
            raise Failed("nobody is there to ask: add --yes", USAGE)
        if self.ask(f"{question} [y/N]").lower() not in {"y", "yes"}:
            raise Failed("nothing was written")

    def typed(self, word: str, why: str, given: str | None, option: str) -> None:
        """Want `word` typed, here or before (`given`); `option` is how to type it before. Raises Failed."""
        if given == word:
            return
        if given is not None:
            raise Failed(f"{given} is not what {why} wants typed: {option}", USAGE)
        if not self.can_ask:
            raise Failed(f"{why} wants it said in words, and nobody is there to ask: add {option}", USAGE)
        if self.ask(f"{why}: type {word}") != word:
            raise Failed("nothing was written")


def colours(stream: "object | None" = None) -> bool:
    """Whether to colour: a terminal, NO_COLOR unset (no-color.org: any value but the empty one counts)."""
    out = stream or sys.stdout
    return bool(getattr(out, "isatty", bool)()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
