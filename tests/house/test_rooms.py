"""The rooms of the house: who may import whom, who may read a clock. Each rule is also broken on purpose."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.repository import ROOT, pyproject, tracked

ROOMS = [contract for contract in pyproject()["tool"]["importlinter"]["contracts"] if contract["type"] == "forbidden"]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def ruff(path: str, text: str) -> str:
    command = [str(Path(sys.executable).with_name("ruff")), "check", "--no-cache", "--select", "TID251"]
    done = subprocess.run(
        [*command, "--stdin-filename", path, "-"], cwd=ROOT, input=text, capture_output=True, text=True, check=False
    )
    return done.stdout


def test_every_room_imports_only_what_it_may() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


def test_each_folder_of_tests_is_a_room_or_stands_in_the_table_of_contributing() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    table = page[page.index("| folder of `tests/` |") :].split("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    rooms = {path.parts[1] for path in tracked("rebalancer/*.py") if len(path.parts) > 2}
    folders = {path.parts[1] for path in tracked("tests/*.py") if len(path.parts) > 2}
    assert sorted(folders - rooms - named) == []
    assert sorted(named - folders - {"tests"}) == []


@pytest.mark.parametrize(
    ("module", "text", "broken"),
    [
        ("domain/x.py", "import rebalancer.obs", "A room imports only"),
        ("api/pages/x.py", "import rebalancer.api.handlers", "A request passes"),
        ("cli/remote/x.py", "import rebalancer.cli.commands", "A command passes"),
        ("ingest/x.py", "import rebalancer.act", "A room imports only"),
        ("attic/x.py", "", "A room imports only"),
        ("planning/facts/x.py", "import rebalancer.planning.planner", "A decision passes"),
        ("planning/attic.py", "", "A decision passes"),
        ("planning/facts/x.py", "import time", "Rooms that compute"),
        ("state/x.py", "def f():\n    from asyncio import sleep", "Rooms that compute"),
        ("ledger/x.py", "import random", "Rooms that compute"),
        ("ledger/x.py", "import rebalancer.obs", "A room imports only"),
        ("report/x.py", "import rebalancer.cli", "A room imports only"),
        ("drawing/x.py", "import rebalancer.obs", "A room imports only"),
        ("world/x.py", "from time import monotonic", "world and sim live"),
        ("act/x.py", "from kubernetes_asyncio import client", "kube is the one door"),
        ("app/observer.py", "from rebalancer.act.gate import Gate", "Who only observes makes nothing"),
        ("ingest/x.py", "import aiokafka", "kafka is the one door"),
    ],
)
def test_import_linter_sees_a_room_that_breaks_a_rule(tmp_path: Path, module: str, text: str, broken: str) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    others = (
        "obs/x.py",
        "act/y.py",
        "act/gate.py",
        "act/restoring.py",
        "app/observer.py",
        "app/service.py",
        "app/signed_overrides.py",
        "kafka/y.py",
        "kube/client.py",
        "leader/y.py",
        "planning/planner.py",
        "api/handlers/y.py",
        "cli/commands/y.py",
        "api/__init__.py",
        "cli/__init__.py",
        "__init__.py",
    )
    for file, content in (dict.fromkeys(others, "") | {module: text}).items():
        path = tmp_path / "rebalancer" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
        (path.parent / "__init__.py").touch()
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    verdicts = [line for line in done.stdout.splitlines() if line.endswith(" BROKEN")]
    assert [line.startswith(broken) for line in verdicts] == [True], done.stdout


@pytest.mark.parametrize("contract", ROOMS, ids=lambda contract: str(contract["id"]))
def test_no_module_names_what_its_room_forbids(contract: dict[str, list[str]]) -> None:
    """Direct imports, room by room, `__init__.py` included: a second pair of eyes on import-linter."""
    rooms = {source.removesuffix(".**").removeprefix("rebalancer.") for source in contract["source_modules"]}
    offences = [
        f"{path}:{line} imports {name}"
        for path in tracked("rebalancer/**/*.py")
        if path.parts[1] in rooms
        for line, name in imports(path)
        if name.split(".")[0] in contract["forbidden_modules"]
    ]
    assert not offences, "\n".join(offences)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""


@pytest.mark.parametrize(
    "reading",
    [
        "import time\n\nx = time.time()",
        "from time import monotonic\n\nx = monotonic()",
        "import datetime as dt\n\nx = dt.datetime.now(dt.UTC)",
        "import asyncio\n\nasync def f() -> None:\n    await asyncio.sleep(1)",
    ],
)
@pytest.mark.parametrize("path", ["rebalancer/state/x.py", "rebalancer/loop/runner.py", "rebalancer/cli/x.py"])
def test_only_the_clock_reads_a_clock(path: str, reading: str) -> None:
    assert "TID251" in ruff(path, reading)
    assert "TID251" not in ruff("rebalancer/loop/clock.py", reading)
