"""`rebalancer init`: a newcomer's first command."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rebalancer.cli.entry import run
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from tests.cli.running import rebalancer
from tests.survey.cluster import PRODUCT, engine
from tests.testbed.objects import gpu_node, scaled_object

A100 = {PRODUCT: "NVIDIA-A100"}
OBJECTS = [
    gpu_node("a", 8, labels=A100),
    engine("chat", 2, node_labels=A100),
    scaled_object("chat", "ml", 1, 4, [{"type": "prometheus", "metadata": {"query": "queue", "threshold": "5"}}]),
]


@pytest.fixture
def manifests(home: Path) -> Path:
    folder = home / "manifests"
    folder.mkdir()
    (folder / "all.json").write_text(json.dumps({"kind": "List", "items": OBJECTS}))
    return folder


def test_it_writes_a_policy_that_loads_and_says_what_to_type_next(
    manifests: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "policy.yaml"
    assert run(["init", "--manifests", str(manifests), "--out", str(file)]) == 0
    said = capsys.readouterr().out
    assert "Found 1 GPU node (8 nvidia.com/gpu), 1 workload with GPUs and a scale" in said
    assert f"rebalancer config check {file}" in said
    assert f"--set-file policy={file}" in said
    assert "--set image.repository=REGISTRY/rebalancer" in said
    assert run(["config", "check", str(file)]) == 0
    assert "queue: {high: 5}" in file.read_text()


def test_the_installation_that_it_prints_brings_the_rights_to_read_the_kinds_of_its_targets(
    manifests: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["init", "--manifests", str(manifests), "--out", str(home / "policy.yaml"), "--force"]
    assert run(arguments) == 0
    assert "targetKinds" not in capsys.readouterr().out, "a Deployment needs none"
    nim = engine("nim", node_labels=A100) | {"kind": "StatefulSet"}
    (manifests / "nim.json").write_text(json.dumps(nim))
    assert run(arguments) == 0
    said = capsys.readouterr().out
    assert "--set 'targetKinds={statefulsets.apps}' \\\n" in said


def test_a_file_that_is_there_stays_unless_force_says_otherwise(
    manifests: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "policy.yaml"
    file.write_text("mine")
    assert run(["init", "--manifests", str(manifests), "--out", str(file)]) == 2
    assert "is there already: add --force" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert run(["init", "--manifests", str(manifests), "--out", str(file), "--force"]) == 0
    assert "chat" in file.read_text()


def test_standard_output_gets_the_policy_alone(manifests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--manifests", str(manifests), "--out", "-"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("# A first policy")
    assert "Next:" not in said.out
    assert "Found 1 GPU node" in said.err


def test_nothing_that_could_be_a_model_is_no_policy_and_says_what_was_seen(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "few").mkdir()
    (home / "few" / "node.json").write_text(json.dumps(OBJECTS[0]))
    (home / "few" / "broken.yaml").write_text("{")
    assert run(["init", "--manifests", str(home / "few"), "--out", str(home / "policy.yaml")]) == 1
    said = capsys.readouterr().err
    assert "nothing to write a policy about: found 1 GPU node (8 nvidia.com/gpu), 0 workloads" in said
    assert "broken.yaml" in said
    assert not (home / "policy.yaml").exists()


def test_a_folder_that_is_not_there_and_an_address_that_is_none_are_said(
    manifests: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "--manifests", "/nowhere/at/all"]) == 2
    assert run(["init", "--manifests", str(manifests), "--out", "-", "--prometheus", "prometheus:9090"]) == 2
    asked = ["init", "--manifests", str(manifests), "--out", "-", "--prometheus", "http://prometheus:9090"]
    assert run([*asked, "--matchers", "prod-eu"]) == 2
    said = capsys.readouterr().err
    assert "--matchers: 'prod-eu' is no LABEL=VALUE" in said
    assert "/nowhere/at/all: there is no such file or folder" in said
    assert "--prometheus prometheus:9090: give http://HOST:PORT" in said


@pytest.fixture
async def prometheus() -> AsyncIterator[str]:
    """A Prometheus that saw three replicas of chat at work all week."""

    async def answer(request: web.Request) -> web.Response:
        assert "deployment/ml/chat" in request.query["query"]
        readings = {"median": "3", "most": "4", "looks": "900"}
        result = [
            {"metric": {"workload": "deployment/ml/chat", "reading": reading}, "value": [0, value]}
            for reading, value in readings.items()
        ]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    app = web.Application()
    app.router.add_get("/api/v1/query", answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def test_entitlements_come_from_prometheus_where_it_is_named(
    manifests: Path, prometheus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await rebalancer("init", "--manifests", str(manifests), "--out", "-", "--prometheus", prometheus) == 0
    said = capsys.readouterr().out
    assert "entitlement: 3" in said
    assert "the median of replicas at work in the last 7 days (150 h seen, most 4)" in said
    assert await rebalancer("init", "--manifests", str(manifests), "--out", "-", "--prometheus", f"{prometheus}/x") == 4
    assert "leave it out to go by today's replicas" in capsys.readouterr().err


async def _read(file: Path) -> str:
    return await asyncio.to_thread(file.read_text)


async def test_a_live_cluster_is_read_through_the_kubeconfig(
    kubernetes: EmbeddedKubernetes, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(home / "kubeconfig"))
    for obj in OBJECTS:
        kubernetes.store.put(obj)
    assert await rebalancer("init", "--out", str(home / "policy.yaml")) == 0
    said = capsys.readouterr().out
    assert "chat" in said
    assert "Not read" not in said, "who has no LeaderWorkerSets lacks nothing"
    assert "leaderworkersets.leaderworkerset.x-k8s.io: not installed" in await _read(home / "policy.yaml")
