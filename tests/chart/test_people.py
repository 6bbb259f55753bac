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

WHO_MAY = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
VIEWERS, OPERATORS = [("User", "alice"), ("User", "bob")], [("Group", "sre")]
NAMED: Json = {"operators": {"groups": ["sre"]}, "viewers": {"users": ["alice", "bob"]}}
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


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

    async def drained_from(where: str) -> str:
        drain = override(where, ADMIN)
        drain["spec"] |= {"kind": "drain", "target": {"node": "a100-1"}}
        try:
            await kube.create(drain, dryRun="All")
        except ApiError as error:
            return str(error)
        return ""

    async def in_force() -> bool:
        """Each policy begins to count at an instant of its own."""
        return not await signed_by_another(namespace) and bool(await drained_from("default"))

    async with applied(kube, rendered, *kinds):
        await kube.wait_for(in_force, "the policies are in force")
        assert not await signed_by_another("default")
        assert await signed_by_another("kube-system")
        assert "names no model concerns everybody" in await drained_from("default")
        assert await drained_from("kube-system") == ""


async def test_an_installation_that_is_named_stops_writes_for_people_too(
    cluster: Stack, kube: Kube, crds: None, namespace: str
) -> None:
    theirs = await kube.account(namespace, "theirs", [ANY])
    for named in ([], [f"{namespace}/theirs"]):
        given: Json = {"namespaces": ["default"], "admissionPolicies.otherInstallations": named}
        rendered = await asyncio.to_thread(render, given, namespace)
        async with applied(kube, rendered, *POLICIES), cluster.kube(theirs) as their_kube:
            await kube.wait_for(lambda: _signing_is_refused(kube), "the policy is in force")
            assert await _signing_is_refused(their_kube) is not bool(named)


async def _signing_is_refused(who: Kube) -> bool:
    """Whether this account may not stop writes in alice's name."""
    try:
        await who.create(write_stop("alice"), dryRun="All")
    except ApiError as error:
        return "spec.actor is 'alice'" in str(error)
    return False


def _ours(block: Block) -> bool:
    return "kubectl" in block.text and ("rebalancer.io" in block.text or "writestop" in block.text)


# What pages tell people to make and to delete, but for what a cluster's owner does after a theft.
BY_KUBECTL = [block for block in blocks("bash") if _ours(block) and not block.why_not]
KUBECTL, BASH = shutil.which("kubectl"), shutil.which("bash") or "bash"


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH")
@pytest.mark.parametrize("managed", ["all", "one"])
async def test_what_pages_do_by_kubectl_whoever_is_named_an_operator_may_do_and_has_no_other_right(
    cluster: Stack, kube: Kube, crds: None, namespace: str, managed: str
) -> None:
    token = await kube.account(namespace, "bob")
    config = await asyncio.to_thread(cluster.kubeconfig, f"{namespace}-bob", token)
    named: Json = {"login": {"operators": {"users": [f"system:serviceaccount:{namespace}:bob"]}}}
    named |= {"namespaces": [namespace]} if managed == "one" else {}
    rendered = await asyncio.to_thread(render, named, namespace)

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

    async def may(*words: str) -> bool:
        done = await asyncio.to_thread(ran, f"kubectl auth can-i {' '.join(words)}")
        return done.stdout.strip() == "yes"

    here = f"--namespace {namespace}"
    async with applied(kube, rendered, *WHO_MAY, *POLICIES):
        await kube.wait_for(in_force, "the policy is in force")
        await kube.wait_for(lambda: may("create overrides", here), "RBAC knows the roles")
        assert len(BY_KUBECTL) == 4
        for block in BY_KUBECTL:
            done = await asyncio.to_thread(ran, block.text)
            assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"
        viewers_token = f"create serviceaccounts/{RELEASE}-viewer --subresource token"
        for words in ("list overrides", "create pods --subresource portforward", viewers_token):
            assert await may(words, here), words
        anybodys_token = "create serviceaccounts --subresource token"
        for words in ("patch overrides", "patch deployments", "delete pods", anybodys_token):
            assert not await may(words, here), words


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


def test_only_the_people_named_may_ask_for_an_accounts_tokens() -> None:
    rendered = render({"login": NAMED, "namespaces": ["serving"]})
    both = ["rebalancer-viewer", "rebalancer-operator"]
    for account, people, tokens in (("operator", OPERATORS, both), ("viewer", VIEWERS, both[:1])):
        token, *others = rendered.one("Role", f"rebalancer-login-{account}")["rules"]
        assert (token["resources"], token["verbs"]) == (["serviceaccounts/token"], ["create"])
        assert token["resourceNames"] == tokens
        assert {resource for rule in others for resource in rule["resources"]} == {"pods", "pods/portforward"}
        subjects = rendered.one("RoleBinding", f"rebalancer-login-{account}")["subjects"]
        assert [(each["kind"], each["name"]) for each in subjects] == people


def test_people_have_in_their_own_name_what_the_account_has_for_which_they_are_named() -> None:
    rendered = render({"login": NAMED, "namespaces": ["serving"]})
    for account, people in (("operator", OPERATORS), ("viewer", VIEWERS)):
        bindings = [each for each in rendered.of("ClusterRoleBinding", "RoleBinding") if _is_of(each, account)]
        assert bindings
        for binding in bindings:
            assert [(each["kind"], each["name"]) for each in binding["subjects"][1:]] == people


def _is_of(binding: Json, account: str) -> bool:
    """Whether it gives that account of people something."""
    return bool(binding["subjects"][0]["name"] == f"rebalancer-{account}")
