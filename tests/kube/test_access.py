"""Finding the server and logging in, also when the token changes under a running service."""

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from rebalancer.kube.access import Access, find_access, in_cluster
from rebalancer.kube.errors import Invalid, Temporary, Unauthorized
from rebalancer.kube.resources import PODS, Call, Ref
from rebalancer.kube.transport import Transport
from tests.certificates import self_signed
from tests.kube.logins import HandClock, a_kubeconfig
from tests.kube.server import ApiServer, a_client, answers, as_json, status

POD = Ref(PODS, "serving", "llama-0")


def serving(certificate: Path) -> ssl.SSLContext:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    return tls


async def in_thread(folder: Path, server: str, **user: object) -> Path:
    return await asyncio.to_thread(lambda: a_kubeconfig(folder, server, **user))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 and its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    self_signed(folder)
    both = folder / "both.pem"
    both.write_bytes((folder / "tls.crt").read_bytes() + (folder / "tls.key").read_bytes())
    return both


async def test_the_current_context_of_a_kubeconfig(tmp_path: Path) -> None:
    path = await in_thread(tmp_path, "http://127.0.0.1:1/k8s/", token="t1")
    access = await find_access(path)
    assert access.server == "http://127.0.0.1:1/k8s"
    assert access.authorization == "Bearer t1"


async def test_a_context_by_name(tmp_path: Path) -> None:
    path = await in_thread(tmp_path, "http://127.0.0.1:1", token="t1")
    assert (await find_access(path, "elsewhere")).authorization == "Bearer other-token"


async def test_an_exec_plugin_is_asked_for_the_token(tmp_path: Path) -> None:
    credential = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "plugged"}}'
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "echo",
        "args": [credential],
    }
    access = await find_access(await in_thread(tmp_path, "http://127.0.0.1:1", exec=plugin))
    assert access.authorization == "Bearer plugged"


@pytest.mark.parametrize(
    "text",
    ["", "]", "- 5", "contexts: []", "current-context: here", "current-context: here\ncontexts: {}"],
)
async def test_a_kubeconfig_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    await asyncio.to_thread(path.write_text, text)
    with pytest.raises(Invalid, match="broken"):
        await find_access(path)


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="nowhere"):
        await find_access(tmp_path / "nowhere")


@pytest.mark.parametrize(("proxy", "good"), [("http://p:3128", True), ("socks5://us:pw@p:1080", False), ("p:1", False)])
async def test_a_proxy_that_does_not_speak_http_is_refused_and_its_login_is_not_shown(
    tmp_path: Path, proxy: str, *, good: bool
) -> None:
    path = await in_thread(tmp_path, "http://127.0.0.1:1", token="t1")
    text = await asyncio.to_thread(path.read_text)
    await asyncio.to_thread(path.write_text, text.replace("server:", f"proxy-url: {proxy}\n    server:"))
    if good:
        assert (await find_access(path)).proxy == proxy
        return
    with pytest.raises(Invalid, match=r"its proxy-url begins with .*: only proxies of http:// and https://") as refused:
        await find_access(path)
    assert "pw" not in str(refused.value)


async def test_the_login_that_gke_had_before_its_plugin_is_told_with_the_plugin(tmp_path: Path) -> None:
    path = await in_thread(tmp_path, "http://127.0.0.1:1", **{"auth-provider": {"name": "gcp", "config": {}}})
    with pytest.raises(Invalid, match=r"auth-provider gcp.* install gke-gcloud-auth-plugin"):
        await find_access(path)


async def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    path = await in_thread(tmp_path, "http://127.0.0.1:1", token="t1")
    with pytest.raises(Invalid, match="moon"):
        await find_access(path, "moon")


async def test_in_a_pod_without_its_service_account_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(Invalid, match="token file does not exist"):
        await find_access()


def test_in_a_pod_the_service_account_logs_in_and_its_token_file_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    token = tmp_path / "token"
    token.write_text("t1\n")
    access = in_cluster(str(token), str(certificate))
    assert access.server == "https://[fd00::1]:6443"
    assert access.authorization == "Bearer t1"
    token.write_text("t2")
    assert access.read is not None
    assert access.read().authorization == "Bearer t2"


async def test_a_server_is_trusted_by_its_ca_alone(tmp_path: Path, certificate: Path) -> None:
    async with ApiServer(await asyncio.to_thread(serving, certificate)) as server:
        path = await in_thread(tmp_path, server.url, token="t1")
        stranger = await find_access(path)
        text = (await asyncio.to_thread(path.read_text)).replace(
            "cluster:\n", f"cluster:\n    certificate-authority: {certificate}\n", 1
        )
        await asyncio.to_thread(path.write_text, text)
        trusted = await find_access(path)
        async with a_client(trusted) as client:
            await client.get(POD)
        async with a_client(stranger) as client:
            with pytest.raises(Temporary, match="certificate verify failed"):
                await client.get(POD)
    assert len(server.asked) == 1


async def wants_t2(_server: ApiServer, request: web.Request) -> web.StreamResponse:
    if request.headers["Authorization"] == "Bearer t2":
        return as_json({"kind": "Echo"})
    return as_json(status(401, "Unauthorized"), 401)


async def test_issues_205_254_a_token_file_is_read_again_each_minute(tmp_path: Path) -> None:
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, "t1")
    async with ApiServer() as server:
        access = await find_access(await in_thread(tmp_path, server.url, tokenFile=str(token)))
        clock = HandClock()
        transport = Transport(access, clock)
        await asyncio.to_thread(token.write_text, "t2")
        for clock.seconds in (0, 59, 60, 61):
            await transport.ask(Call("get", PODS, POD.path))
        await transport.close()
        sent = [asked.headers["Authorization"] for asked in server.asked]
        assert sent == ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"]


async def test_a_refused_token_is_read_again_at_once_and_the_call_repeated() -> None:
    async with ApiServer() as server:
        access = Access(server.url, "Bearer t1", lambda: Access(server.url, "Bearer t2"))
        clock = HandClock()
        transport = Transport(access, clock)
        clock.seconds = 10
        server.on_call.extend([wants_t2] * 2)
        await transport.ask(Call("update", PODS, POD.path, body=b"{}"))
        await transport.close()
        assert len(server.asked) == 2


async def test_a_token_that_stays_refused_ends_as_unauthorized_and_is_not_hammered() -> None:
    reads = 0

    async with ApiServer() as server:

        def read() -> Access:
            nonlocal reads
            reads += 1
            return Access(server.url, "Bearer t1")

        server.on_call.extend([answers(401)] * 9)
        access = Access(server.url, "Bearer t1", read)
        clock = HandClock()
        transport = Transport(access, clock)
        clock.seconds = 10
        for _ in range(4):
            with pytest.raises(Unauthorized):
                await transport.ask(Call("get", PODS, POD.path))
        await transport.close()
    assert len(server.asked) == 4
    assert reads == 1


async def test_a_token_that_cannot_be_read_leaves_the_old_one_in_use_and_says_so() -> None:
    def broken() -> Access:
        raise OSError("disk on fire")

    async with ApiServer() as server:
        clock = HandClock()
        transport = Transport(Access(server.url, "Bearer t1", broken), clock)
        clock.seconds = 60
        await transport.ask(Call("get", PODS, POD.path))
        server.on_call.append(answers(401))
        with pytest.raises(Unauthorized) as caught:
            await transport.ask(Call("get", PODS, POD.path))
        await transport.close()
    assert server.asked[0].headers["Authorization"] == "Bearer t1"
    assert "disk on fire" in caught.value.__notes__[0]


def test_a_token_does_not_show_where_access_is_printed() -> None:
    assert "t0ken" not in repr(Access("https://127.0.0.1", "Bearer t0ken"))


async def test_a_base_path_in_the_servers_url_is_kept() -> None:
    async with ApiServer() as server:
        access = replace(server.access, server=f"{server.url}/k8s/clusters/c-1")
        async with a_client(access) as client:
            await client.get(POD)
        assert server.asked[0].path == "/k8s/clusters/c-1/api/v1/namespaces/serving/pods/llama-0"
