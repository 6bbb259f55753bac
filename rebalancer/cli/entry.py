"""The list of commands, and what their failures become: `error: ...` on stderr and an exit code."""

import os
import sys
from io import TextIOWrapper
from typing import Any

import typer

from rebalancer.cli.commands import (
    aggregate,
    bridge,
    bundle,
    completion,
    config,
    demo,
    doctor,
    events,
    explain,
    hand_back,
    init,
    login,
    more_gpus,
    notice,
    observe,
    override,
    plan,
    replay,
    report,
    simulate,
    stand_up,
    status,
    topics,
    version,
    writes,
)
from rebalancer.cli.commands import run as run_service
from rebalancer.cli.failure import DONE, FAILED, INTERRUPTED, USAGE, Failed
from rebalancer.cli.group import group
from rebalancer.cli.terminal.complete import models
from rebalancer.cli.terminal.output import in_utf8
from rebalancer.cli.terminal.wrong import blank, in_words

app = group(
    "Moves GPU capacity between served models in Kubernetes, and explains every move. `rebalancer COMMAND --help` says"
    " more, `rebalancer --version` which version this is."
)
app.command("status")(status.command)
app.command("plan")(plan.command)
app.command("explain")(explain.command)
app.command("more-gpus")(more_gpus.command)
app.add_typer(override.app, name="override")
app.command("stand-up")(stand_up.command)
app.add_typer(writes.app, name="writes")
app.add_typer(notice.app, name="notice")
app.command("init")(init.command)
app.add_typer(config.app, name="config")
app.command("doctor")(doctor.command)
app.add_typer(events.app, name="events")
app.command("topics")(topics.command)
app.command("login")(login.command)
app.command("logout")(login.logout)
app.command("observe")(observe.command)
app.command("run")(run_service.command)
app.command("bridge")(bridge.command)
app.command("aggregate")(aggregate.command)
app.command("bundle")(bundle.command)
app.command("replay")(replay.command)
app.command("report")(report.command)
app.command("simulate")(simulate.command)
app.command("hand-back")(hand_back.command)
app.command("demo")(demo.command)
app.command("completion")(completion.command)
app.command("version")(version.command)


def run(arguments: list[str]) -> int:
    """Run one command; the exit code. A command returns its code, or None when it did what was asked."""
    if isinstance(sys.stdout, TextIOWrapper):  # a locale may lack characters of what people wrote: \u2192 instead
        sys.stdout.reconfigure(errors="backslashreplace")
    arguments = ["version"] if arguments == ["--version"] else [_typed(each) for each in arguments]
    nothing = blank(arguments)
    if nothing:
        return _error(nothing, USAGE)
    try:
        code = app(args=arguments, prog_name="rebalancer", standalone_mode=False)
    except Failed as failed:
        return _error(str(failed), failed.code)
    except typer.TyperException as wrong:  # wrong arguments; the exit code is 2
        return _error(_worded(wrong, arguments), wrong.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # `rebalancer status | head -1`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code if isinstance(code, int) else DONE


def _typed(argument: str) -> str:
    """The argument in UTF-8, which a terminal of ISO-8859-1 types none of; a path that is there stays as it is."""
    is_path = any(map(os.path.lexists, (argument, argument.partition("=")[2])))
    return argument if is_path else in_utf8(argument)


def _worded(wrong: Any, arguments: list[str]) -> str:  # noqa: ANN401  the parser's own types are private to it
    """The parser's finding, with the commands there are and the path of the one that was understood."""
    context: Any = getattr(wrong, "ctx", None)
    about = getattr(getattr(wrong, "param", None), "help", None)
    if wrong.format_message().startswith("Missing option") and about:
        return f"{wrong.param.opts[0]} is missing: {about}"
    path = "rebalancer" if context is None else context.command_path
    group_of: Any = getattr(context, "command", None)
    commands = group_of.list_commands(context) if hasattr(group_of, "list_commands") else ()
    return in_words(wrong.format_message(), lambda: models(""), arguments, commands, path)


def _error(message: str, code: int) -> int:
    for line in message.splitlines():
        typer.echo(f"error: {in_utf8(line)}", err=True)
    return code
