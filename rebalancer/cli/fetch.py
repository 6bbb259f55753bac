"""GETs from the service's API over aiohttp; imported when a command reads, not when help is asked for."""

import asyncio
import os
from http import HTTPStatus

import aiohttp
import msgspec

from rebalancer.api.routes import ErrorBody
from rebalancer.cli.failure import UNREACHABLE, USAGE, Failed

TIMEOUT_SECONDS = 10.0


def fetch(server: str, paths: tuple[str, ...]) -> tuple[bytes, ...]:
    """The bodies at `paths`. Raises Failed: 2 for a bad address, 4 when nobody answers, 1 for an error answer."""
    try:
        return asyncio.run(_fetch(server.rstrip("/"), paths))
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise Failed(f"--server {server} is no http:// address", USAGE) from error
    except TimeoutError as error:
        raise Failed(f"no answer from {server} within {TIMEOUT_SECONDS:g} s; see its /livez", UNREACHABLE) from error
    except (aiohttp.ClientError, OSError) as error:
        message = f"no answer from {server} ({_why(error)}); does the service run there? --server names another address"
        raise Failed(message, UNREACHABLE) from error


def _why(error: Exception) -> str:
    """The system's own short words where it has a number (name look-ups have negative ones of their own)."""
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number is not None and number > 0 else str(error)


async def _fetch(server: str, paths: tuple[str, ...]) -> tuple[bytes, ...]:
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)) as session:
            return tuple([await _get(session, server + path) for path in paths])
    except (aiohttp.ClientError, OSError) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # Ctrl-C while it connected: the client tells of a lost connection
            raise asyncio.CancelledError from error
        raise


async def _get(session: aiohttp.ClientSession, url: str) -> bytes:
    async with session.get(url, allow_redirects=False) as response:
        body = await response.read()
        if response.status == HTTPStatus.OK:
            return body
        raise Failed(_refusal(body) or f"{url} answered {response.status} {response.reason}")


def _refusal(body: bytes) -> str:
    """The service's own words in an error answer, "" when there are none."""
    try:
        said = msgspec.json.decode(body, type=ErrorBody)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return "; ".join(part for part in (said.error, said.fix) if part)
