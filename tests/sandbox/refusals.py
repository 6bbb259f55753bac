"""How a refused request looks from the client's side."""

from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest
from kubernetes_asyncio.client import ApiException


async def refusal(request: Awaitable[object]) -> dict[str, Any]:
    """The Status object that answers a request which must fail."""
    with pytest.raises(ApiException) as caught:
        await request
    status = msgspec.json.decode(caught.value.body or b"", type=dict[str, Any])
    assert status["kind"] == "Status"
    assert status["code"] == caught.value.status
    return status
