"""A group of commands as all of ours are: plain help in whole sentences, and the help when nothing was asked for."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rebalancer.cli.failure import USAGE

WHOLE = 1000  # characters of a sentence in a list of commands: none of ours is cut
TYPES = {
    "<str>": "TEXT",
    "<path>": "PATH",
    "<int>": "N",
    "<int range>": "N",
    "<float range>": "N",
    "<list[str]>": "NAME",
    "<list[Path]>": "PATH",
}
"""What stands in a person's help for the name of a type."""


class PlainCommand(TyperCommand):
    """A command whose help names no type of Python's."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  the parser's own types are private to it
        """Arguments by their names, options with what follows them."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            records = [each.get_help_record(ctx) for each in self.get_params(ctx) if each.param_type_name == kind]
            rows = [(_plain(row[0], kind), row[1]) for row in records if row is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class PlainGroup(TyperGroup):
    """A group that lists its commands with the whole first sentence of each."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  the parser's own types are private to it
        """Write the list."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(WHOLE)) for name, each in commands if each is not None])


class PlainCommands(typer.Typer):
    """What commands are registered with: each becomes a `PlainCommand`."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:  # noqa: ANN401  the parser's own types are private to it
        """Typer's own `command`, with help in plain text."""
        return super().command(name, cls=PlainCommand, **settings)


def group(about: str) -> PlainCommands:
    """An empty group. No markup: plain help loads in a third of the time and looks the same in a pipe."""
    made = PlainCommands(
        cls=PlainGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback(invoke_without_command=True, help=about)(_help_when_alone)
    return made


def _plain(name: str, kind: str) -> str:
    """`--user TEXT` of `--user <str>`, `MODEL` of `MODEL <str>`: an argument's name says what it is."""
    for written, word in TYPES.items():
        name = name.replace(f" {written}", "" if kind == "argument" else f" {word}")
    return name


def _help_when_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(USAGE)
