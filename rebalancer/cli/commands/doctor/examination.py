"""Reads what `rebalancer doctor` judges: the service, the cluster, Kafka. What cannot be read is a finding too."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

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
from rebalancer.survey.finding import FAIL, OK, SKIP, WARN, Finding

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
    models = [target.namespace for model in snapshot.models for target in model.targets] if snapshot else []
    models += [model.namespace for model in known.policy.models] if known.policy else []
    for resource, what in CRDS:
        yield await _installed(cluster, resource, what)
        yield await _allowed(cluster, resource, sorted({*models}) if resource.namespaced else ())
    starts = [model.load_seconds for model in snapshot.models if model.load_seconds] if snapshot else []
    names = frozenset(view.name for pool in snapshot.pools for view in pool.node_pools) if snapshot else frozenset()
    for finding in await in_cluster(
        cluster.kube, replace(known, start_seconds=max(starts, default=None), node_pools=names)
    ):
        yield finding


async def _installed(cluster: OpenedCluster, resource: Resource, what: str) -> Finding:
    """Whether the kind is there, by what the server tells everybody: a list is forbidden before it is looked for."""
    about = f"crd/{resource}"
    try:
        served = (await cluster.kube.discover(resource.api_version)).get("resources", ())
    except NotFound:
        served = ()
    except Forbidden as error:
        return Finding(SKIP, about, f"whether it is installed is not told to you: {error}")
    if resource.plural in {each["name"] for each in served}:
        return Finding(OK, about, "")
    return Finding(FAIL, about, f"not installed: {what} cannot be used", "helm upgrade, or apply crds/")


async def _allowed(cluster: OpenedCluster, resource: Resource, namespaces: Sequence[str]) -> Finding:
    """Whether the person may make one of these: everywhere, or at least in each of `namespaces`."""
    about = f"you/create {resource.plural}"
    try:
        if await _may(cluster, resource):
            return Finding(OK, about, "")
        refused = [each for each in namespaces if not await _may(cluster, resource, each)]
    except KubeError as error:
        return Finding(WARN, about, f"unknown: {error}", "ask whoever runs the cluster")
    if namespaces and not refused:
        return Finding(OK, about, "")
    where = (
        f"not in {', '.join(refused)}"
        if refused
        else "not in every namespace"
        if resource.namespaced
        else "you may not"
    )
    return Finding(WARN, about, where, "in an emergency you depend on somebody who may")


async def _may(cluster: OpenedCluster, resource: Resource, namespace: str = "") -> bool:
    """Whether the person may make one of these in a namespace; "": in every one."""
    attributes = {"group": resource.group, "resource": resource.plural, "verb": "create", "namespace": namespace}
    spec = {"resourceAttributes": {key: each for key, each in attributes.items() if each}}
    return bool((await cluster.kube.review(SELF_ACCESS_REVIEWS, spec)).get("allowed"))
