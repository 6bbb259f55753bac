"""Every call ends with a result or an error that says what to do; writes are sent once."""

import asyncio
import socket

import pytest

from rebalancer.kube.access import Access
from rebalancer.kube.client import JSON_PATCH, KubeClient
from rebalancer.kube.errors import (
    Ambiguous,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Temporary,
)
from rebalancer.kube.resources import DEPLOYMENTS, NODES, OVERRIDES, PODS, Object, Ref, Resource
from tests.kube.server import (
    ApiServer,
    Fault,
    a_client,
    answers,
    empty_200,
    hangs,
    html_200,
    html_502,
    resets,
    resets_in_the_body,
    says,
)

pytestmark = pytest.mark.looptime

TARGET = Ref(DEPLOYMENTS, "serving", "llama")
POD = Ref(PODS, "serving", "llama-0")


def loop_time() -> float:
    return asyncio.get_running_loop().time()


# --- addresses


@pytest.mark.parametrize(
    ("ref", "path"),
    [
        (POD, "/api/v1/namespaces/serving/pods/llama-0"),
        (TARGET, "/apis/apps/v1/namespaces/serving/deployments/llama"),
        (Ref(NODES, None, "gpu-1"), "/api/v1/nodes/gpu-1"),
        (Ref(NODES, "ignored", "gpu-1"), "/api/v1/nodes/gpu-1"),
        (Ref(PODS, "../kube-system", "a/../b?c"), "/api/v1/namespaces/..%2Fkube-system/pods/a%2F..%2Fb%3Fc"),
    ],
)
async def test_a_ref_is_read_at_its_path(server: ApiServer, client: KubeClient, ref: Ref, path: str) -> None:
    answer = await client.get(ref)
    assert answer["kind"] == "Echo"
    assert server.asked[0].method == "GET"
    assert ref.path == path


def test_a_namespaced_ref_without_namespace_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="name its namespace"):
        _ = Ref(PODS, None, "a").path


# --- reads


async def test_a_list_is_read_in_pages_at_one_revision(server: ApiServer, client: KubeClient) -> None:
    for number in range(7):
        server.pods.put(f"p{number}")
    listing = await client.list(PODS, limit=3)
    assert [pod["metadata"]["name"] for pod in listing.items] == [f"p{n}" for n in range(7)]
    assert listing.resource_version == "107"
    assert [asked.query.get("limit") for asked in server.asked] == ["3", "3", "3"]
    assert "resourceVersion" not in server.asked[0].query  # consistent, not whatever a cache has


async def test_a_list_of_one_namespace_asks_for_that_namespace(server: ApiServer, client: KubeClient) -> None:
    await client.list(PODS, "serving")
    assert server.asked[0].path == "/api/v1/namespaces/serving/pods"


async def test_issue_136_a_page_token_that_expired_starts_the_list_afresh(
    server: ApiServer, client: KubeClient
) -> None:
    for number in range(4):
        server.pods.put(f"p{number}")
    server.on_list.extend([ApiServer.list_page, answers(410, "Expired")])
    listing = await client.list(PODS, limit=3)
    assert len(listing.items) == 4
    assert [bool(asked.query.get("continue")) for asked in server.asked] == [
        False,
        True,
        False,
        True,
    ]


async def test_a_list_that_always_expires_ends_as_gone(server: ApiServer, client: KubeClient) -> None:
    for number in range(4):
        server.pods.put(f"p{number}")
    server.on_list.extend([ApiServer.list_page, answers(410, "Expired")] * 10)
    with pytest.raises(Gone):
        await client.list(PODS, limit=3)
    assert len(server.asked) == 6


async def test_410_without_a_token_is_told_at_once(server: ApiServer, client: KubeClient) -> None:
    server.on_list.append(answers(410, "Expired"))
    with pytest.raises(Gone):
        await client.list(PODS)
    assert len(server.asked) == 1


@pytest.mark.parametrize("fault", [html_200, empty_200, says(200, "{}", "application/json")])
async def test_what_is_no_list_is_not_taken_for_an_empty_one(
    server: ApiServer, client: KubeClient, fault: Fault
) -> None:
    server.on_list.extend([fault] * 3)
    with pytest.raises(Temporary, match="cannot be read"):
        await client.list(PODS)


@pytest.mark.parametrize(
    "fault",
    [html_502, html_200, empty_200, resets, resets_in_the_body, answers(500), answers(429)],
)
async def test_a_read_is_tried_again_after_a_passing_fault(server: ApiServer, client: KubeClient, fault: Fault) -> None:
    server.on_call.append(fault)
    assert (await client.get(POD))["kind"] == "Echo"
    assert len(server.asked) == 2
    assert 0.1 <= loop_time() <= 0.2


async def test_a_read_is_tried_three_times(server: ApiServer, client: KubeClient) -> None:
    server.on_call.extend([html_502] * 9)
    with pytest.raises(Temporary):
        await client.get(POD)
    assert len(server.asked) == 3


async def test_retry_after_is_waited_for(server: ApiServer, client: KubeClient) -> None:
    server.on_call.append(answers(429, retry_after="2"))
    await client.get(POD)
    assert loop_time() == pytest.approx(2)


async def test_a_long_retry_after_is_left_to_the_caller(server: ApiServer, client: KubeClient) -> None:
    server.on_call.append(answers(429, retry_after="30"))
    with pytest.raises(Temporary) as caught:
        await client.get(POD)
    assert caught.value.retry_after_seconds == 30
    assert loop_time() == 0


@pytest.mark.parametrize(("code", "expected"), [(403, Forbidden), (404, NotFound), (410, Gone), (422, Invalid)])
async def test_a_read_is_not_tried_again_where_that_cannot_help(
    server: ApiServer, client: KubeClient, code: int, expected: type[KubeError]
) -> None:
    server.on_call.append(answers(code))
    with pytest.raises(expected):
        await client.get(POD)
    assert len(server.asked) == 1


@pytest.mark.parametrize("issue", [308, 320, 337])
async def test_issues_308_320_337_a_call_into_a_black_hole_ends_after_5_s(
    server: ApiServer, client: KubeClient, issue: int
) -> None:
    server.on_call.append(hangs)
    with pytest.raises(Temporary, match="no answer within 5 s"):
        await client.get(POD)
    assert loop_time() == pytest.approx(5)


async def test_tries_and_waits_together_keep_the_deadline(server: ApiServer, client: KubeClient) -> None:
    server.on_call.extend([answers(429, retry_after="2")] * 2 + [hangs])
    with pytest.raises(Temporary):
        await client.get(POD)
    assert loop_time() == pytest.approx(5)


# --- writes


async def test_scale_is_put_with_the_revision_it_was_decided_on(server: ApiServer, client: KubeClient) -> None:
    await client.get_scale(TARGET)
    await client.put_scale(TARGET, 3, "41")
    read, written = server.asked
    assert read.path == written.path == "/apis/apps/v1/namespaces/serving/deployments/llama/scale"
    assert written.method == "PUT"
    assert written.query["fieldManager"] == "rebalancer"
    assert written.body == {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "llama", "namespace": "serving", "resourceVersion": "41"},
        "spec": {"replicas": 3},
    }


async def test_issues_334_317_a_patch_says_what_kind_it_is(server: ApiServer, client: KubeClient) -> None:
    await client.patch(TARGET, {"spec": {"replicas": 1}})
    await client.patch(TARGET, [{"op": "remove", "path": "/spec/x"}], content_type=JSON_PATCH)
    merge, json_patch = server.asked
    assert merge.headers["Content-Type"] == "application/merge-patch+json"
    assert merge.query["fieldManager"] == "rebalancer"
    assert json_patch.headers["Content-Type"] == "application/json-patch+json"
    assert json_patch.body == [{"op": "remove", "path": "/spec/x"}]


async def test_a_precondition_travels_in_the_body_and_leaves_the_callers_alone(
    server: ApiServer, client: KubeClient
) -> None:
    body: Object = {"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 1}}
    await client.patch(TARGET, body, resource_version="9")
    assert server.asked[0].body == {
        "metadata": {"annotations": {"a": "b"}, "resourceVersion": "9"},
        "spec": {"replicas": 1},
    }
    assert "resourceVersion" not in body["metadata"]


async def test_status_is_patched_at_its_subresource(server: ApiServer, client: KubeClient) -> None:
    await client.patch_status(Ref(OVERRIDES, "serving", "o"), {"status": {"state": "applied"}})
    path = "/apis/rebalancer.io/v1alpha1/namespaces/serving/overrides/o/status"
    assert (server.asked[0].method, server.asked[0].path) == ("PATCH", path)


async def test_an_object_is_created_where_it_says(server: ApiServer, client: KubeClient) -> None:
    review = Resource("authentication.k8s.io", "v1", "tokenreviews", False, "TokenReview")  # noqa: FBT003 - the field is named
    await client.create(OVERRIDES, {"metadata": {"name": "o", "namespace": "serving"}})
    await client.create(review, {"metadata": {}, "spec": {"token": "t"}})
    assert [(asked.method, asked.path) for asked in server.asked] == [
        ("POST", "/apis/rebalancer.io/v1alpha1/namespaces/serving/overrides"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
    ]


async def test_delete_and_evict_name_the_very_pod(server: ApiServer, client: KubeClient) -> None:
    await client.delete(POD, uid="u1", grace_seconds=20)
    await client.evict(POD, "u1", grace_seconds=20)
    deleted, evicted = server.asked
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1"},
        "gracePeriodSeconds": 20,
    }
    assert (deleted.method, deleted.body) == ("DELETE", options)
    assert evicted.path == "/api/v1/namespaces/serving/pods/llama-0/eviction"
    assert evicted.body["metadata"] == {"name": "llama-0", "namespace": "serving"}
    assert evicted.body["deleteOptions"] == options


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (429, "the disruption budget needs 2", Temporary),
        (500, "more than one PodDisruptionBudget", Invalid),
        (500, "failed calling webhook", Ambiguous),
        (404, "no such pod", NotFound),
        (409, "another uid", Conflict),
    ],
)
async def test_an_eviction_that_is_refused_says_how(
    server: ApiServer, client: KubeClient, code: int, message: str, expected: type[KubeError]
) -> None:
    server.on_call.append(answers(code, message=message))
    with pytest.raises(expected, match=message):
        await client.evict(POD, "u1")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (hangs, Ambiguous),
        (resets, Ambiguous),
        (resets_in_the_body, Ambiguous),
        (html_502, Ambiguous),
        (html_200, Ambiguous),
        (empty_200, Ambiguous),
        (answers(500), Ambiguous),
        (answers(503), Temporary),
        (answers(429, retry_after="1"), Temporary),
        (answers(409), Conflict),
    ],
)
async def test_a_write_is_sent_once_and_a_lost_reply_is_not_a_failure(
    server: ApiServer, client: KubeClient, fault: Fault, expected: type[KubeError]
) -> None:
    server.on_call.append(fault)
    with pytest.raises(expected):
        await client.put_scale(TARGET, 3, "1")
    assert len(server.asked) == 1
    assert loop_time() <= 5


async def test_a_write_to_a_server_that_refuses_connections_was_never_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    async with a_client(Access(f"http://127.0.0.1:{port}")) as client:
        with pytest.raises(Temporary, match="not connected") as caught:
            await client.put_scale(TARGET, 3, "1")
    assert isinstance(caught.value.__cause__, OSError)
