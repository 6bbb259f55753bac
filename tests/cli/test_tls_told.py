"""A service behind TLS that the command does not trust: what is wrong with the connection, and what to do."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer

from tests.certificates import self_signed
from tests.cli.night import Night
from tests.cli.running import process, rebalancer

Captured = pytest.CaptureFixture[str]


def _certified(folder: Path, name: str) -> ssl.SSLContext:
    """Of a server whose certificate, for `name`, is its own CA: `tls.crt` in the folder."""
    self_signed(folder, good_for=name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


@asynccontextmanager
async def _behind_tls(night: Night, tls: ssl.SSLContext) -> AsyncIterator[str]:
    server = TestServer(night.app())
    await server.start_server(ssl=tls)
    try:
        yield f"https://127.0.0.1:{server.port}"
    finally:
        await server.close()


async def _status(address: str) -> tuple[int, str]:
    """The exit code and what is said on stderr, in a process of its own: the CAs are read once."""
    with process("status", "--server", address) as asking:
        _, err = await asyncio.to_thread(asking.communicate)
    return asking.returncode, err


async def test_a_ca_that_is_not_known_is_told_with_the_setting_that_names_it(
    tmp_path: Path, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _behind_tls(night, _certified(tmp_path, "IP:127.0.0.1")) as address:
        code, err = await _status(address)
        assert code == 4
        assert err.startswith(f"error: no answer from {address} (")
        assert "certificate verify failed: self-signed certificate" in err
        assert err.endswith("; SSL_CERT_FILE names a file of the CAs to trust\n")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls.crt"))
        assert await _status(address) == (0, "")


async def test_a_certificate_of_another_name_is_told_to_be_so(
    tmp_path: Path, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _behind_tls(night, _certified(tmp_path, "DNS:other.example")) as address:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls.crt"))
        code, err = await _status(address)
    assert code == 4
    assert "certificate is not valid for '127.0.0.1'" in err
    assert "SSL_CERT_FILE" not in err


async def test_https_where_plain_http_is_spoken_is_told_to_be_so(server: str, capsys: Captured) -> None:
    assert await rebalancer("status", "--server", server.replace("http:", "https:")) == 4
    err = capsys.readouterr().err
    assert "SSL" in err
    assert "not permitted" not in err
