"""Whatever needs helm or the API server is of the real tier."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import CHART
from tests.testbed.build import Missing, build
from tests.testbed.fixtures import *  # noqa: F403 - fixtures reach tests by being names in a conftest
from tests.testbed.fixtures import mark_real
from tests.testbed.kube import Kube

CRDS = [yaml.safe_load(file.read_text()) for file in sorted((CHART / "crds").glob("*.yaml"))]
MONITORING = ("servicemonitors", "prometheusrules")


@pytest.fixture(autouse=True)
def helm_is_built(request: pytest.FixtureRequest) -> None:
    """Built before a test's own time begins: cold it takes a minute on idle cores, and more beside other builds."""
    if request.node.get_closest_marker("real"):
        with suppress(Missing):
            build("helm")


@pytest.fixture
async def crds(kube: Kube) -> None:
    """Ours, and the prometheus-operator's."""
    operator = await asyncio.to_thread(lambda: build("prometheus-operator").manifests(*MONITORING))
    await kube.install_crds([*CRDS, *operator])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_real([item for item in items if item.path.name != "test_schema.py"], Path(__file__).parent)
