"""Tests with a stage run a real Prometheus: they are of the real tier."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and "stage" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real)
            item.add_marker(pytest.mark.timeout(180, func_only=True))
