from pathlib import Path

import pytest

from tests.beside import recorded_traffic


@pytest.fixture(scope="session")
def traces() -> Path:
    return recorded_traffic()
