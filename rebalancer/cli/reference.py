"""The reference page of the command line, made from the commands themselves."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

import typer

from rebalancer.cli.group import TYPES

HEAD = """\
# Command line

`rebalancer` talks to two places. What it changes it writes to Kubernetes through your kubeconfig, in your own name;
what it shows it asks the service, at `--server` or by a port-forward that it opens through the same kubeconfig.

Results go to stdout, talk to stderr. Colour appears on a terminal only, and never with `NO_COLOR` set. In a pipe
nothing is cut, and `--watch` gives a line of JSON per change. JSON is the API's: keys are only ever added, instants
are RFC 3339 in UTC, durations seconds, what is unknown is `null`.

| exit code | means |
| --- | --- |
| 0 | done |
| 1 | failed, or refused |
| 2 | the command was not written as it should be, or nobody was there to answer a question |
| 3 | with `--exit-code`: there is a difference, a refusal or unmet need |
| 4 | the service, Kubernetes or Kafka could not be reached |
| 130 | Ctrl-C |
"""


def cli_page() -> str:
    """The page."""
    from rebalancer.cli.entry import app

    root: Any = typer.main.get_command(app)
    context = root.context_class(root, info_name="rebalancer")
    return "\n".join([HEAD, *_commands(root, context)]).rstrip() + "\n"


def _commands(group: Any, context: Any) -> Iterator[str]:  # noqa: ANN401  the parser's own types are private to it
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = command.context_class(command, info_name=name, parent=context)
        if hasattr(command, "list_commands"):
            yield from _commands(command, inner)
        else:
            yield from _command(command, inner)


def _command(command: Any, context: Any) -> Iterator[str]:  # noqa: ANN401  the parser's own types are private to it
    yield f"## {context.command_path}\n"
    yield cleandoc(command.help or "") + "\n"
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    usage = " ".join([context.command_path, *(_argument(each) for each in arguments), "[OPTIONS]" if options else ""])
    yield f"```text\n{usage.rstrip()}\n```\n"
    if arguments:
        yield "| argument | meaning |\n| --- | --- |"
        yield from (f"| `{_name(each)}` | {_meaning(each, context)} |" for each in arguments)
        yield ""
    if options:
        yield "| option | meaning |\n| --- | --- |"
        yield from (f"| {_flags(each, context)} | {_meaning(each, context)} |" for each in options)
        yield ""


def _argument(parameter: Any) -> str:  # noqa: ANN401  the parser's own types are private to it
    name = _name(parameter)
    return name if parameter.required else f"[{name}]"


def _name(parameter: Any) -> str:  # noqa: ANN401  the parser's own types are private to it
    return str(parameter.metavar or parameter.name.upper())


def _flags(parameter: Any, context: Any) -> str:  # noqa: ANN401  the parser's own types are private to it
    value = "" if parameter.is_flag else f" {_value(parameter, context)}"
    return ", ".join(f"`{flag}{value}`" for flag in parameter.opts)


def _value(parameter: Any, context: Any) -> str:  # noqa: ANN401  the parser's own types are private to it
    """What follows the flag: as the command names it, else the words it allows, else its type."""
    named = parameter.display_type(context)
    return str(parameter.metavar or TYPES.get(named, named)).strip("<>").replace("|", "\\|")


def _meaning(parameter: Any, context: Any) -> str:  # noqa: ANN401  the parser's own types are private to it
    parts = [parameter.help or ""]
    if parameter.param_type_name == "argument" and "|" in parameter.display_type(context):
        parts.append(
            "One of " + ", ".join(f"`{each}`" for each in parameter.display_type(context).strip("<>").split("|")) + "."
        )
    if parameter.param_type_name == "option" and parameter.required:
        parts.append("Required.")
    default = getattr(parameter.default, "value", parameter.default)
    if isinstance(default, (str, int, float)) and not isinstance(default, bool):
        parts.append(f"Default `{default}`.")
    if parameter.envvar:
        parts.append(f"Environment: `{parameter.envvar}`.")
    return " ".join(parts).replace("|", "\\|")
