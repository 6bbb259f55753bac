"""The fault switches and the audit trail of the embedded API."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from rebalancer.sandbox.api.resources import DEPLOYMENTS, PODS
from tests.sandbox.generated import Generated
from tests.sandbox.hand_clock import START, HandClock
from tests.sandbox.refusals import refusal
from tests.sandbox.shapes import deployment, pod

FIVE = {"spec": {"replicas": 5}}


async def test_a_failure_befalls_only_the_requests_it_was_asked_for(
    apps: Generated, store: Store, kubernetes: EmbeddedKubernetes
) -> None:
    store.put(deployment("llama", 3))
    kubernetes.faults.fail_next(2, 503, method="PATCH", path_part="/scale", retry_after_seconds=7)
    for _ in range(2):
        await apps.read_namespaced_deployment_scale("llama", "chat")
        status = await refusal(apps.patch_namespaced_deployment_scale("llama", "chat", FIVE))
        assert (status["code"], status["details"]["retryAfterSeconds"]) == (503, 7)
    stored = store.get(DEPLOYMENTS, "llama", "chat")
    assert stored is not None
    assert stored["spec"]["replicas"] == 3
    assert (await apps.patch_namespaced_deployment_scale("llama", "chat", FIVE)).spec.replicas == 5


async def test_a_hanging_request_is_served_after_release(
    apps: Generated, store: Store, kubernetes: EmbeddedKubernetes
) -> None:
    store.put(deployment("llama", 3))
    kubernetes.faults.hang_next(1, method="PATCH")
    hanging = asyncio.create_task(apps.patch_namespaced_deployment_scale("llama", "chat", FIVE))
    assert (await apps.read_namespaced_deployment_scale("llama", "chat")).spec.replicas == 3
    assert not hanging.done()
    kubernetes.faults.release()
    assert (await hanging).spec.replicas == 5


async def test_a_server_stops_at_once_although_a_request_hangs_and_a_watch_is_open(clock: HandClock) -> None:
    async with asyncio.timeout(2), aiohttp.ClientSession() as session:
        kubernetes = EmbeddedKubernetes(clock)
        await kubernetes.start()
        kubernetes.store.put(pod("a", node="gpu-1"))
        kubernetes.faults.hang_next(1, method="DELETE")
        hanging = asyncio.create_task(session.delete(f"{kubernetes.url}/api/v1/namespaces/chat/pods/a"))
        async with session.get(f"{kubernetes.url}/api/v1/pods", params={"watch": "true"}) as watch:
            assert await watch.content.readline()
            await kubernetes.stop()
            assert await watch.content.readline() == b""
        with pytest.raises(aiohttp.ClientError):
            await hanging
    stored = kubernetes.store.get(PODS, "a", "chat")
    assert stored is not None
    assert "deletionTimestamp" not in stored["metadata"]


async def test_a_lost_reply_was_applied_all_the_same(
    apps: Generated, store: Store, kubernetes: EmbeddedKubernetes
) -> None:
    store.put(deployment("llama", 3))
    kubernetes.faults.lose_next_replies(1, method="PATCH")
    with pytest.raises(aiohttp.ClientError):
        await apps.patch_namespaced_deployment_scale("llama", "chat", FIVE)
    stored = store.get(DEPLOYMENTS, "llama", "chat")
    assert stored is not None
    assert stored["spec"]["replicas"] == 5


async def test_open_watches_can_be_closed(kubernetes: EmbeddedKubernetes, store: Store) -> None:
    store.put(pod("a"))
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{kubernetes.url}/api/v1/pods", params={"watch": "true"}) as response,
    ):
        await response.content.readline()
        kubernetes.close_watches()
        assert await response.content.readline() == b""


async def test_the_audit_trail_tells_who_changed_what_when(
    core: Generated, apps: Generated, store: Store, kubernetes: EmbeddedKubernetes, clock: HandClock
) -> None:
    store.put(deployment("llama", 3))
    clock.advance(12)
    await apps.read_namespaced_deployment_scale("llama", "chat")
    await apps.patch_namespaced_deployment_scale("llama", "chat", FIVE)
    await refusal(core.delete_namespaced_pod("nobody", "chat"))
    write, missed = kubernetes.audit
    assert (write.at, write.user, write.user_agent) == (START + 12, "tester", "pytest")
    assert (write.verb, write.code, write.body) == ("patch", 200, FIVE)
    assert write.target is not None
    assert (write.target.resource, write.target.name, write.target.subresource) == (DEPLOYMENTS, "llama", "scale")
    assert write.path == "/apis/apps/v1/namespaces/chat/deployments/llama/scale"
    assert (missed.verb, missed.code) == ("delete", 404)


async def test_a_foreign_token_is_unauthorized(kubernetes: EmbeddedKubernetes) -> None:
    headers = {"Authorization": "Bearer somebody-elses"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{kubernetes.url}/api/v1/pods") as answer,
    ):
        assert (answer.status, (await answer.json())["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'{"a": NaN}'])
async def test_a_body_that_is_no_object_is_refused(kubernetes: EmbeddedKubernetes, body: bytes) -> None:
    async with aiohttp.ClientSession() as session:
        url = f"{kubernetes.url}/api/v1/namespaces/chat/pods"
        async with session.post(url, data=body) as answer:
            assert (answer.status, (await answer.json())["kind"]) == (400, "Status")


async def test_a_kubeconfig_file_leads_to_the_server(kubernetes: EmbeddedKubernetes, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    await asyncio.to_thread(kubernetes.write_kubeconfig, path, "operator")
    written = await asyncio.to_thread(path.read_text)
    assert kubernetes.url in written
    assert '"operator"' in written
