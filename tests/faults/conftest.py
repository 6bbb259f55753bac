"""The scene of the catalogue: made for the first row, kept for the next, and made anew behind one that spoilt it."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from tests.faults.scene import Scene, running
from tests.testbed.fixtures import *  # noqa: F403 - fixtures reach tests by being names in a conftest
from tests.testbed.kafka import Kafka
from tests.testbed.stack import Stack


@dataclass
class Stage:
    """Where the scene stands. `spoilt`: the next row needs another one."""

    stack: Stack
    kafka: Kafka
    folder: Path
    opened: AsyncExitStack = field(default_factory=AsyncExitStack)
    scene: Scene | None = None

    async def ready(self) -> Scene:
        """The scene, made where there is none."""
        if self.scene is None:
            name = f"t-{secrets.token_hex(4)}"
            folder = self.folder / name
            await asyncio.to_thread(folder.mkdir)
            self.opened = AsyncExitStack()
            self.scene = await self.opened.enter_async_context(running(self.stack, self.kafka, folder, name))
        return self.scene

    async def struck(self) -> None:
        """Take it down."""
        self.scene = None
        await self.opened.aclose()


@pytest.fixture(scope="session")
def scenes_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where policies, journals and logs of the services lie."""
    return tmp_path_factory.mktemp("faults")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stage(cluster: Stack, kafka: Kafka, scenes_folder: Path) -> AsyncIterator[Stage]:
    stage = Stage(cluster, kafka, scenes_folder)
    yield stage
    await stage.struck()
