"""Client certificates and CAs that are replaced on disk while the service runs."""

import asyncio
import base64
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from rebalancer.kube.access import find_access
from rebalancer.kube.errors import Temporary
from rebalancer.kube.resources import PODS, Call, Ref
from rebalancer.kube.transport import Transport
from tests.certificates import NEW_KEY, openssl, self_signed
from tests.kube.logins import HandClock, a_kubeconfig
from tests.kube.server import ApiServer, Fault, as_json, status

POD = Ref(PODS, "serving", "llama-0")


class Authority:
    """A CA that both sides trust: `tls.crt` in its folder, and what it signs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self_signed(folder, subject="ca")

    def client(self, name: str) -> tuple[bytes, bytes]:
        """Certificate and key of a client with that name, in PEM."""
        openssl(self.folder, "req", *NEW_KEY, "-subj", f"/CN={name}", "-out", "asked.csr", "-keyout", "asked.key")
        signed = ("-CA", "tls.crt", "-CAkey", "tls.key", "-CAcreateserial", "-days", "2")
        openssl(self.folder, "x509", "-req", "-in", "asked.csr", *signed, "-out", "asked.crt")
        return (self.folder / "asked.crt").read_bytes(), (self.folder / "asked.key").read_bytes()

    def gate(self) -> ssl.SSLContext:
        """The server's side: it lets in whom the CA has signed."""
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.folder / "tls.crt"))
        tls.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        tls.verify_mode = ssl.CERT_REQUIRED
        return tls


def shown(request: web.Request) -> str:
    """The name in the certificate that the caller showed."""
    peer = request.transport.get_extra_info("peercert") if request.transport else {}
    return str(dict(pair for (pair,) in peer["subject"])["commonName"])


def expired(*names: str) -> Fault:
    """As the API server answers a certificate that has run out: its handshake is good, each call is refused."""

    async def answer(_server: ApiServer, request: web.Request) -> web.StreamResponse:
        if shown(request) in names:
            return as_json(status(401, "Unauthorized"), 401)
        return as_json({"kind": "Echo", "caller": shown(request)})

    return answer


def write_pair(folder: Path, certificate: bytes, key: bytes) -> None:
    (folder / "client.crt").write_bytes(certificate)
    (folder / "client.key").write_bytes(key)


def by_certificate(folder: Path, server: str) -> Path:
    """A kubeconfig that names the files `client.crt` and `client.key`, and trusts `tls.crt`, all beside it."""
    path = a_kubeconfig(folder, server, **{"client-certificate": "client.crt", "client-key": "client.key"})
    path.write_text(path.read_text().replace("cluster:\n", "cluster:\n    certificate-authority: tls.crt\n", 1))
    return path


@asynccontextmanager
async def calling(kubeconfig: Path, clock: HandClock) -> AsyncIterator[Transport]:
    transport = Transport(await find_access(kubeconfig), clock)
    try:
        yield transport
    finally:
        await transport.close()


async def caller(transport: Transport) -> str:
    """The name by which the server knows us."""
    return str(json.loads(await transport.ask(Call("get", PODS, POD.path)))["caller"])


@pytest.fixture
async def authority(tmp_path: Path) -> Authority:
    return await asyncio.to_thread(Authority, tmp_path)


async def test_a_renewed_client_certificate_is_shown_within_a_minute_or_once_the_old_one_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    old, new, newest = [await asyncio.to_thread(authority.client, name) for name in ("old", "new", "newest")]
    await asyncio.to_thread(write_pair, tmp_path, *old)
    async with ApiServer(authority.gate()) as server:
        server.on_call.extend([expired()] * 3 + [expired("new")] * 2)
        clock = HandClock()
        async with calling(await asyncio.to_thread(by_certificate, tmp_path, server.url), clock) as transport:
            assert await caller(transport) == "old"
            await asyncio.to_thread(write_pair, tmp_path, *new)
            assert await caller(transport) == "old"
            clock.seconds = 60.0
            assert await caller(transport) == "new"
            await asyncio.to_thread(write_pair, tmp_path, *newest)
            clock.seconds = 70.0
            assert await caller(transport) == "newest"
    assert len(server.asked) == 5


async def test_a_renewed_certificate_within_the_kubeconfig_is_shown(authority: Authority, tmp_path: Path) -> None:
    async with ApiServer(authority.gate()) as server:
        server.on_call.extend([expired()] * 2)
        clock = HandClock()

        def written(name: str) -> Path:
            pair = [base64.b64encode(text).decode() for text in authority.client(name)]
            path = by_certificate(tmp_path, server.url)
            text = path.read_text().replace("client.crt", pair[0]).replace("client.key", pair[1])
            text = text.replace("client-certificate:", "client-certificate-data:")
            path.write_text(text.replace("client-key:", "client-key-data:"))
            return path

        async with calling(await asyncio.to_thread(written, "old"), clock) as transport:
            assert await caller(transport) == "old"
            await asyncio.to_thread(written, "new")
            clock.seconds = 60.0
            assert await caller(transport) == "new"


async def test_a_certificate_that_an_exec_plugin_gives_is_asked_for_again(authority: Authority, tmp_path: Path) -> None:
    def given(name: str) -> None:
        certificate, key = (text.decode() for text in authority.client(name))
        credential = {"clientCertificateData": certificate, "clientKeyData": key}
        version = "client.authentication.k8s.io/v1"
        (tmp_path / "given.json").write_text(
            json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": credential})
        )

    def kubeconfig(server: str) -> Path:
        version = "client.authentication.k8s.io/v1"
        plugin = {"apiVersion": version, "command": "cat", "args": [str(tmp_path / "given.json")]}
        path = a_kubeconfig(tmp_path, server, exec=plugin)
        path.write_text(path.read_text().replace("cluster:\n", "cluster:\n    certificate-authority: tls.crt\n", 1))
        return path

    await asyncio.to_thread(given, "old")
    async with ApiServer(authority.gate()) as server:
        server.on_call.extend([expired()] * 2)
        clock = HandClock()
        async with calling(await asyncio.to_thread(kubeconfig, server.url), clock) as transport:
            assert await caller(transport) == "old"
            await asyncio.to_thread(given, "new")
            clock.seconds = 60.0
            assert await caller(transport) == "new"


async def test_a_spoiled_renewal_leaves_the_old_certificate_in_use_and_names_the_file(
    authority: Authority, tmp_path: Path
) -> None:
    old, new = [await asyncio.to_thread(authority.client, name) for name in ("old", "new")]
    await asyncio.to_thread(write_pair, tmp_path, *old)
    async with ApiServer(authority.gate()) as server:
        server.on_call.extend([expired()] * 4)
        clock = HandClock()
        async with calling(await asyncio.to_thread(by_certificate, tmp_path, server.url), clock) as transport:
            assert await caller(transport) == "old"
            spoiled = [
                (new[0], old[1], "with the key .*client.key cannot be used: .*mismatch"),
                (b"half", old[1], "its client certificate .*client.crt"),
            ]
            for certificate, key, why in spoiled:
                await asyncio.to_thread(write_pair, tmp_path, certificate, key)
                clock.seconds += 60.0
                assert await caller(transport) == "old"
                assert transport.login_trouble is not None
                assert re.search(why, transport.login_trouble)
            await asyncio.to_thread(write_pair, tmp_path, *new)
            clock.seconds += 60.0
            assert await caller(transport) == "new"
            assert transport.login_trouble is None


async def test_a_renewed_ca_is_trusted_and_the_one_before_no_more(authority: Authority, tmp_path: Path) -> None:
    await asyncio.to_thread(write_pair, tmp_path, *await asyncio.to_thread(authority.client, "us"))
    async with ApiServer(authority.gate()) as server:
        server.on_call.extend([expired()] * 2)
        clock = HandClock()
        async with calling(await asyncio.to_thread(by_certificate, tmp_path, server.url), clock) as transport:
            assert await caller(transport) == "us"
            await asyncio.to_thread(self_signed, tmp_path)
            clock.seconds = 60.0
            with pytest.raises(Temporary, match="certificate verify failed"):
                await caller(transport)


async def test_another_current_context_or_server_is_not_followed_while_we_run(tmp_path: Path) -> None:
    async with ApiServer() as server:
        path = await asyncio.to_thread(lambda: a_kubeconfig(tmp_path, server.url, token="t1"))
        clock = HandClock()
        async with calling(path, clock) as transport:
            text = await asyncio.to_thread(path.read_text)
            for old, new, trouble in (
                ("current-context: here", "current-context: elsewhere", None),
                (server.url, "http://127.0.0.1:1", f"it names http://127.0.0.1:1 now, and {server.url} at the start"),
            ):
                await asyncio.to_thread(path.write_text, text.replace(old, new))
                clock.seconds += 60.0
                await transport.ask(Call("get", PODS, POD.path))
                assert server.asked[-1].headers["Authorization"] == "Bearer t1"
                assert (
                    (transport.login_trouble is None) if trouble is None else (trouble in str(transport.login_trouble))
                )
