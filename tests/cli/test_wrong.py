"""Wrong input is told in words: what was typed, where, what is allowed, and the nearest of it; no checker's words."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from rebalancer.cli.entry import app
from rebalancer.cli.failure import why_silent
from tests.cli.running import rebalancer

CHECKERS = re.compile(r"Error|Errno|Traceback|Input should|Expected `|\bNone\b|pydantic|msgspec")
KINDS = "pause, freeze, pin, cap, floor, drain, exclude, standUp"
ADD = "override add pin chat"
HELP = "`{} --help` shows how it is written"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("status -o xml", "error: --output / -o: no 'xml'; allowed: table, wide, json, yaml"),
        (f"{ADD} -3 --reason x", "error: -3 is negative: a number of replicas is 0 or more"),
        (f"{ADD} 3.5 --reason x", "error: VALUE 3.5 is not a whole number"),
        (f"{ADD} three --reason 4", "error: VALUE three is not a whole number"),
        (f"{ADD} 2x --reason 4", "error: VALUE 2x is not a whole number"),
        ("override add pn chat 3 --reason x", f"error: KIND: no 'pn'; did you mean pin?; allowed: {KINDS}"),
        (f"{ADD} 100001 --reason x", "error: VALUE 100001 is too large: allowed up to 100000"),
        (f"{ADD} 3 --reason x --key _", "error: --key is blank"),
        (f"{ADD} 3", "error: --reason is missing: Why, for whoever reads it at night."),
        ("explain _", "error: the word after explain is blank"),
        ("override add drain node/ --reason x", "error: node/: which node? say node/NAME"),
        ("override end", "error: rebalancer override: no command 'end'; allowed: add, list, delete"),
        ("writes stp", "error: rebalancer writes: no command 'stp'; did you mean stop?; allowed: stop, resume, status"),
        ("status extra", f"error: extra: more than rebalancer status takes; {HELP.format('rebalancer status')}"),
        ("status --wide", f"error: No such option: --wide; {HELP.format('rebalancer status')}"),
        ("override delete", f"error: Missing argument 'NAME...'; {HELP.format('rebalancer override delete')}"),
        ("observe --prometheus x --port 99999", "error: --port 99999 is too large: allowed up to 65535"),
        ("hand-back --kubeconfig /nowhere", "error: kubeconfig /nowhere: no such file"),
        (f"{ADD} 3 --reason x --for 1000h", "error: --for 1000h is too long: allowed up to 7d"),
        (f"{ADD} 3 --reason _", "error: --reason is blank: say why, for whoever reads it at night"),
        ("demo --speed 0", "error: --speed 0 is too small: allowed from 0.1 on"),
        ("demo --speed abc", "error: --speed abc is not a number"),
        ("demo --speed=abc", "error: --speed abc is not a number"),
        ("demo --trace nowhere", "error: --trace nowhere: cannot be read (No such file or directory)"),
        ("replay nowhere --policy neither", "error: --policy neither: No such file or directory"),
        ("explain", "error: give either a MODEL or --node and its name; `rebalancer status` lists the models"),
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


async def test_a_context_that_is_not_there_is_told_without_the_librarys_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config"
    file.write_text("{apiVersion: v1, kind: Config, current-context: a, clusters: [], users: [], contexts: []}")
    assert await rebalancer("override", "list", "--kubeconfig", str(file), "--context", "b") == 1
    assert capsys.readouterr().err.strip() == f"error: kubeconfig {file} cannot be used: it has no context b"


async def test_a_kafka_and_a_prometheus_that_do_not_answer_are_told_without_a_clients_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await rebalancer("topics", "--kafka-bootstrap", "127.0.0.1:1") == 4
    assert "Kafka at 127.0.0.1:1: no connection by SSL" in capsys.readouterr().err
    refused = ConnectionRefusedError(111, "Connection refused")
    wrapped = RuntimeError("HTTPConnectionPool(host='127.0.0.1', port=1): Max retries exceeded")
    wrapped.__cause__ = refused
    assert why_silent(wrapped) == "no answer (Connection refused)"


async def test_manifests_that_cannot_be_read_are_told_without_a_readers_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text("{\n1")
    (tmp_path / "b.yaml").write_bytes(b"a: \xff")
    (tmp_path / "c.yaml").write_text("a: [\n")
    assert await rebalancer("init", "--manifests", str(tmp_path), "--out", "-") == 1
    told = capsys.readouterr().err
    for line in ("a.json: not JSON on line 2", "b.yaml: no UTF-8 at byte 3", "c.yaml: not YAML on line 2: "):
        assert line in told
    assert not re.search("codec|delimiter|unicode string", told)


async def test_a_trace_for_the_demo_that_begins_with_a_byte_order_mark_is_read_and_only_its_models_are_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_bytes(b"\xef\xbb\xbft_seconds,model,requests,input_tokens,output_tokens\n0,other,1,1,1\n")
    assert await rebalancer("demo", "--trace", str(trace)) == 2
    assert "no model other in the demo; it has chat" in capsys.readouterr().err


def test_no_help_names_a_type_of_python_or_cuts_a_sentence() -> None:
    root = typer.main.get_command(app)
    for path, text in _helps(root, root.context_class(root, info_name="rebalancer")):
        assert not re.search(r"<(str|int|float|path|list)\b|\[\[", text), path
        usage, _, rest = text.partition("\n")
        assert not re.search(r"[a-z,]\.\.\.$", rest, re.MULTILINE), (path, usage)


def _helps(command: Any, context: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401  the parser's own types
    yield context.command_path, command.get_help(context)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        inner = command.get_command(context, name)
        yield from _helps(inner, inner.context_class(inner, info_name=name, parent=context))


async def test_the_version_is_told_by_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert await rebalancer("--version") == 0
    by_option = capsys.readouterr().out
    assert await rebalancer("version") == 0
    assert capsys.readouterr().out == by_option


def test_the_interpreter_runs_the_command_where_no_script_is_on_the_path() -> None:
    command = [sys.executable, "-m", "rebalancer", "status", "--hlp"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603  # our own
    assert done.returncode == 2
    assert "`rebalancer status --help` shows how it is written" in done.stderr
