"""`rebalancer hand-back` from a terminal, and as the chart's hooks run it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rebalancer.sandbox.api import Obj
from rebalancer.sandbox.api.resources import DEPLOYMENTS, SCALEDOBJECTS
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from tests.cli.running import rebalancer

Run = Callable[..., Awaitable[int]]
Captured = pytest.CaptureFixture[str]
DEFAULT, OURS = "rebalancer/rebalancer", "ml/rebalancer"


@pytest.fixture
def hand_back(three: None, home: Path) -> Run:
    """The command, by the kubeconfig of a person."""
    return lambda *arguments: rebalancer("hand-back", "--kubeconfig", str(home / "kubeconfig"), *arguments)


def pinned(name: str, by: str) -> Obj:
    own = f'{{"min":1,"max":4,"by":"{by}"}}' if by else '{"min":1,"max":4}'
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": "serving", "annotations": {"rebalancer.io/originals": own}},
        "spec": {"scaleTargetRef": {"name": name}, "minReplicaCount": 2, "maxReplicaCount": 2},
    }


def maximum(kubernetes: EmbeddedKubernetes, name: str) -> int:
    found = kubernetes.store.get(SCALEDOBJECTS, name, "serving")
    assert found is not None
    return int(found["spec"]["maxReplicaCount"])


@pytest.fixture
def three(kubernetes: EmbeddedKubernetes) -> None:
    for name, by in (("default", DEFAULT), ("ours", OURS), ("unnamed", "")):
        kubernetes.store.put(pinned(name, by))


@pytest.mark.parametrize(
    ("arguments", "restored"),
    [
        ((), "default"),
        (("--installation", OURS), "ours"),
        (("--stop", OURS), "ours"),
        (("--after", OURS), "ours"),
        (("--after", OURS, "--installation", DEFAULT), "default"),
    ],
)
async def test_it_restores_what_one_installation_wrote_to_and_names_the_rest(
    kubernetes: EmbeddedKubernetes,
    three: None,
    hand_back: Run,
    capsys: Captured,
    arguments: tuple[str, ...],
    restored: str,
) -> None:
    assert await hand_back(*arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("restored")] == [
        f"restored scaledobject/serving/{restored}"
    ]
    assert sum(line.startswith("left ") for line in lines) == 2
    assert {name: maximum(kubernetes, name) for name in ("default", "ours", "unnamed")} == {
        name: 4 if name == restored else 2 for name in ("default", "ours", "unnamed")
    }


async def test_what_carries_no_name_goes_with_it_when_that_is_said(
    kubernetes: EmbeddedKubernetes, hand_back: Run, capsys: Captured
) -> None:
    assert await hand_back("--unnamed") == 0
    assert (maximum(kubernetes, "default"), maximum(kubernetes, "unnamed"), maximum(kubernetes, "ours")) == (4, 4, 2)


async def test_nothing_to_do_is_said_with_whose_it_would_be(hand_back: Run, capsys: Captured) -> None:
    assert await hand_back("--installation", "nobody/here") == 0
    assert capsys.readouterr().err == "nothing of nobody/here is on any object\n"


async def test_after_an_upgrade_it_waits_for_the_service(kubernetes: EmbeddedKubernetes, hand_back: Run) -> None:
    metadata = {"name": "rebalancer", "namespace": "ml"}
    old = {"observedGeneration": 1, "updatedReplicas": 0, "replicas": 1}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "r"}}, "template": {}}
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    kubernetes.store.put({**kind, "metadata": metadata, "spec": spec, "status": old})
    kubernetes.faults.hang_next(1, method="GET", path_part="/deployments")

    command = asyncio.ensure_future(hand_back("--after", OURS))
    while not kubernetes.faults.hanging:
        await asyncio.sleep(0.01)
    assert maximum(kubernetes, "ours") == 2
    kubernetes.store.patch(DEPLOYMENTS, "rebalancer", {"status": {"updatedReplicas": 1}}, "ml")
    kubernetes.faults.release()

    assert await command == 0
    assert maximum(kubernetes, "ours") == 4


async def test_a_name_without_its_namespace_is_a_mistake(hand_back: Run, capsys: Captured) -> None:
    assert await hand_back("--after", "rebalancer") == 2
    assert "--after rebalancer: give the service's Deployment as NAMESPACE/NAME" in capsys.readouterr().err
