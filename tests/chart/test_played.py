"""The pages' lines for helm and kubectl, typed one after another by whom docs/install.md says, on a real API server.

Nodes there have no kubelet: `logs` and `exec` are let in, and then find nobody to ask.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.helm import RELEASE, Json, helm
from tests.chart.live import policies_gone
from tests.docs.blocks import blocks
from tests.house.repository import ROOT
from tests.runbooks.page import FOLDER, page
from tests.testbed.build import build
from tests.testbed.kube import Kube
from tests.testbed.objects import gpu_node
from tests.testbed.stack import Stack

KUBELET = ("logs", "exec")
INSTALLERS = ("get nodes", "--all-namespaces", "apply")  # the last row of the table in docs/install.md
RBAC = "rbac.authorization.k8s.io/v1"

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")


def of_page(name: str, *, after: str = "") -> Iterator[str]:
    """The lines for helm and kubectl in the blocks of a page, from the heading `after` on."""
    text = (ROOT / "docs" / name).read_text()
    start = text[: text.index(f"\n## {after}\n")].count("\n") if after else 0
    for block in blocks("bash"):
        if block.page == name and block.line > start:
            lines = block.text.replace("\\\n", " ").splitlines()
            yield from (line for line in lines if re.match("(helm|kubectl) ", line))


def of_runbooks() -> list[str]:
    """Each line for kubectl in a runbook, once; those that end a service come last, so that the others find pods."""
    pages = [page(file.stem) for file in sorted(FOLDER.glob("*.md"))]
    lines = [each.line for read in pages for part in read.sections for each in read.commands(part)]
    return sorted({line for line in lines if line.startswith("kubectl ")}, key=lambda line: (" scale " in line, line))


INSTALLING = [line for line in of_page("install.md") if "serving" not in line]
LEAVING = list(of_page("upgrade.md", after="Uninstall"))
UPGRADING = [line for line in of_page("upgrade.md") if line not in LEAVING]
RUNBOOKS = [*(line for line in of_page("operations.md") if " exec " in line), *of_runbooks()]


def test_every_page_has_its_lines() -> None:
    assert [line.split()[0] for line in INSTALLING] == ["helm", "kubectl"]
    assert (len(UPGRADING), len(LEAVING)) == (3, 3)
    assert len(RUNBOOKS) > 8


class Terminal:
    """A shell in a folder with the chart and a policy; the release goes into a namespace of the test's."""

    def __init__(self, folder: Path, namespace: str, ours: Json, oncall: str) -> None:
        self._folder = folder
        self._namespace = namespace
        # Where its pod runs, and who is on call: values that every installation has of its own.
        login = {"operators": {"users": [oncall]}}
        self._values = f"--set-json 'nodeSelector={json.dumps(ours)}' --set-json 'login={json.dumps(login)}'"

    def types(self, line: str, kubeconfig: Path) -> None:
        """Run a line of the pages. Fails the test where it does not work, or is forbidden."""
        here = re.sub(r"\bnamespace (rebalancer|OTHER)\b", f"namespace {self._namespace}", line)
        here = here.replace("--set-file", f"{self._values} --set-file")
        if "delete --filename" in here:
            here += " --dry-run=server"  # of other tests, too: they go with a cluster
        path = f"{Path(build('helm').program('helm')).parent}{os.pathsep}{os.environ['PATH']}"
        told = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path, "HOME": str(self._folder)}
        done = subprocess.run(  # noqa: S603 - our pages' own lines
            [shutil.which("bash") or "bash", "-ec", here],
            cwd=self._folder,
            env=told,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        said = f"$ {here}\n{done.stdout}{done.stderr}"
        assert "orbidden" not in said, said
        assert "No resources found" not in said, said
        kubelet = any(re.search(rf"\b{word}\b", line) for word in KUBELET)
        assert kubelet is bool(done.returncode), said


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "charts").symlink_to(ROOT / "charts")
    (tmp_path / "policy.yaml").write_text(next(block for block in blocks("yaml") if block.page == "policy.md").text)
    return tmp_path


@pytest.mark.timeout(300, func_only=True)
async def test_it_is_installed_operated_upgraded_and_taken_away_by_the_pages_lines(
    cluster: Stack, kube: Kube, crds: None, namespace: str, ours: dict[str, str], folder: Path
) -> None:
    await asyncio.to_thread(helm, "version")
    await kube.create(gpu_node(f"{namespace}-a", labels=ours))
    token = await kube.account(namespace, "oncall")
    oncall = await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-oncall", token)
    admin = await asyncio.to_thread(cluster.kubeconfig)
    terminal = Terminal(folder, namespace, ours, f"system:serviceaccount:{namespace}:oncall")
    await kube.apply(
        {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": {"name": "oncall", "namespace": namespace},
            "subjects": [{"kind": "ServiceAccount", "name": "oncall", "namespace": namespace}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        },
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": RELEASE, "namespace": namespace},
        },
    )

    for line in INSTALLING:
        await asyncio.to_thread(terminal.types, line, admin)
    for line in RUNBOOKS:
        await asyncio.to_thread(terminal.types, line, admin if any(each in line for each in INSTALLERS) else oncall)
    for line in [*UPGRADING, *LEAVING]:
        await asyncio.to_thread(terminal.types, line, admin)
    await policies_gone(kube)
