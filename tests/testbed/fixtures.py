"""pytest fixtures of the real tier: one stack per run, a namespace and a topic prefix per test.

A folder of real tests imports them in its conftest.py: `from tests.testbed.fixtures import *`. Pieces
start when the first test asks for them. Processes are handled outside the event loop: in an async
test `await asyncio.to_thread(kafka.kill)`.
"""

import functools
import secrets
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest

from tests.testbed.audit import AuditLog
from tests.testbed.build import Missing
from tests.testbed.control_plane import Timing
from tests.testbed.kafka import Kafka
from tests.testbed.karpenter import Karpenter
from tests.testbed.keda import Keda
from tests.testbed.kube import Kube
from tests.testbed.objects import TEST_LABEL
from tests.testbed.stack import Stack

__all__ = [
    "audit",
    "cluster",
    "hpa_at_15_seconds",
    "kafka",
    "karpenter",
    "keda",
    "kube",
    "namespace",
    "ours",
    "pytest_runtest_makereport",
    "stack",
    "topic_prefix",
]

# The HPA looks this often, except in a test that asks for `hpa_at_15_seconds`.
_HPA_SYNC_SECONDS = 2.0
_LOG_LINES = 15
# Cluster-scoped kinds that tests make, in the order in which they go.
_CLUSTER_SCOPED = ("NodePool", "NodeClaim", "Node")


def mark_real(items: list[pytest.Item], folder: Path) -> None:
    """Mark the tests under `folder` as `real`; their own time limit starts once their fixtures stand."""
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.real)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(180, func_only=True))


@functools.cache
def _shared() -> Stack:
    """One stack, however many folders import these fixtures."""
    return Stack(timing=Timing(hpa_sync_seconds=_HPA_SYNC_SECONDS))


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    stack = _shared()
    yield stack
    stack.stop()


def _started(request: pytest.FixtureRequest, stack: Stack, *pieces: str) -> Stack:
    """Start pieces, with a word on the terminal: the first build takes minutes."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    try:
        with capture.global_and_fixture_disabled():
            stack.start(*pieces)
    except Missing as missing:
        pytest.skip(f"the testbed cannot be built: {missing.reason}")
    return stack


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, stack: Stack) -> Kafka:
    """The broker."""
    return _started(request, stack, "kafka").kafka


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, stack: Stack) -> Stack:
    """The stack with API server, controllers, scheduler and fake kubelets."""
    return _started(request, stack, "kwok")


@pytest.fixture(scope="session")
def karpenter(request: pytest.FixtureRequest, cluster: Stack) -> Karpenter:
    return _started(request, cluster, "karpenter").karpenter


@pytest.fixture(scope="session")
def keda(request: pytest.FixtureRequest, cluster: Stack) -> Keda:
    return _started(request, cluster, "keda").keda


@pytest.fixture
def audit(cluster: Stack) -> AuditLog:
    return cluster.audit


@pytest.fixture
async def kube(cluster: Stack) -> AsyncIterator[Kube]:
    """A client with all rights."""
    async with cluster.kube() as kube:
        yield kube


@pytest.fixture
async def namespace(kube: Kube) -> AsyncIterator[str]:
    """A namespace of the test's own; what is in it, and all nodes and NodePools labelled `ours`, go with it."""
    name = f"t-{secrets.token_hex(4)}"
    await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await kube.delete("Namespace", name)
    for kind in _CLUSTER_SCOPED:
        if await kube.serves(kind):
            await kube.delete_all(kind, f"{TEST_LABEL}={name}")


@pytest.fixture
def ours(namespace: str) -> dict[str, str]:
    """The label for the test's nodes and NodePools, and the node selector of its pods."""
    return {TEST_LABEL: namespace}


@pytest.fixture
def topic_prefix(kafka: Kafka) -> str:
    """What the names of the test's topics begin with; a topic comes to be with its first record."""
    return f"t-{secrets.token_hex(4)}-"


@pytest.fixture
def hpa_at_15_seconds(cluster: Stack) -> Iterator[None]:
    """The HPA controller with Kubernetes' default pace."""
    manager = cluster.control_plane.controller_manager
    manager.restart("--horizontal-pod-autoscaler-sync-period=15s")
    yield
    manager.restart()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test brings the end of every log."""
    report = yield
    if report.failed and _shared.cache_info().currsize and item.get_closest_marker("real"):
        report.sections.append(("testbed logs", _shared().log_tails(_LOG_LINES)))
    return report
