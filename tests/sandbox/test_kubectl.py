"""What somebody types by kubectl at the demo's API, with plain flags."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rebalancer.sandbox.api import EmbeddedKubernetes

KUBECTL = shutil.which("kubectl")
KEEP = """
apiVersion: rebalancer.io/v1alpha1
kind: Override
metadata: {name: keep, namespace: serving}
spec: {kind: %s, target: {model: code}, value: 2, reason: x, expiresAt: "2036-01-01T00:00:00Z", actor: local}
"""

Types = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH")


@pytest.fixture
def kubectl(kubernetes: EmbeddedKubernetes, tmp_path: Path) -> Types:
    config = tmp_path / "config"
    kubernetes.write_kubeconfig(config, "local")
    # HOME holds what kubectl remembers of a server, and servers of other tests had this address.
    environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)}

    def types(*words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        command = [str(KUBECTL), *words]
        return subprocess.run(  # noqa: S603 - words of this file
            command, env=environment, input=given, capture_output=True, text=True, check=False, timeout=30
        )

    return types


async def test_it_explains_our_kinds(kubectl: Types) -> None:
    whole = await asyncio.to_thread(kubectl, "explain", "override")
    assert whole.returncode == 0, whole.stderr
    assert "which the rebalancer follows until it expires" in whole.stdout
    field = await asyncio.to_thread(kubectl, "explain", "override.spec.kind")
    assert "standUp" in field.stdout
    stop = await asyncio.to_thread(kubectl, "explain", "writestop", "--recursive")
    assert "reason\t<string> -required-" in stop.stdout


async def test_it_applies_shows_describes_and_deletes_an_override(kubectl: Types) -> None:
    here = ("--namespace", "serving")
    applied = await asyncio.to_thread(kubectl, "apply", "-f", "-", given=KEEP % "pin")
    assert applied.stdout == "override.rebalancer.io/keep created\n", applied.stderr
    again = await asyncio.to_thread(kubectl, "apply", "-f", "-", given=KEEP % "pin")
    assert again.stdout == "override.rebalancer.io/keep unchanged\n", again.stderr
    listed = await asyncio.to_thread(kubectl, "get", "overrides", *here)
    assert "pin    code" in listed.stdout
    shown = await asyncio.to_thread(kubectl, "get", "override", "keep", *here, "-o", "yaml")
    assert "  kind: pin\n" in shown.stdout
    described = await asyncio.to_thread(kubectl, "describe", "override", "keep", *here)
    assert "Reason:      x" in described.stdout
    gone = await asyncio.to_thread(kubectl, "delete", "override", "keep", *here)
    assert (gone.returncode, gone.stderr) == (0, "")


async def test_what_is_misspelt_is_told_by_name(kubectl: Types) -> None:
    refused = await asyncio.to_thread(kubectl, "apply", "-f", "-", given=KEEP % "pinn")
    assert refused.returncode == 1
    assert 'The Override "keep" is invalid: \n* spec.kind: Unsupported value: "pinn": supported' in refused.stderr
    strange = await asyncio.to_thread(kubectl, "apply", "-f", "-", given=(KEEP % "pin").replace("value", "vlaue"))
    assert 'unknown field "spec.vlaue"' in strange.stderr
