"""Terms under the chart's policies, on the real API server: what our account may write locks no later leader out."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rebalancer.act.originals import ANNOTATION as ORIGINALS
from rebalancer.leader.candidate import Candidate, LeaseClaim
from rebalancer.leader.lease import EPOCH, decoded
from tests.chart.helm import RELEASE, Json, render
from tests.chart.live import ANY, applied
from tests.testbed.kube import ApiError, Kube
from tests.testbed.stack import Stack

MOST = 1_000_000_000
"""Terms that the policy takes at once, from the second at which the Lease was made."""


@pytest.fixture
async def us(cluster: Stack, kube: Kube, crds: None, namespace: str) -> AsyncIterator[Kube]:
    """Our account with all rights, held by the policies alone; an HPA, and no Lease yet."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    await kube.apply(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "chat", "namespace": namespace},
            "spec": {"scaleTargetRef": target, "maxReplicas": 3},
        }
    )
    token = await kube.account(namespace, RELEASE, [ANY])
    rendered = await asyncio.to_thread(render, {"writeMode": "act", "actuation.hpa": True}, namespace)
    policies = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    async with applied(kube, rendered, *policies), cluster.kube(token) as ours:

        async def in_force() -> bool:
            """Whether each of the policies refuses by now what only it does."""
            lease = await _counted(ours, namespace, LeaseClaim(None, "", 10**15 - 1, 8.0), dryRun="All")
            hpa = await _stamped(ours, namespace, "mine", dryRun="All")
            return lease is not None and hpa is not None

        await ours.wait_for(in_force, "the policies are in force")
        yield ours


async def test_whatever_a_thief_writes_to_the_lease_the_next_leader_counts_on(
    us: Kube, kube: Kube, namespace: str
) -> None:
    replica = Candidate("rb-0").saw(None, 0.0)
    assert await _counted(us, namespace, replica.claim(0.0)) is None, "there was no Lease"
    made = decoded(await kube.get("Lease", RELEASE, namespace)).created_at

    for term in (made, made + 1):
        assert await _next_leads(us, kube, namespace) == term
    for ahead in (10**15 - 1, made + MOST + 1):
        assert "so far ahead" in (await _counted(us, namespace, LeaseClaim("", "thief", ahead, 8.0)) or "")
    assert "upwards" in (await _refusal(us, _lease(namespace), {"metadata": {"annotations": {EPOCH: "mine"}}}) or "")
    assert "upwards" in (await _refusal(us, _lease(namespace), {"metadata": {"annotations": {EPOCH: None}}}) or "")

    assert await _counted(us, namespace, LeaseClaim("", "", made + MOST, 8.0)) is None, "a thief's best"
    assert await _next_leads(us, kube, namespace) == made + MOST + 1
    await kube.patch("Lease", RELEASE, {"metadata": {"annotations": {EPOCH: "spoiled"}}}, namespace)
    assert await _next_leads(us, kube, namespace) == made


async def test_a_lease_that_is_deleted_is_made_again_by_a_replica_that_remembers_a_thief_s_number(
    us: Kube, kube: Kube, namespace: str
) -> None:
    await _counted(us, namespace, LeaseClaim(None, "", 0, 8.0))
    made = decoded(await kube.get("Lease", RELEASE, namespace)).created_at
    assert await _counted(us, namespace, LeaseClaim("", "", made + MOST, 8.0)) is None
    remembers = Candidate("rb-0").saw(decoded(await kube.get("Lease", RELEASE, namespace)), 0.0)
    await kube.delete("Lease", RELEASE, namespace)

    thief = LeaseClaim(None, "", 10**15 - 1, 8.0)
    assert "so far ahead" in (await _counted(us, namespace, thief) or "")
    assert await _counted(us, namespace, remembers.saw(None, 1.0).claim(1.0)) is None
    assert (await _next_leads(us, kube, namespace, remembers)) == made + MOST + 1


async def test_no_stamp_that_a_thief_may_set_keeps_the_leader_from_an_object(
    us: Kube, kube: Kube, namespace: str
) -> None:
    assert await _stamped(us, namespace, "5") is None, "no Lease tells of a term"
    await kube.patch("HorizontalPodAutoscaler", "chat", {"metadata": {"annotations": {EPOCH: None}}}, namespace)
    await _counted(us, namespace, LeaseClaim(None, "", 17, 8.0))

    async def seen() -> bool:
        """Policies read the Lease through a watch."""
        return "ahead of the one on its Lease" in (await _stamped(us, namespace, "18", dryRun="All") or "")

    await kube.wait_for(seen, "a term ahead of the Lease's is refused")
    assert "is a number" in (await _stamped(us, namespace, "mine") or "")
    assert await _stamped(us, namespace, "17") is None
    assert "leads since" in (await _stamped(us, namespace, "16") or "")
    for spoiled in ("mine", "9" * 400, ""):
        await kube.patch("HorizontalPodAutoscaler", "chat", {"metadata": {"annotations": {EPOCH: spoiled}}}, namespace)
        assert await _stamped(us, namespace, "17", dryRun="All") is None, spoiled


async def _next_leads(us: Kube, kube: Kube, namespace: str, replica: Candidate | None = None) -> int:
    """The term of a replica that finds nobody leading, as its own arithmetic has it; the policies take it."""
    lease = await kube.get("Lease", RELEASE, namespace)
    claim = (replica or Candidate("rb-1")).saw(decoded(lease), 0.0).claim(3600.0)
    assert claim is not None
    assert await _counted(us, namespace, claim) is None
    return claim.epoch


def _lease(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{RELEASE}"


async def _counted(us: Kube, namespace: str, claim: LeaseClaim | None, **query: str) -> str | None:
    """The refusal of what a replica, or a thief, writes to the Lease; None: it is stored. No version: it is made."""
    assert claim is not None
    body: Json = {
        "metadata": {"annotations": {EPOCH: str(claim.epoch)}},
        "spec": {"holderIdentity": claim.holder, "leaseDurationSeconds": round(claim.lease_seconds)},
    }
    if claim.version is not None:
        return await _refusal(us, _lease(namespace), body, **query)
    body["metadata"] |= {"name": RELEASE, "namespace": namespace}
    try:
        await us.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}, **query)
    except ApiError as error:
        return _by_policy(error)
    return None


async def _stamped(us: Kube, namespace: str, epoch: str, **query: str) -> str | None:
    """The refusal of a write to the HPA with this number of a term; None: it is taken."""
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/chat"
    return await _refusal(us, path, {"metadata": {"annotations": {EPOCH: epoch, ORIGINALS: "{}"}}}, **query)


async def _refusal(us: Kube, path: str, patch: Json, **query: str) -> str | None:
    try:
        await us.request("PATCH", path, patch, content_type="application/merge-patch+json", **query)
    except ApiError as error:
        return _by_policy(error)
    return None


def _by_policy(error: ApiError) -> str:
    if "ValidatingAdmissionPolicy" not in str(error):
        raise error
    return str(error)
