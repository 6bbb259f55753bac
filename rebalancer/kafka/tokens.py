"""Tokens of OAUTHBEARER, fetched anew for each connection that needs one: what rotates needs no restart."""

import asyncio
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import aiohttp
from aiokafka.abc import AbstractTokenProvider

from rebalancer.kafka.broker import REQUEST_SECONDS

NEEDS = "AWS_MSK_IAM needs the extra: pip install 'rebalancer[msk]'"


class NoToken(OSError):
    """No token can be had; the text says why. An OSError, as for an absent broker, so that it is tried again."""


class FileToken(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """The token in a file, as it is at each connection: a pod's projected token, for example."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def token(self) -> str:
        """Raises NoToken."""
        try:
            text = await asyncio.to_thread(self._file.read_text)
        except (OSError, UnicodeDecodeError) as error:
            raise NoToken(f"{self._file} cannot be read: {error}") from error
        return text.strip()


class ClientToken(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """A token for a client's id and secret (OAuth 2.0 client credentials). `secret` is asked at each connection.

    `scope`: what the token is to be good for, "" where its issuer needs no word on that.
    """

    def __init__(self, url: str, client: str, secret: Callable[[], str], scope: str = "") -> None:
        self._url = url
        self._shown_url = url.partition("?")[0]  # to people: some providers want secrets in the rest
        self._client = client
        self._secret = secret
        self._form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})

    async def token(self) -> str:
        """Raises NoToken."""
        timeout = aiohttp.ClientTimeout(REQUEST_SECONDS)
        login = b64encode(f"{self._client}:{await asyncio.to_thread(self._secret)}".encode()).decode()
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(self._url, data=self._form, headers={"Authorization": f"Basic {login}"}) as answer,
            ):
                body = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise NoToken(f"{self._shown_url} gave no token: {type(error).__name__}") from error
        token = body.get("access_token") if isinstance(body, dict) else None
        if not isinstance(token, str):
            raise NoToken(f"{self._shown_url} gave no token: status {answer.status}")
        return token


class MskToken(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    """A token of MSK's IAM, by the pod's AWS identity."""

    def __init__(self, region: str) -> None:
        self._region = region

    async def token(self) -> str:
        """Raises NoToken, also without the extra."""
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415  only with the extra
        except ImportError as error:
            raise NoToken(NEEDS) from error
        try:
            made, _ = await asyncio.to_thread(MSKAuthTokenProvider.generate_auth_token, self._region)
        except Exception as error:
            raise NoToken(f"no AWS identity for MSK in {self._region}: {error!r}") from error
        return str(made)
