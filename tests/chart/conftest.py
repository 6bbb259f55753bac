"""Whatever needs helm or the API server is of the real tier."""

from pathlib import Path

import pytest

from tests.testbed.fixtures import *  # noqa: F403 - fixtures reach tests by being names in a conftest
from tests.testbed.fixtures import mark_real


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_real([item for item in items if item.path.name != "test_schema.py"], Path(__file__).parent)
