"""Every test in this folder is of the real tier; its fixtures are those of the testbed."""

from pathlib import Path

import pytest

from tests.closing_loop import ClosingLoop
from tests.real.fixtures import *  # noqa: F403 - same
from tests.real.tier import tier  # noqa: F401 - same
from tests.testbed.fixtures import *  # noqa: F403 - fixtures reach tests by being names in a conftest
from tests.testbed.fixtures import mark_real


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_real(items, Path(__file__).parent)


def pytest_asyncio_loop_factories() -> dict[str, type[ClosingLoop]]:
    return {"closing": ClosingLoop}
