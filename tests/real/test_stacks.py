"""`config check --cluster` on a real API server that has the definitions of the stacks in docs/stacks.md.

What it refuses is what that page says, and a kind that serves /scale is taken: the page itself is made from the same
definitions read as files (tests/ingest/test_stacks.py).
"""

import asyncio
import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebalancer.domain.target_kinds import kind_named
from rebalancer.ingest.kinds import NoScale
from tests.ingest.test_conformance import DEFINED, definition, look
from tests.real.policies import model, policy, pool
from tests.testbed.kube import Json, Kube
from tests.testbed.stack import Stack

_PROGRAM = Path(sys.executable).parent / "rebalancer"
SCALED = {"DynamoGraphDeploymentScalingAdapter", "LeaderWorkerSet", "Rollout", "StormService"}


def bare_definition(kind: str) -> Json:
    """Without schemas: two MB of them take the API server many seconds, and say nothing of /scale."""
    crd: Json = copy.deepcopy(definition(kind))
    crd["spec"].pop("conversion", None)  # its webhook is the controller's, which is not there
    for version in crd["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version.pop("additionalPrinterColumns", None)
    return crd


@pytest.fixture
def definitions() -> list[Json]:
    return [bare_definition(kind) for kind in DEFINED]


@pytest.fixture
def versions(definitions: list[Json]) -> dict[str, str]:
    """By kind the API version that its definition stores."""
    return {
        crd["spec"]["names"]["kind"]: f"{crd['spec']['group']}/{version['name']}"
        for crd in definitions
        for version in crd["spec"]["versions"]
        if version["storage"]
    }


@pytest.fixture
def file(versions: dict[str, str], namespace: str, ours: dict[str, str], tmp_path: Path) -> Path:
    """A policy with a model of each kind."""
    file = tmp_path / "policy.yaml"
    file.write_text(json.dumps(_policy(versions, namespace, ours)))
    return file


def _refusal(kind: str, api_version: str) -> str | None:
    """What the page says of the kind, or None where it is taken."""
    named = kind_named(kind, api_version)
    assert named is not None
    try:
        look(named)
    except NoScale as error:
        return str(error)
    return None


def _policy(versions: dict[str, str], namespace: str, ours: dict[str, str]) -> Json:
    models = [
        model(
            kind.lower(), namespace, 0, 0, 1,
            targets=[{"pool": "gpus", "name": "llama", "kind": kind, "apiVersion": api_version}],
        )
        for kind, api_version in versions.items()
    ]  # fmt: skip
    return policy([pool("gpus", ours, 16)], models)


async def test_each_kind_of_the_stacks_is_taken_or_refused_as_the_page_says(
    cluster: Stack, kube: Kube, definitions: list[Json], versions: dict[str, str], file: Path
) -> None:
    await kube.install_crds(definitions)
    kubeconfig = await asyncio.to_thread(cluster.kubeconfig)
    done = await asyncio.to_thread(
        subprocess.run,
        [str(_PROGRAM), "config", "check", "--cluster", str(file)],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = " ".join((done.stdout + done.stderr).split())
    refusals = {kind: _refusal(kind, api_version) for kind, api_version in versions.items()}
    assert {kind for kind, refusal in refusals.items() if refusal is None} == SCALED
    for kind, refusal in refusals.items():
        if refusal is not None:
            assert refusal in said, said
        else:
            assert f"{kind} of {versions[kind]}" not in said
    assert done.returncode != 0
