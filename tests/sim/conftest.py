"""What holds for every test of the simulator."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
COMPILING_SECONDS = 300  # 15 s on an idle core for the largest kernel, whichever test comes first


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order is random and a fresh clone has no machine code: any test may be the one that waits for it."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(COMPILING_SECONDS))
