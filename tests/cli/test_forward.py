"""The way in through the API server: a pod of the service is found and its port carried over WebSockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from rebalancer.kube.forward import PROTOCOL
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.api.server import EmbeddedKubernetes
from tests.cli.night import Night
from tests.cli.running import rebalancer

Captured = pytest.CaptureFixture[str]


def pod(
    name: str, *, ready: bool = True, component: str = "service", port: int = 8080, phase: str = "Running"
) -> dict[str, object]:
    """A pod as the API server lists it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "rebalancer", "labels": {"rebalancer.io/component": component}},
        "spec": {"containers": [{"name": "rebalancer", "ports": [{"name": "api", "containerPort": port}]}]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


class Gate:
    """An API server: what it stores is the embedded one's; a port-forward ends at `port` of this machine.

    A kubelet's part is played here (no container runs where these tests do): `error` is what it says on channel 1.
    """

    def __init__(self, behind: EmbeddedKubernetes, port: int) -> None:
        self.behind = behind
        self.port = port
        self.error = ""
        self.refuse = 0
        self.gone = ""  # a pod that the API server still lists as ready
        self.forwarded: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/portforward", self._forward)
        app.router.add_route("*", "/{path:.*}", self.behind._serve)  # noqa: SLF001  its whole face, on another port
        return app

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if self.refuse:
            return web.Response(status=self.refuse)
        assert request.headers["Authorization"] == "Bearer sandbox-oncall"
        self.forwarded.append(f"{request.match_info['pod']}:{request.query['ports']}")
        socket = web.WebSocketResponse(protocols=(PROTOCOL,))
        await socket.prepare(request)
        assert socket.ws_protocol == PROTOCOL
        port = int(request.query["ports"]).to_bytes(2, "little")
        await socket.send_bytes(b"\x00" + port)
        await socket.send_bytes(b"\x01" + port)
        error = "the pod has ended" if request.match_info["pod"] == self.gone else self.error
        if error:
            await socket.send_bytes(b"\x01" + error.encode())
            return socket
        await self._carry(socket)
        return socket

    async def _carry(self, socket: web.WebSocketResponse) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)

        async def back() -> None:
            while data := await reader.read(1000):  # smaller than an answer: it arrives in pieces
                await socket.send_bytes(b"\x00" + data)

        answering = asyncio.create_task(back())
        try:
            async for frame in socket:
                assert frame.type is WSMsgType.BINARY
                assert frame.data[0] == 0
                writer.write(frame.data[1:])
        finally:
            answering.cancel()
            writer.close()
            with suppress(asyncio.CancelledError, OSError):
                await answering


@pytest.fixture
async def gate(night: Night, home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gate]:
    async with EmbeddedKubernetes(RealClock()) as behind, TestServer(night.app()) as service:
        gate = Gate(behind, service.port or 0)
        async with TestServer(gate.app()) as front:
            behind.url = f"http://127.0.0.1:{front.port}"
            behind.write_kubeconfig(home / "kubeconfig", user="oncall")
            monkeypatch.setenv("KUBECONFIG", str(home / "kubeconfig"))
            yield gate


async def test_without_a_server_the_command_goes_through_the_kubeconfig(
    gate: Gate, night: Night, capsys: Captured
) -> None:
    for each in (pod("rb-0", ready=False), pod("rb-1", port=9090), pod("a-warm-pool", component="")):
        gate.behind.store.put(each)
    assert await rebalancer("status") == 0
    assert capsys.readouterr().out.startswith("prod-eu  03:12:07 UTC  leader rb-0")
    assert await rebalancer("plan", "-o", "json") == 0
    assert '"cycle": 48216' in capsys.readouterr().out
    assert set(gate.forwarded) == {"rb-1:9090"}
    assert night.paths == ["/v1/status", "/v1/plan"]


@pytest.mark.parametrize("option", ["--context", "--kubeconfig"])
async def test_a_typed_cluster_wins_over_an_exported_address_and_not_over_a_typed_one(
    gate: Gate, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, option: str
) -> None:
    gate.behind.store.put(pod("rb-0"))
    elsewhere = "http://127.0.0.1:1"
    cluster = (option, {"--context": "sandbox", "--kubeconfig": str(home / "kubeconfig")}[option])
    monkeypatch.setenv("REBALANCER_SERVER", elsewhere)
    assert await rebalancer("status") == 4
    assert await rebalancer("status", *cluster) == 0, capsys.readouterr().err
    assert set(gate.forwarded) == {"rb-0:8080"}
    for both in ((*cluster, "--server", elsewhere), ("--server", elsewhere, *cluster)):
        assert await rebalancer("status", *both) == 4


async def test_a_read_follows_to_another_replica_when_the_one_it_asked_has_ended(
    gate: Gate, night: Night, capsys: Captured
) -> None:
    for name in ("rb-0", "rb-1"):
        gate.behind.store.put(pod(name))
    gate.gone = "rb-0"
    assert await rebalancer("status") == 0
    assert capsys.readouterr().out.startswith("prod-eu  03:12:07 UTC  leader rb-0")
    assert list(dict.fromkeys(gate.forwarded)) == ["rb-0:8080", "rb-1:8080"]
    gate.behind.store.put(pod("rb-1", ready=False, phase="Failed"))
    assert await rebalancer("status") == 4
    assert "pods/portforward of rebalancer/rb-0: the pod has ended" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("status",), ("explain", "llama-70b"), ("plan",)])
async def test_a_service_that_is_not_ready_is_asked_what_it_lacks(
    gate: Gate, command: tuple[str, ...], capsys: Captured
) -> None:
    for each in (pod("rb-0", ready=False, phase="Pending"), pod("rb-1", ready=False)):
        gate.behind.store.put(each)
    assert await rebalancer(*command) == 0, capsys.readouterr().err
    assert set(gate.forwarded) == {"rb-1:8080"}


async def test_the_replica_that_leads_is_asked_for_another_has_no_past(
    gate: Gate, night: Night, capsys: Captured
) -> None:
    for name in ("rb-0", "rb-1", "rb-2"):
        gate.behind.store.put(pod(name))
    night.leads = "rb-1"
    for command in (("status",), ("override", "add", "cap", "sdxl", "2", "--reason", "x", "--dry-run")):
        gate.forwarded.clear()
        assert await rebalancer(*command) == 0, capsys.readouterr().err
        assert gate.forwarded == ["rb-0:8080", "rb-1:8080"]
    gate.forwarded.clear()
    night.leads = "a-name-that-is-no-pods"
    assert await rebalancer("status") == 0
    assert gate.forwarded == ["rb-0:8080"]


async def test_what_a_standby_answered_stands_where_the_leader_cannot_be_reached(
    gate: Gate, night: Night, capsys: Captured
) -> None:
    for name in ("rb-0", "rb-1"):
        gate.behind.store.put(pod(name))
    night.leads = gate.gone = "rb-1"  # its node was lost a moment ago
    for command in (("status",), ("override", "add", "cap", "sdxl", "2", "--reason", "x", "--dry-run")):
        gate.forwarded.clear()
        assert await rebalancer(*command) == 0, capsys.readouterr().err
        assert (gate.forwarded[0], gate.forwarded[1]) == ("rb-0:8080", "rb-1:8080")


async def test_a_token_kept_for_this_cluster_goes_through(gate: Gate, night: Night) -> None:
    gate.behind.store.put(pod("rb-0"))
    night.token = "sandbox-system:serviceaccount:rebalancer:rebalancer-viewer"
    assert await rebalancer("status") == 1
    assert await rebalancer("login") == 0
    assert await rebalancer("status") == 0


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        ([], "no service in namespace rebalancer: no pod with rebalancer.io/component=service"),
        ([pod("rb-0", ready=False, phase="Pending")], "no service in namespace rebalancer: 1 pods, none runs"),
    ],
)
async def test_no_pod_to_ask_is_said(gate: Gate, pods: list[dict[str, object]], said: str, capsys: Captured) -> None:
    for each in pods:
        gate.behind.store.put(each)
    assert await rebalancer("status") == 4
    assert said in capsys.readouterr().err


async def test_what_the_kubelet_says_reaches_the_person(gate: Gate, capsys: Captured) -> None:
    gate.behind.store.put(pod("rb-0"))
    gate.error = "connection refused inside the pod"
    assert await rebalancer("status") == 4
    assert "pods/portforward of rebalancer/rb-0: connection refused inside the pod" in capsys.readouterr().err


async def test_a_right_that_lacks_is_said(gate: Gate, capsys: Captured) -> None:
    gate.behind.store.put(pod("rb-0"))
    gate.refuse = 403
    assert await rebalancer("status") == 4
    assert "the API server refused pods/portforward of rebalancer/rb-0: 403" in capsys.readouterr().err


async def test_nothing_stays_behind(gate: Gate, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(home / "tmp"))
    gate.behind.store.put(pod("rb-0"))
    assert await rebalancer("status") == 0
    assert list((home / "tmp").iterdir()) == []
