"""What a command prints: a table for people, the API's own JSON or YAML for scripts."""

import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """Forms of a result."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def for_people(self) -> bool:
        """Whether it is text."""
        return self in {Output.TABLE, Output.WIDE}


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Form of the result.")]
ExitCodeOption = Annotated[bool, typer.Option("--exit-code", help="Exit with 3 when there is something to see.")]
WatchOption = Annotated[
    bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C; piped: a line of JSON per change.")
]


def in_utf8(word: str) -> str:
    """A word of the command line as JSON and servers take it: what is no UTF-8 becomes U+FFFD."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def show(output: Output, body: bytes, table: Callable[[], str]) -> None:
    """Print JSON `body` in the form asked for; `table` makes the text for people."""
    if output.for_people:
        from rebalancer.cli.terminal.paint import painted

        typer.echo(painted(table()))
    elif output is Output.JSON:
        import msgspec

        typer.echo(msgspec.json.format(body, indent=2).decode())
    else:
        _print_yaml(body)


def _print_yaml(body: bytes) -> None:
    import msgspec
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump(msgspec.json.decode(body), sys.stdout)
