"""The API, asked over HTTP on loopback."""

from collections.abc import AsyncIterator

import pytest

from rebalancer.api.auth.authority import Trusting
from tests.api.asking import Asked, asking


@pytest.fixture
async def api() -> AsyncIterator[Asked]:
    """Callers need tokens; the embedded API server reviews them."""
    async with asking() as asked:
        yield asked


@pytest.fixture
async def open_api() -> AsyncIterator[Asked]:
    """Everybody is `local`."""
    async with asking(Trusting()) as asked:
        yield asked
