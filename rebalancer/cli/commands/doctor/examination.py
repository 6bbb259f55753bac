"""Reads what `rebalancer doctor` judges: the service, the cluster, Kafka. What cannot be read is a finding too."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from rebalancer.api.ports.status import Status
from rebalancer.api.text.checks import of_snapshot, of_status
from rebalancer.cli.commands.doctor.traps import in_cluster
from rebalancer.cli.failure import Failed
from rebalancer.cli.remote.answers import decoded
from rebalancer.cli.remote.client import open_api
from rebalancer.cli.remote.cluster import OpenedCluster, open_cluster
from rebalancer.cli.remote.where import Where
from rebalancer.domain.snapshot import Snapshot
from rebalancer.kube.errors import Forbidden, KubeError, NotFound
from rebalancer.kube.resources import OVERRIDES, SELF_ACCESS_REVIEWS, WRITESTOPS, Resource
from rebalancer.survey.case import Case
from rebalancer.survey.finding import FAIL, OK, WARN, Finding

CRDS = ((OVERRIDES, "overrides"), (WRITESTOPS, "the write stop"))


async def examine(where: Where, known: Case) -> tuple[Finding, ...]:
    """Every check there is, in the order of dependence, with what is `known` already. Raises nothing."""
    findings: list[Finding] = []
    snapshot = None
    try:
        async with open_api(where) as api:
            status = decoded(await api.get("/v1/status"), Status)
            snapshot = decoded(await api.get("/v1/snapshot"), Snapshot)
        findings += [Finding(OK, "api", ""), *of_status(status), *of_snapshot(snapshot)]
    except Failed as failed:
        findings.append(Finding(FAIL, "api", str(failed), "see above; rebalancer login, or --server"))
    try:
        async with open_cluster(where) as cluster:
            async for each in _cluster(cluster, snapshot, known):
                findings.append(each)  # those before a call that fails are kept
    except Failed as failed:
        findings.append(Finding(FAIL, "cluster", str(failed), "check --kubeconfig and --context"))
    return tuple(findings)


async def _cluster(cluster: OpenedCluster, snapshot: Snapshot | None, known: Case) -> AsyncIterator[Finding]:
    for resource, what in CRDS:
        yield await _installed(cluster, resource, what)
        yield await _allowed(cluster, resource)
    starts = [model.load_seconds for model in snapshot.models if model.load_seconds] if snapshot else []
    names = frozenset(view.name for pool in snapshot.pools for view in pool.node_pools) if snapshot else frozenset()
    for finding in await in_cluster(
        cluster.kube, replace(known, start_seconds=max(starts, default=None), node_pools=names)
    ):
        yield finding


async def _installed(cluster: OpenedCluster, resource: Resource, what: str) -> Finding:
    about = f"crd/{resource}"
    try:
        await cluster.kube.list(resource, limit=1)
    except NotFound:
        return Finding(FAIL, about, f"not installed: {what} cannot be used", "helm upgrade, or apply crds/")
    except Forbidden:
        return Finding(OK, about, "")  # it is there; what we may is the next check
    return Finding(OK, about, "")


async def _allowed(cluster: OpenedCluster, resource: Resource) -> Finding:
    """Whether the person may make one of these."""
    attributes = {"group": resource.group, "resource": resource.plural, "verb": "create"}
    review: dict[str, Any] = {"resourceAttributes": attributes}
    about = f"you/create {resource.plural}"
    try:
        answer = await cluster.kube.create(
            SELF_ACCESS_REVIEWS,
            {
                "apiVersion": SELF_ACCESS_REVIEWS.api_version,
                "kind": SELF_ACCESS_REVIEWS.kind,
                "metadata": {},
                "spec": review,
            },
        )
    except KubeError as error:
        return Finding(WARN, about, f"unknown: {error}", "ask whoever runs the cluster")
    if answer.get("status", {}).get("allowed"):
        return Finding(OK, about, "")
    return Finding(WARN, about, "not in every namespace", "in an emergency you depend on somebody who may")
