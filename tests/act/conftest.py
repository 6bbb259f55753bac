"""Models a and b, a Deployment each on 8 GPUs, behind an embedded Kubernetes API."""

from collections.abc import AsyncIterator

import pytest

from tests.act.rig import Rig, a_rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """As `a_rig` has it."""
    async with a_rig() as made:
        yield made
