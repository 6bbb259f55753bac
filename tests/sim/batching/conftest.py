import os
from pathlib import Path

import pytest

from rebalancer.sim.traces.folder import VARIABLE


@pytest.fixture(scope="session")
def traces() -> Path:
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} names no folder of traces")
    return Path(folder)
