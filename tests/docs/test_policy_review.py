"""The CI snippets for a change of policy: their shell steps are run, against a journal, two policies and a forge."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from rebalancer.sim.product import default_policy, play_product
from tests.house.repository import ROOT
from tests.sim.product.scenarios import a_surge

FOLDER = ROOT / "docs/examples/policy-review"
SCENARIO = a_surge(660)
POLICY = default_policy(SCENARIO)
LIMITS_HOLD, LIMIT_BROKEN, NOT_JUDGED = 0, 3, 1

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal")
    play_product(SCENARIO, POLICY, journal=folder / "journal-000001.jsonl")
    return folder


@dataclass
class Forge:
    """Where comments go: `posted` has path, the header that logs in, and body of each."""

    url: str
    posted: list[tuple[str, str | None, bytes]]


@pytest.fixture
def forge() -> Iterator[Forge]:
    posted: list[tuple[str, str | None, bytes]] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            login = self.headers["Authorization"] or self.headers["PRIVATE-TOKEN"]
            posted.append((self.path, login, body))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield Forge(f"http://127.0.0.1:{server.server_port}", posted)
        server.shutdown()
        thread.join()


@pytest.fixture
def checkout(journal: Path, tmp_path: Path) -> Path:
    """A repository of policies with the journal beside; pip is somebody else's, rebalancer is this one."""
    (tmp_path / "journal").symlink_to(journal)
    programs = tmp_path / "bin"
    programs.mkdir()
    code = "import sys; from rebalancer.cli import main; sys.exit(main())"
    for name, line in (("pip", 'echo "$@" >> pip.log'), ("rebalancer", f'exec {sys.executable} -c "{code}" "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    return tmp_path


def propose(checkout: Path, what: str) -> None:
    whole = POLICY.to_mapping()
    models = whole["models"]
    assert isinstance(models, list)
    if what == "stricter":
        models[0]["maxReplicas"] = 4
    text = yaml.safe_dump(whole)
    (checkout / "policy.yaml").write_text("kind: Polcy\n" if what == "broken" else text)


def shell(script: str, checkout: Path, environment: dict[str, str]) -> int:
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],  # as GitHub's runner calls it
        cwd=checkout,
        env={**os.environ, **environment, "PATH": f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stdout.write(done.stdout + done.stderr)
    return done.returncode


CASES = [("the same", LIMITS_HOLD), ("stricter", LIMIT_BROKEN), ("broken", NOT_JUDGED)]


@pytest.mark.parametrize(("what", "code"), CASES)
def test_the_steps_for_github_comment_and_end_by_the_limits(what: str, code: int, checkout: Path, forge: Forge) -> None:
    propose(checkout, what)
    workflow: dict[str, Any] = yaml.safe_load((FOLDER / "github.yaml").read_text())
    output, summary = checkout / "output", checkout / "summary"
    known = {"github.token": "t0ken", "github.event.number": "7"}
    given = {**workflow["env"], "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    given |= {"GITHUB_API_URL": forge.url, "GITHUB_REPOSITORY": "me/policies"}
    ended = 0
    for step in workflow["jobs"]["review"]["steps"]:
        if "run" not in step:
            continue
        words = {name: value[3:-2].strip() for name, value in step.get("env", {}).items()}
        ended = shell(step["run"], checkout, given | {name: known[word] for name, word in words.items()})
        if output.exists():
            known |= {f"steps.review.outputs.{line.partition('=')[0]}": line.partition("=")[2] for line in output.read_text().split()}  # noqa: E501  # fmt: skip
        if ended:
            assert step["name"] == "Verdict"
    assert ended == code
    assert shlex.split((checkout / "pip.log").read_text()) == ["install", "rebalancer[sim]"]
    if code == NOT_JUDGED:
        assert forge.posted == []
        return
    ((path, login, body),) = forge.posted
    assert (path, login) == ("/repos/me/policies/issues/7/comments", "Bearer t0ken")
    assert json.loads(body)["body"] == summary.read_text()
    assert summary.read_text().startswith("### policy.yaml makes ")


@pytest.mark.parametrize(("what", "code"), CASES)
def test_the_scripts_for_gitlab_write_a_note_and_end_by_the_limits(
    what: str, code: int, checkout: Path, forge: Forge
) -> None:
    propose(checkout, what)
    job: dict[str, Any] = yaml.safe_load((FOLDER / "gitlab.yaml").read_text())["policy-review"]
    given = {"CI_API_V4_URL": forge.url, "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "7", "REVIEW_TOKEN": "t0ken"}
    given |= job["variables"]
    assert shell("\n".join([*job["before_script"], *job["script"]]), checkout, given) == code
    assert shell("\n".join(job["after_script"]), checkout, given) == 0
    if code == NOT_JUDGED:
        assert forge.posted == []
        return
    ((path, login, body),) = forge.posted
    assert (path, login) == ("/projects/3/merge_requests/7/notes", "t0ken")
    assert parse_qs(body.decode())["body"] == [(checkout / "review.md").read_text()]
