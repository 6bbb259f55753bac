"""The commands against a service that answers, one that refuses, and none; exit codes are what scripts see."""

import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace
from ruamel.yaml import YAML

from rebalancer.api.http.json_codec import to_wire
from rebalancer.cli.entry import run
from rebalancer.cli.render import render_explain, render_plan, render_status
from rebalancer.domain.plan import Plan
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from rebalancer.settings.schema import schema_text
from tests.cli.night import Night
from tests.cli.running import process, rebalancer
from tests.cli.scene import NOW, PLAN, SNAPSHOT, STATUS
from tests.settings.a_policy_text import GOOD, spoilt

YAML_FORM = YAML(typ="safe", pure=True)  # looks for plug-ins on disk when made
Captured = pytest.CaptureFixture[str]


async def test_status_plan_and_explain_print_what_the_service_says(server: str, capsys: Captured) -> None:
    for arguments, said in (
        (("status",), render_status(STATUS)),
        (("plan",), render_plan(PLAN)),
        (("explain", "llama-70b"), render_explain(PLAN, SNAPSHOT, "llama-70b")),
    ):
        assert await rebalancer(*arguments, "--server", f"{server}/") == 0
        assert capsys.readouterr() == (f"{said}\n", "")


@pytest.mark.parametrize("form", ["json", "yaml"])
async def test_other_forms_are_the_apis_own_values(server: str, form: str, capsys: Captured) -> None:
    parse = json.loads if form == "json" else YAML_FORM.load
    for arguments, value in ((("status",), STATUS), (("plan",), PLAN)):
        assert await rebalancer(*arguments, "--server", server, "-o", form) == 0
        assert parse(capsys.readouterr().out) == json.loads(to_wire(value))
    assert await rebalancer("explain", "llama-70b", "--server", server, "--output", form) == 0
    assert parse(capsys.readouterr().out)["model"]["model"] == "llama-70b"


@pytest.mark.parametrize(
    ("arguments", "plan", "code"),
    [
        (("status",), PLAN, 3),
        (("status",), replace(PLAN, unmet=()), 0),
        (("status",), None, 3),
        (("plan",), PLAN, 3),
        (("plan",), Plan(cycle=1, at=NOW), 0),
        (("explain", "llama-70b"), PLAN, 3),
        (("explain", "sdxl"), PLAN, 0),
    ],
)
async def test_exit_code_3_means_there_is_something_to_see_and_only_when_asked_for(
    server: str, night: Night, arguments: tuple[str, ...], plan: Plan | None, code: int
) -> None:
    night.now = replace(STATUS, plan=plan)
    assert await rebalancer(*arguments, "--server", server, "--exit-code") == code
    assert await rebalancer(*arguments, "--server", server) == 0


async def test_explain_at_says_which_instant_it_is_and_knows_no_future_of_the_services_clock(
    server: str, capsys: Captured
) -> None:
    assert await rebalancer("explain", "llama-70b", "--server", server, "--at", "2999-01-01T00:00:00Z") == 2
    ahead = "error: --at 2999-01-01T00:00:00Z is ahead of the service's clock, which says 2027-01-16 03:12:07 UTC\n"
    assert capsys.readouterr() == ("", ahead)
    assert await rebalancer("explain", "llama-70b", "--server", server, "--at", "03:12:07") == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == f"as of 2027-01-16 03:12:06 UTC, cycle {PLAN.cycle}"
    assert "\n".join(rest) == render_explain(PLAN, SNAPSHOT, "llama-70b")


async def test_what_the_service_refuses_is_one_line_and_exit_code_1(
    server: str, night: Night, capsys: Captured
) -> None:
    assert await rebalancer("explain", "gpt/..", "--server", server) == 1
    assert capsys.readouterr() == (
        "",
        "error: no model 'gpt/..' in the policy; models: llama-70b, mixtral-8x7b, qwen-32b, sdxl\n",
    )
    night.now = replace(STATUS, plan=None)
    assert await rebalancer("plan", "--server", server) == 1
    assert capsys.readouterr().err.startswith("error: nothing is decided yet; see /readyz")


async def answers(body: bytes, status: int = 200) -> AsyncIterator[str]:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers={"Location": "http://127.0.0.1:1/"})

    app = web.Application()
    app.router.add_get("/{any:.*}", handler)
    async with TestServer(app) as running:
        yield f"http://127.0.0.1:{running.port}"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"<html>bad gateway</html>", 502, "/v1/plan answered 502 Bad Gateway"),
        (b"{}", 307, "/v1/plan answered 307 Temporary Redirect"),
        (b"\n<!doctype html><html>login</html>", 200, "/v1/plan answers with a page, not with the API; --server names"),
        (b"\xff", 200, "answered what this version cannot read"),
        (b'{"cycle": 1}', 200, "missing required field `at`"),
    ],
)
async def test_answers_that_are_not_the_services_are_told_apart(
    body: bytes, status: int, said: str, capsys: Captured
) -> None:
    async for server in answers(body, status):
        assert await rebalancer("plan", "--server", server) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_nobody_there_is_exit_code_4_with_the_address(capsys: Captured) -> None:
    with socket.socket() as taken:  # bound and not listening: refused for sure
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert run(["status", "--server", address]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: no answer from {address} (Connection refused); ")
    assert "--server names another address" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["status", "--server", "not an address"], "--server not an address is no http:// address"),
        (["status", "--server", "ftp://x"], "--server ftp://x is no http:// address"),
        (["status", "--output", "xml"], "no 'xml'; allowed: table"),
        (["statsu"], "rebalancer: no command 'statsu'; did you mean status?; allowed: status, "),
        (["explain"], "give either a MODEL or --node and its name"),
        (["config", "check"], "Missing argument 'FILE...'"),
        (["status", "--servr", "x"], "No such option"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], said: str, capsys: Captured) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.startswith("error: ")


@pytest.mark.parametrize("arguments", [[], ["config"]])
def test_a_command_that_needs_more_shows_its_help(arguments: list[str], capsys: Captured) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert "Usage: rebalancer" in out + err
    assert "error" not in out + err


# --- config


def test_config_check_says_ok_and_exits_with_0(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "policy.yaml").write_text(GOOD)
    assert run(["config", "check", str(tmp_path / "policy.yaml")]) == 0
    assert capsys.readouterr() == (f"{tmp_path / 'policy.yaml'}: ok\n", "")


def test_a_file_is_found_under_a_name_that_is_not_utf8(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / os.fsdecode(b"J\xfcrgen.yaml")
    file.write_text(GOOD)
    assert run(["config", "check", str(file)]) == 0
    assert "rgen.yaml: ok" in capsys.readouterr().out
    assert run(["hand-back", f"--kubeconfig={file}"]) == 1  # not 2: no such file
    assert "cannot be used" in capsys.readouterr().err
    assert run(["events", "check", str(file)]) == 1
    assert "rgen.yaml:1" in capsys.readouterr().out


def test_config_check_warns_of_a_target_that_is_only_read_and_says_ok(tmp_path: Path, capsys: Captured) -> None:
    unsaid = "kind: CloneSet, apiVersion: apps.kruise.io/v1alpha1"
    file = tmp_path / "policy.yaml"
    file.write_text(spoilt(("name: sdxl}", f"name: sdxl, {unsaid}}}")))
    assert run(["config", "check", str(file)]) == 0
    head, where, what = capsys.readouterr().out.splitlines()
    assert head == f"{file}: ok, with 1 warning"
    assert 'models.sdxl.targets.sdxl.kind: "CloneSet"' in where
    assert "it is only read and nothing is written to it" in what
    assert "add victims: replicaSet" in what
    file.write_text(spoilt(("name: sdxl}", f"name: sdxl, {unsaid}, victims: ordinal}}")))
    assert run(["config", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: ok\n"


@pytest.mark.parametrize("decoder", ["telegraf", "rebalancer"])
def test_config_check_warns_of_a_producer_whose_topic_is_our_own(
    decoder: str, tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f"{GOOD}\nproducers:\n  - {{topic: rebalancer.notices, decoder: {decoder}}}\n")
    assert run(["config", "check", str(file)]) == 0
    head, where, what = capsys.readouterr().out.splitlines()
    assert head == f"{file}: ok, with 1 warning"
    assert '"rebalancer.notices"' in where
    assert "it is one of our own topics and is read as such" in what


def test_config_check_reports_all_problems_of_all_files_and_exits_with_1(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(spoilt(("gpuLimit: 16", "gpuLimit: -1"), ("kind: elastic", "kind: elastik")))
    files = [str(tmp_path / name) for name in ("good.yaml", "bad.yaml", "none.yaml")]
    assert run(["config", "check", *files]) == 1
    out = capsys.readouterr().out
    assert f"{files[0]}: ok" in out
    assert f"{files[1]}: 2 problems" in out
    assert "pools.a100.gpuLimit" in out
    assert "pools.spot.kind" in out
    assert "cannot be read (No such file or directory)" in out


async def test_config_check_asks_the_cluster_whether_it_serves_the_kinds_of_the_targets(
    kubernetes: EmbeddedKubernetes, home: Path, capsys: Captured
) -> None:
    file, kubeconfig = home / "policy.yaml", str(home / "kubeconfig")
    for kind, said in (
        ("StatefulSet", ": ok"),
        ("LeaderWorkerSet", "the cluster has no kind LeaderWorkerSet in leaderworkerset.x-k8s.io/v1"),
        ("HorizontalPodAutoscaler, apiVersion: autoscaling/v2", "HorizontalPodAutoscaler of autoscaling/v2 serves no"),
    ):
        file.write_text(spoilt(("name: sdxl}", f"name: sdxl, kind: {kind}}}")))
        code = await rebalancer("config", "check", "--cluster", "--kubeconfig", kubeconfig, str(file))
        out = capsys.readouterr().out
        assert (said in out, code) == (True, 0 if said == ": ok" else 1), out


def test_config_check_as_json_has_every_part_of_a_problem(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "bad.yaml").write_text(spoilt(("gpuLimit: 16", "gpuLimit: -1")))
    assert run(["config", "check", "--output", "json", str(tmp_path / "bad.yaml")]) == 1
    assert json.loads(capsys.readouterr().out) == [
        {
            "file": str(tmp_path / "bad.yaml"),
            "ok": False,
            "problems": [
                {
                    "line": 7,
                    "path": "pools.a100.gpuLimit",
                    "value": "-1",
                    "what": "gpuLimit is out of range",
                    "allowed": "0 to 1000000",
                    "fix": "",
                    "file": str(tmp_path / "bad.yaml"),
                    "at": ["pools", 0, "gpuLimit"],
                }
            ],
            "warnings": [],
        }
    ]


def test_config_schema_prints_the_schema(capsys: Captured) -> None:
    assert run(["config", "schema"]) == 0
    assert capsys.readouterr().out == schema_text()


# --- as a process


def test_config_check_reads_standard_input() -> None:
    with process("config", "check", "-") as checking:
        out, err = checking.communicate(spoilt(("gpuLimit: 16", "gpuLimit: -1")))
    assert (checking.returncode, err) == (1, "")
    assert out.startswith("-: 1 problem\n")


def test_help_loads_nothing_heavy() -> None:
    heavy = {"aiohttp", "pydantic", "numpy", "ruamel", "rich", "asyncio", "aiokafka", "kubernetes_asyncio", "msgspec"}
    code = (
        "import sys; from rebalancer.cli import main; code = main();"
        f"print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    with process("--help", code=code) as helping:
        out, err = helping.communicate()
    assert (helping.returncode, err) == (0, "[]\n")
    assert all(command in out for command in ("status", "plan", "explain", "config"))


def test_ctrl_c_is_exit_code_130_without_a_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with process("status", "--server", address) as waiting:
            connection, _ = silent.accept()
            # The kernel accepts before the command's own loop has seen it, and an interrupt between asyncio's two
            # looks at that future is a traceback of asyncio's. Once its request is here it waits for an answer.
            connection.settimeout(30)
            assert connection.recv(1)
            waiting.send_signal(signal.SIGINT)
            _, err = waiting.communicate(timeout=30)
            connection.close()
    assert waiting.returncode == 130
    assert "Traceback" not in err


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with process("config", "schema", stdout=writer) as printing:
        os.close(writer)
        _, err = printing.communicate(timeout=30)
    assert printing.returncode == 1
    assert err == ""
