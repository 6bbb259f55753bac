"""A person at a terminal: the service on the drawn night, a cluster to write to, a home of their own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.api.resources import OVERRIDES
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from rebalancer.sandbox.api.store import Revision, Store
from tests.cli.night import Night, served


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nobody's kubeconfig, tokens or settings but the test's."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "REBALANCER_SERVER", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture(autouse=True)
def commands_may_block(may_block: None) -> None:
    """A command is alone in its process; here it runs in a thread, in an event loop of its own."""


@pytest.fixture
def night() -> Night:
    return Night()


@pytest.fixture
async def server(night: Night) -> AsyncIterator[str]:
    async with served(night) as address:
        yield address


@pytest.fixture
async def kubernetes(home: Path) -> AsyncIterator[EmbeddedKubernetes]:
    """The cluster, and a kubeconfig of the user `oncall`."""
    async with EmbeddedKubernetes(RealClock()) as running:
        running.write_kubeconfig(home / "kubeconfig", user="oncall")
        yield running


class Heeding:
    """The service in so far as it answers overrides: in `phase` with `message`; "" says nothing."""

    def __init__(self, store: Store) -> None:
        self.phase = "InForce"
        self.message = ""
        self._store = store
        store.subscribe(self._answer)

    def _answer(self, change: Revision) -> None:
        if change.resource is OVERRIDES and change.kind == "ADDED" and self.phase:
            metadata = change.obj["metadata"]
            status = {"status": {"phase": self.phase, "message": self.message}}
            self._store.patch(OVERRIDES, metadata["name"], status, metadata["namespace"])


@pytest.fixture
def service(kubernetes: EmbeddedKubernetes) -> Heeding:
    return Heeding(kubernetes.store)


@pytest.fixture
def people(
    server: str, kubernetes: EmbeddedKubernetes, service: Heeding, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service and the cluster are what the environment names."""
    monkeypatch.setenv("REBALANCER_SERVER", server)
    monkeypatch.setenv("KUBECONFIG", str(home / "kubeconfig"))
