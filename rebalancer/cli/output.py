"""What a command prints: a table for people, the API's own JSON or YAML for scripts."""

import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """Forms of a result."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Form of the result.")]
ExitCodeOption = Annotated[bool, typer.Option("--exit-code", help="Exit with 3 when there is something to see.")]


def show(output: Output, body: bytes, table: Callable[[], str]) -> None:
    """Print JSON `body` in the form asked for; `table` makes the text for people."""
    if output is Output.TABLE:
        typer.echo(table())
    elif output is Output.JSON:
        import msgspec

        typer.echo(msgspec.json.format(body, indent=2).decode())
    else:
        import msgspec
        from ruamel.yaml import YAML

        yaml = YAML(typ="safe", pure=True)
        yaml.default_flow_style = False
        yaml.dump(msgspec.json.decode(body), sys.stdout)
