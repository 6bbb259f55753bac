"""A certificate and a token that end while the service runs: `/readyz` and the log say it, and new ones end that."""

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from rebalancer.app import Service
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import USER, Started, get, until
from tests.app.expiring import Gate
from tests.certificates import Authority

LONG_SECONDS, SHORT_SECONDS = 3600.0, 2.0
EXPIRED = "certificate has expired"
WORDS_SECONDS = 30.0


@pytest.fixture
async def authority(tmp_path: Path) -> Authority:
    return await asyncio.to_thread(Authority.new, tmp_path / "ca")


@pytest.fixture
async def gate(sandbox: Sandbox, authority: Authority) -> AsyncIterator[Gate]:
    certificate = await asyncio.to_thread(authority.issue, "long", LONG_SECONDS)
    async with Gate.before_plain(sandbox.kubernetes.url, certificate) as gate:
        yield gate


async def kubeconfig(folder: Path, gate: Gate, authority: Authority, sandbox: Sandbox) -> tuple[Path, str]:
    """By the gate, with a token in the file `token`; and that token."""
    config = sandbox.kubernetes.kubeconfig(USER)
    config["clusters"][0]["cluster"] = {"server": gate.url, "certificate-authority": str(authority.file)}
    token = config["users"][0]["user"].pop("token")
    await asyncio.to_thread((folder / "token").write_text, token)
    config["users"][0]["user"]["tokenFile"] = str(folder / "token")
    path = folder / "behind-tls"
    await asyncio.to_thread(path.write_text, json.dumps(config))
    return path, token


async def told(service: Service, logged: list[MutableMapping[str, Any]], what: str) -> None:
    """Wait until /readyz answers 503 with these words; the log has them, too."""
    async with asyncio.timeout(WORDS_SECONDS):
        while True:
            code, body = await get(service.servers.probe_port, "/readyz")
            if code == 503 and any(what in each["detail"] for each in body["unready"]):
                break
            await asyncio.sleep(0.1)
    assert any(what in str(one.get("trouble")) for one in logged), "the log says it, too"


@asynccontextmanager
async def ready(started: Started, kubeconfig: Path) -> AsyncIterator[tuple[Service, list[MutableMapping[str, Any]]]]:
    """A service that is ready, and all that it logs from then on; in the end it is ready again."""
    async with started(kubeconfig=kubeconfig) as service:
        await until(lambda: service.plan is not None and not service.reporter.unready(), "it is ready")
        with capture_logs() as logged:
            yield service, logged
        await until(lambda: not service.reporter.unready(), "it is ready again")


async def test_a_certificate_of_the_api_server_that_has_expired_is_told_and_a_new_one_needs_no_restart(
    started: Started, sandbox: Sandbox, gate: Gate, authority: Authority, tmp_path: Path
) -> None:
    path, token = await kubeconfig(tmp_path, gate, authority, sandbox)
    gate.lets_in(token, LONG_SECONDS)
    async with ready(started, path) as (service, logged):
        gate.tls.load_cert_chain(await asyncio.to_thread(authority.issue, "short", SHORT_SECONDS))
        while EXPIRED not in await gate.handshake(authority.file):
            await asyncio.sleep(0.1)
        gate.cut()
        await told(service, logged, EXPIRED)
        gate.tls.load_cert_chain(await asyncio.to_thread(authority.issue, "renewed", LONG_SECONDS))


async def test_a_token_that_has_expired_is_told_and_a_new_one_in_its_file_needs_no_restart(
    started: Started, sandbox: Sandbox, gate: Gate, authority: Authority, tmp_path: Path
) -> None:
    path, token = await kubeconfig(tmp_path, gate, authority, sandbox)
    gate.lets_in(token, LONG_SECONDS)
    async with ready(started, path) as (service, logged):
        gate.lets_in(token, SHORT_SECONDS)
        await until(lambda: not gate.knows(token), "it is no longer good")
        sandbox.kubernetes.close_watches()
        await told(service, logged, "401 Unauthorized")
        renewed = f"{token}-renewed"
        gate.lets_in(renewed, LONG_SECONDS)
        await asyncio.to_thread((tmp_path / "token").write_text, renewed)
