"""Tokens of OAUTHBEARER: from a file, from a server, from AWS; and what is said where none can be had."""

import asyncio
import sys
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rebalancer.kafka.tokens import ClientToken, FileToken, MskToken, NoToken


@pytest.fixture
async def server() -> AsyncIterator[str]:
    async def token(request: web.Request) -> web.Response:
        form = await request.post()
        login = b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
        if (login, form["grant_type"]) != ("me:secret", "client_credentials"):
            return web.json_response({"error": "invalid_client"}, status=401)
        return web.json_response({"access_token": f"t-1 {form.getall('scope', [])}", "expires_in": 60})

    app = web.Application()
    app.router.add_post("/token", token)
    async with TestServer(app) as running:
        yield str(running.make_url("/token"))


async def test_a_file_is_read_at_each_connection(tmp_path: Path) -> None:
    provider = FileToken(tmp_path / "token")
    with pytest.raises(NoToken, match="cannot be read"):
        await provider.token()
    for text in ("first", "second"):
        await asyncio.to_thread((tmp_path / "token").write_text, text + "\n")
        assert await provider.token() == text


async def test_a_client_s_secret_buys_a_token(server: str) -> None:
    secrets = iter(["wrong", "secret"])
    provider = ClientToken(server, "me", lambda: next(secrets))
    with pytest.raises(NoToken, match="status 401"):
        await provider.token()
    assert await provider.token() == "t-1 []"


async def test_a_token_is_asked_for_with_the_scope_that_is_set_as_entra_id_demands(server: str) -> None:
    scope = "https://example.servicebus.windows.net/.default"
    assert await ClientToken(server, "me", lambda: "secret", scope).token() == f"t-1 ['{scope}']"


async def test_a_server_that_is_away_is_an_absent_broker_to_us() -> None:
    with pytest.raises(OSError, match="gave no token"):
        await ClientToken("http://127.0.0.1:1/token", "me", str).token()


async def test_without_the_extra_msk_s_iam_says_which_one_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(NoToken, match=r"rebalancer\[msk\]"):
        await MskToken("eu-west-1").token()
