"""Who an override says it is from, where it may stand, and who may read, decide and stop."""

import asyncio
import os
import shutil
import subprocess

import pytest

from tests.chart.helm import RELEASE, Json, render
from tests.chart.live import ANY, applied, override, write_stop
from tests.docs.blocks import Block, blocks
from tests.testbed.control_plane import ADMIN
from tests.testbed.kube import ApiError, Kube
from tests.testbed.stack import Stack

DECIDE: Json = {
    "apiGroups": ["rebalancer.io"],
    "resources": ["overrides", "writestops"],
    "verbs": ["create", "delete", "get"],
}


async def test_nobody_signs_an_override_or_a_write_stop_as_somebody_else(
    cluster: Stack, kube: Kube, crds: None, namespace: str
) -> None:
    alice, us = await kube.account(namespace, "alice", [ANY]), await kube.account(namespace, RELEASE, [ANY])
    me = f"system:serviceaccount:{namespace}:alice"
    rendered = await asyncio.to_thread(render, {}, namespace)
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    async with applied(kube, rendered, *kinds), cluster.kube(alice) as alice_kube, cluster.kube(us) as our_kube:

        async def said(who: Kube, obj: Json) -> str:
            try:
                await who.create(obj, dryRun="All")
            except ApiError as error:
                return str(error)
            return ""

        async def in_force() -> bool:
            return bool(await said(alice_kube, write_stop("bob")))

        await kube.wait_for(in_force, "the policy is in force")
        for bobs, own in (
            (override(namespace, "bob"), override(namespace, me)),
            (write_stop("bob"), write_stop(me)),
        ):
            refusal = await said(alice_kube, bobs)
            assert f"spec.actor is 'bob', and you are '{me}': put that there" in refusal
            assert await said(alice_kube, own) == ""
            assert await said(our_kube, bobs) == ""


async def test_where_namespaces_are_named_another_installation_may_speak_for_people_in_its_own(
    kube: Kube, crds: None, namespace: str
) -> None:
    rendered = await asyncio.to_thread(render, {"namespaces": ["default"]}, namespace)
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")

    async def signed_by_another(where: str) -> bool:
        try:
            await kube.create(override(where, "bob"), dryRun="All")
        except ApiError:
            return False
        return True

    async def in_force() -> bool:
        return not await signed_by_another(namespace)

    async def drained_from(where: str) -> str:
        drain = override(where, ADMIN)
        drain["spec"] |= {"kind": "drain", "target": {"node": "a100-1"}}
        try:
            await kube.create(drain, dryRun="All")
        except ApiError as error:
            return str(error)
        return ""

    async with applied(kube, rendered, *kinds):
        await kube.wait_for(in_force, "the policy is in force")
        assert not await signed_by_another("default")
        assert await signed_by_another("kube-system")
        assert "names no model concerns everybody" in await drained_from("default")
        assert await drained_from("kube-system") == ""


def _ours(block: Block) -> bool:
    return "kubectl" in block.text and ("rebalancer.io" in block.text or "writestop" in block.text)


BY_KUBECTL = [block for block in blocks("bash") if _ours(block)]  # what pages tell people to make and to delete
KUBECTL, BASH = shutil.which("kubectl"), shutil.which("bash") or "bash"


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH")
async def test_what_pages_do_by_kubectl_an_ordinary_user_may_do_under_our_policies(
    cluster: Stack, kube: Kube, crds: None, namespace: str
) -> None:
    token = await kube.account(namespace, "bob", [DECIDE])
    config = await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-bob", token)
    rendered = await asyncio.to_thread(render, {}, namespace)

    def ran(script: str) -> subprocess.CompletedProcess[str]:
        here = script.replace("namespace: serving", f"namespace: {namespace}").replace("serving", namespace)
        told = {**os.environ, "KUBECONFIG": str(config)}
        command = [BASH, "-ec", here]
        return subprocess.run(command, env=told, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603  # our pages' own lines

    async def in_force() -> bool:
        try:
            await kube.create(write_stop("bob"), dryRun="All")
        except ApiError:
            return True
        return False

    async with applied(kube, rendered, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        await kube.wait_for(in_force, "the policy is in force")
        assert len(BY_KUBECTL) == 4
        for block in BY_KUBECTL:
            done = await asyncio.to_thread(ran, block.text)
            assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"


async def test_a_drain_that_concerns_everybody_is_made_where_the_service_lives(
    kube: Kube, crds: None, namespace: str
) -> None:
    rendered = await asyncio.to_thread(render, {}, namespace)

    async def said(where: str, target: Json) -> str:
        drain = override(where, ADMIN)
        drain["spec"] |= {"kind": "exclude", "target": target}
        try:
            await kube.create(drain, dryRun="All")
        except ApiError as error:
            return str(error)
        return ""

    async with applied(kube, rendered, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):

        async def in_force() -> bool:
            return bool(await said("default", {"node": "n1"}))

        await kube.wait_for(in_force, "the policy is in force")
        refusal = await said("default", {"pool": "spot"})
        assert f"exclude that names no model concerns everybody: create it in namespace {namespace}" in refusal
        assert await said("default", {"pool": "spot", "model": "chat"}) == ""
        assert await said(namespace, {"pool": "spot"}) == ""


async def test_viewers_read_and_operators_decide_where_we_manage(kube: Kube, crds: None, namespace: str) -> None:
    rendered = await asyncio.to_thread(render, {"namespaces": [namespace]}, f"{namespace}")
    roles = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")

    async def may(account: str, verb: str, resource: str, where: str = "") -> bool:
        attributes = {"group": "rebalancer.io", "resource": resource, "verb": verb, "namespace": where}
        user = f"system:serviceaccount:{namespace}:{RELEASE}-{account}"
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}}
        answer = await kube.create(review | {"spec": {"user": user, "resourceAttributes": attributes}})
        return bool(answer["status"]["allowed"])

    async with applied(kube, rendered, *roles):
        await kube.wait_for(lambda: may("operator", "create", "overrides", namespace), "RBAC knows the roles")
        assert await may("viewer", "get", "decisions")
        assert await may("operator", "get", "decisions")
        for verb in ("create", "delete"):
            assert not await may("viewer", verb, "overrides", namespace)
            assert not await may("viewer", verb, "writestops")
            assert await may("operator", verb, "writestops")
            assert await may("operator", verb, "overrides", namespace)
            assert not await may("operator", verb, "overrides", "kube-system")
