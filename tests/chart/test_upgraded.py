"""An upgrade from an older version, whose values do not have all that this one reads."""

import asyncio
import shutil
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import CHART, RELEASE, Json, Refused, helm, render, values
from tests.chart.live import policies_gone
from tests.house.repository import ROOT
from tests.testbed.kube import Kube
from tests.testbed.objects import gpu_node
from tests.testbed.stack import Stack

PAGE = (ROOT / "docs/upgrade.md").read_text()
(WAY,) = [line.split()[-1] for line in PAGE.splitlines() if line.startswith("helm upgrade")]


@pytest.mark.parametrize(
    ("value", "setting"), [("clusterName", "CLUSTER_NAME"), ("journal.ledgerMaxMiB", "LEDGER_MAX_MIB")]
)
def test_a_value_that_is_missing_is_told_with_the_way_out_and_reaches_no_pod(value: str, setting: str) -> None:
    with pytest.raises(Refused, match=f"REBALANCER_{setting} is missing.*--reset-then-reuse-values"):
        render({value: None})


@pytest.fixture
def older(tmp_path: Path) -> str:
    """A chart of which this one has more values."""
    chart = tmp_path / "rebalancer"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("templates"))
    had = yaml.safe_load((CHART / "values.yaml").read_text())
    del had["notices"], had["journal"]["ledgerMaxMiB"]
    (chart / "values.yaml").write_text(yaml.safe_dump(had))
    return str(chart)


async def test_the_way_that_the_page_names_takes_what_is_new_and_leaves_what_was_given(
    cluster: Stack, crds: None, namespace: str, older: str
) -> None:
    flags = ["--namespace", namespace, "--kubeconfig", str(await asyncio.to_thread(cluster.kubeconfig))]
    await asyncio.to_thread(helm, "install", RELEASE, older, *flags, *values({"clusterName": "eu-1"}))
    upgrade = ["upgrade", RELEASE, str(CHART), *flags, "--dry-run=server"]

    made = await asyncio.to_thread(helm, *upgrade, WAY)

    assert all(f"name: REBALANCER_{name}" in made for name in ("CLUSTER_NAME", "LEDGER_MAX_MIB")), made
    with pytest.raises(Refused):
        await asyncio.to_thread(helm, *upgrade, "--reuse-values")


@pytest.mark.timeout(180, func_only=True)
async def test_a_rollback_to_shadow_hands_back_as_an_upgrade_to_it_does(
    cluster: Stack, kube: Kube, crds: None, namespace: str, ours: dict[str, str]
) -> None:
    await kube.create(gpu_node(f"{namespace}-a", labels=ours))
    shadow: Json = {"actuation.keda": True, "nodeSelector": ours, "namespaces": [namespace]}
    flags = ["--namespace", namespace, "--kubeconfig", str(await asyncio.to_thread(cluster.kubeconfig))]
    install = ["install", RELEASE, str(CHART), *flags, *values(shadow)]
    act = ["upgrade", RELEASE, str(CHART), *flags, *values(shadow | {"writeMode": "act"})]

    for command in (install, act, ["rollback", RELEASE, "1", *flags, "--timeout", "60s"]):
        await asyncio.to_thread(helm, *command)

    jobs = await asyncio.to_thread(cluster.audit.writes, resource="jobs", namespace=namespace)
    assert [write.name for write in jobs if write.verb == "create"] == [f"{RELEASE}-hand-back-shadow"]
    await asyncio.to_thread(helm, "uninstall", RELEASE, *flags, "--no-hooks")
    await policies_gone(kube)
