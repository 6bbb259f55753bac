"""`rebalancer doctor` on a real API server: what people store there is told, by an account that may only list.

Some traps no API server lets in: they stand in manifests alone (`--manifests`), and in the table below with the reason.
"""

import asyncio
import copy
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from rebalancer.survey.traps.kinds import KINDS
from tests.chart.conftest import CRDS, MONITORING
from tests.survey.fixtures import FIXTURES
from tests.survey.manifests import a_deployment
from tests.testbed.audit import AuditLog
from tests.testbed.build import build
from tests.testbed.karpenter import Karpenter
from tests.testbed.keda import Keda
from tests.testbed.kube import ApiError, Json, Kube
from tests.testbed.stack import Stack

_PROGRAM = Path(sys.executable).parent / "rebalancer"
_CLUSTER_SCOPED = {"Node", "NodePool", "NodeOverlay"}
# KEDA's webhook wants to see what a trigger of cpu is about.
_TARGET = a_deployment(container={"resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}})
# Held against a policy or against series, which one look at the whole cluster has not: tests/survey.
_WITH_MORE = {key for key, fixture in FIXTURES.items() if fixture.policy or fixture.series}
_NEVER_STORED = {
    "idle-not-below": "KEDA's webhook refuses it, where it is installed",
    "fallback-of-resources": "the same",
    "gpu-limits": "the API server wants requests and limits of GPUs equal",
    "unfilled": "a name is a string",
    "removed-version": "no API server serves it",
    "early-version": "it is read in the version that stays, whatever it was written in",
    "removed-field": "what the schema does not know is dropped, or refused",
    "parent": "the definitions of KServe and Ray are not installed",
    "seldom-scraped": "the definition of PodMonitor is not installed",
}

_STORED_BESIDE_OTHERS = {"parent", "seldom-scraped"}  # a test that ran before may have installed their definitions


@pytest.fixture
async def monitoring(kube: Kube) -> None:
    operator = await asyncio.to_thread(lambda: build("prometheus-operator").manifests(*MONITORING))
    await kube.install_crds([*CRDS, *operator])


class Stored:
    """The fixtures that the API server took, each in a namespace of its own; objects are known by where they stand."""

    def __init__(self, kube: Kube, namespace: str, ours: dict[str, str]) -> None:
        self._kube = kube
        self._namespace = namespace
        self._ours = ours
        self._objects: list[tuple[str, str, str | None]] = []
        self.refused: dict[str, str] = {}

    async def keep(self, place: str, objects: list[Json]) -> None:
        """Store them in the namespace of `place`; a refusal is noted under it."""
        where = f"{self._namespace}-{place}"
        await self._kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}})
        names: Counter[tuple[str, str]] = Counter()
        bare = {each["kind"] for each in objects} == {"ScaledObject"}
        for each in copy.deepcopy([_TARGET, *objects] if bare else objects):
            kind, meta = each["kind"], each["metadata"]
            meta |= {"labels": {**self._ours, **meta.get("labels", {})}}
            if kind in _CLUSTER_SCOPED:
                meta.pop("namespace", None)
                meta["name"] = f"{where}-{meta['name']}"
            else:
                meta["namespace"] = where
            names[kind, str(meta["name"])] += 1
            if (again := names[kind, str(meta["name"])]) > 1:
                meta["name"] = f"{meta['name']}-{again}"
            try:
                await self._kube.create(each)
                self._objects.append((kind, meta["name"], meta.get("namespace")))
            except ApiError as error:
                self.refused[place] = str(error)

    async def end(self) -> None:
        """Take the objects away; the namespaces stay, as each would cost its controller some hundred requests."""
        for kind, name, where in self._objects:
            await self._kube.delete(kind, name, where)


@pytest.fixture
async def stored(
    keda: Keda, karpenter: Karpenter, monitoring: None, kube: Kube, namespace: str, ours: dict[str, str]
) -> AsyncIterator[Stored]:
    stored = Stored(kube, namespace, ours)
    for key, fixture in FIXTURES.items():
        if key not in _WITH_MORE:
            await stored.keep(f"{key}-bad", fixture.bad)
            await stored.keep(f"{key}-good", fixture.good)
    yield stored
    await stored.end()


async def _doctor(kubeconfig: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Its exit code and its findings; there is no service to ask."""
    done = await asyncio.to_thread(
        subprocess.run,
        [str(_PROGRAM), "doctor", "-o", "json", "--server", "http://127.0.0.1:1", *arguments],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


async def test_each_trap_that_can_be_stored_is_told_by_an_account_that_may_only_list(
    cluster: Stack, kube: Kube, stored: Stored, namespace: str, audit: AuditLog
) -> None:
    listed = [
        {"apiGroups": [group], "resources": sorted({each.plural for each in of_group}), "verbs": ["list"]}
        for group, of_group in groupby(sorted(KINDS, key=lambda kind: kind.group), key=lambda kind: kind.group)
    ]
    token = await kube.account(namespace, "examiner", listed)
    kubeconfig = await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-examiner", token)
    code, findings = await _doctor(kubeconfig)

    told = {
        (key, state)
        for key in FIXTURES
        for state in ("bad", "good")
        for each in findings
        if each["trap"] == key and each["state"] in ("warn", "FAIL") and f"{namespace}-{key}-{state}" in each["about"]
    }
    untold = {key for key in FIXTURES if key not in _WITH_MORE and (key, "bad") not in told}
    assert set(_NEVER_STORED) - _STORED_BESIDE_OTHERS <= untold <= set(_NEVER_STORED), {
        key: stored.refused.get(f"{key}-bad") for key in untold ^ set(_NEVER_STORED)
    }
    assert {key for key, state in told if state == "good"} == set()
    assert code == 1, "some of them are FAIL"
    await audit.settle(kube)
    user = f"system:serviceaccount:{namespace}:examiner"
    requests = await asyncio.to_thread(lambda: list(audit.requests(user)))
    assert {each.verb for each in requests} == {"list", "create"}
    assert {each.target for each in requests if each.verb == "create"} == {"selfsubjectaccessreviews"}
