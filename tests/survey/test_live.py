"""A live cluster is read kind by kind; what cannot be listed is a sentence, and costs nothing else."""

import random
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import KubeError, Unauthorized
from rebalancer.kube.resources import DEPLOYMENTS, NODEPOOLS, NODES, PODS, SCALEDOBJECTS, STATEFULSETS
from rebalancer.loop.clock import RealClock
from rebalancer.survey.live import survey_live
from rebalancer.survey.objects import address

FOUND = {
    "/api/v1/nodes": ["n1"],
    "/apis/apps/v1/deployments": ["chat", "code"],
    "/apis/apps/v1/namespaces/lab/deployments": ["code"],
}
FORBIDDEN = "/api/v1/pods"
BROKEN = "/apis/keda.sh/v1alpha1/scaledobjects"
LOGGED_OUT = "/apis/apps/v1/statefulsets"


@pytest.fixture
async def kube() -> AsyncIterator[KubeClient]:
    """A client of an API server without Karpenter, where the caller may not list pods; whose items say no kind.

    KEDA's conversion webhook is down there, and logins end as StatefulSets are listed.
    """

    async def answer(request: web.Request) -> web.Response:
        if request.path == FORBIDDEN:
            return web.json_response({"kind": "Status", "code": 403, "reason": "Forbidden"}, status=403)
        if request.path == BROKEN:
            return web.json_response({"kind": "Status", "code": 500, "message": "webhook is down"}, status=500)
        if request.path == LOGGED_OUT:
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)
        if request.path not in FOUND:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        items = [{"metadata": {"name": name}} for name in FOUND[request.path]]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with (
        TestServer(app) as server,
        KubeClient(Access(str(server.make_url("")).rstrip("/")), RealClock(), random.Random(1)) as client,
    ):
        yield client


async def test_objects_carry_the_kind_that_only_their_list_says(kube: KubeClient) -> None:
    survey = await survey_live(kube, [NODES, DEPLOYMENTS])
    assert [address(each) for each in survey.objects] == ["node/n1", "deployment/chat", "deployment/code"]
    assert [each["apiVersion"] for each in survey.of("Deployment", "apps")] == ["apps/v1", "apps/v1"]
    assert survey.unread == ()


async def test_a_kind_that_is_not_there_or_not_ours_to_see_is_a_sentence(kube: KubeClient) -> None:
    survey = await survey_live(kube, [NODEPOOLS, PODS, NODES])
    assert [address(each) for each in survey.objects] == ["node/n1"]
    assert survey.unread == (
        "nodepools.karpenter.sh: not installed in this cluster",
        "pods: you may not list them; ask whoever runs the cluster for this right",
    )


async def test_a_kind_that_the_server_cannot_list_costs_no_other(kube: KubeClient) -> None:
    survey = await survey_live(kube, [NODES, SCALEDOBJECTS, DEPLOYMENTS])
    assert [address(each) for each in survey.objects] == ["node/n1", "deployment/chat", "deployment/code"]
    (why,) = survey.unread
    assert why == f"scaledobjects.keda.sh: cannot be read now: list {BROKEN}: 500 webhook is down"
    assert survey.listed == frozenset({("", "Node"), ("apps", "Deployment")})


async def test_a_login_that_ends_is_an_error_for_all(kube: KubeClient) -> None:
    with pytest.raises(Unauthorized):
        await survey_live(kube, [NODES, STATEFULSETS])


async def test_kinds_of_which_all_objects_are_here_are_known_from_the_others(kube: KubeClient) -> None:
    survey = await survey_live(kube, [NODEPOOLS, PODS, NODES])
    assert survey.listed == frozenset({("karpenter.sh", "NodePool"), ("", "Node")})


async def test_named_namespaces_are_all_that_is_asked_for_but_nodes_have_none(kube: KubeClient) -> None:
    survey = await survey_live(kube, [NODES, DEPLOYMENTS], ["lab"])
    assert [address(each) for each in survey.objects] == ["node/n1", "deployment/code"]


async def test_a_server_that_cannot_be_asked_at_all_is_an_error() -> None:
    async with KubeClient(Access("http://127.0.0.1:1"), RealClock(), random.Random(1)) as client:
        with pytest.raises(KubeError):
            await survey_live(client, [NODES, PODS])
