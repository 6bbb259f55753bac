"""`rebalancer config check` and `rebalancer config schema`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalancer.cli.failure import DONE, FAILED
from rebalancer.cli.group import group
from rebalancer.cli.terminal.output import Output, OutputOption, show

if TYPE_CHECKING:
    from rebalancer.settings.problem import Problem

STDIN = "-"

app = group("Check policy files, print their schema.")


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(help="Policy files; - reads standard input.", metavar="FILE...")],
    output: OutputOption = Output.TABLE,
) -> int:
    """Report every problem of policy files with line, path, value and allowed range; exit with 1 when there is any."""
    import msgspec

    from rebalancer.cli.render import render_problems

    found = {name: _problems(name) for name in files}
    body = msgspec.json.encode(
        [{"file": name, "ok": not problems, "problems": problems} for name, problems in found.items()]
    )
    show(output, body, lambda: "\n".join(render_problems(name, problems) for name, problems in found.items()))
    return FAILED if any(found.values()) else DONE


@app.command()
def schema() -> None:
    """Print the JSON schema of a policy file."""
    from rebalancer.settings.schema import schema_text

    typer.echo(schema_text(), nl=False)


def _problems(name: str) -> "tuple[Problem, ...]":
    """What is wrong with the file `name` as the service would see it."""
    from rebalancer.settings.policy_file import check_bytes

    if name == STDIN:
        return check_bytes(sys.stdin.buffer.read(), "standard input")[1]
    try:
        return check_bytes(Path(name).read_bytes(), name)[1]
    except OSError as error:
        from rebalancer.settings.policy_file import unreadable

        return (unreadable(error.strerror or str(error), name),)
