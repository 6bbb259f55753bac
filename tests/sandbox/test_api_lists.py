"""Lists of the embedded API: scope, selectors, pages."""

import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from ruamel.yaml import YAML

from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from tests.sandbox.generated import Generated
from tests.sandbox.hand_clock import HandClock
from tests.sandbox.refusals import refusal
from tests.sandbox.shapes import deployment, override, pod

_CRD = YAML(typ="safe").load(Path(__file__).parents[2] / "charts/rebalancer/crds/overrides.yaml")
COLUMNS = [each["name"] for each in _CRD["spec"]["versions"][0]["additionalPrinterColumns"]]  # of an override


def _names(listed: Any) -> list[str]:  # noqa: ANN401 - the generated client has no types
    return [item.metadata.name for item in listed.items]


def _next(page: Any) -> str | None:  # noqa: ANN401 - same
    token: str | None = page.to_dict()["metadata"]["_continue"]
    return token


async def test_a_list_covers_one_namespace_or_all_in_order(core: Generated, store: Store) -> None:
    for name, namespace in (("b", "chat"), ("a", "chat"), ("c", "batch")):
        store.put(pod(name, namespace))
    assert _names(await core.list_namespaced_pod("chat")) == ["a", "b"]
    everywhere = await core.list_pod_for_all_namespaces()
    assert _names(everywhere) == ["c", "a", "b"]
    assert everywhere.metadata.resource_version == str(store.revision)


async def test_selectors_narrow_a_list(core: Generated, store: Store) -> None:
    store.put(pod("a", model="llama", tier="gold"))
    store.put(pod("b", model="llama", node="gpu-1"))
    store.put(pod("c", model="qwen", node="gpu-1"))
    for selector, wanted in (
        ("model=llama", ["a", "b"]),
        ("model==llama,tier=gold", ["a"]),
        ("model!=llama", ["c"]),
        ("!tier", ["b", "c"]),
        ("tier", ["a"]),
    ):
        assert _names(await core.list_namespaced_pod("chat", label_selector=selector)) == wanted, selector
    assert _names(await core.list_namespaced_pod("chat", field_selector="spec.nodeName=gpu-1")) == ["b", "c"]
    sets = core.list_namespaced_pod("chat", label_selector="model in (llama, qwen)")
    assert (await refusal(sets))["code"] == 400


async def test_pages_show_the_list_as_it_was_at_the_first(core: Generated, store: Store) -> None:
    for number in range(7):
        store.put(pod(f"p{number}"))
    page = await core.list_namespaced_pod("chat", limit=3)
    first = page.metadata.resource_version
    assert page.metadata.remaining_item_count == 4
    store.put(pod("p1-new"))
    names = _names(page)
    while token := _next(page):
        page = await core.list_namespaced_pod("chat", limit=3, _continue=token)
        assert page.metadata.resource_version == first
        names += _names(page)
    assert names == [f"p{number}" for number in range(7)]


async def test_a_page_of_a_forgotten_list_is_410(core: Generated, store: Store) -> None:
    for number in range(4):
        store.put(pod(f"p{number}"))
    page = await core.list_namespaced_pod("chat", limit=2)
    store.drop_history()
    status = await refusal(core.list_namespaced_pod("chat", limit=2, _continue=_next(page)))
    assert (status["code"], status["reason"]) == (410, "Expired")


async def test_items_carry_their_kind_only_in_lists_of_custom_resources(
    custom: Generated, store: Store, kubernetes: EmbeddedKubernetes
) -> None:
    store.put(pod("a"))
    store.put(override("pin-llama"))
    async with aiohttp.ClientSession() as session, session.get(f"{kubernetes.url}/api/v1/pods") as response:
        pods = await response.json()
    assert pods["kind"] == "PodList"
    assert pods["items"][0].keys() == {"metadata", "spec"}
    overrides = await custom.list_cluster_custom_object("rebalancer.io", "v1alpha1", "overrides")
    assert overrides["items"][0]["kind"] == "Override"


async def test_discovery_names_every_group_and_the_scale_subresource(
    apps: Generated, apis: Generated, version: Generated
) -> None:
    groups = {group.name for group in (await apis.get_api_versions()).groups}
    assert {"apps", "autoscaling", "keda.sh", "karpenter.sh", "rebalancer.io", "coordination.k8s.io"} <= groups
    resources = {resource.name for resource in (await apps.get_api_resources()).resources}
    assert {"deployments", "deployments/scale", "deployments/status"} <= resources
    whole = [resource.name for resource in (await apps.get_api_resources()).resources if resource.categories]
    assert "deployments" in whole, "kubectl get all"
    assert (await version.get_code()).minor == "34"


async def test_health_is_told(kubernetes: EmbeddedKubernetes) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{kubernetes.url}/readyz") as response:
        assert (response.status, await response.text()) == (200, "ok")


@pytest.mark.parametrize(
    "path", ["/nothing", "/api/v1", "/apis/apps", "/apis/apps/v1", "/api/v1/namespaces/chat/nodes"]
)
async def test_only_what_is_served_has_an_address(kubernetes: EmbeddedKubernetes, path: str) -> None:
    known = {"/api/v1", "/apis/apps", "/apis/apps/v1"}
    async with aiohttp.ClientSession() as session, session.get(f"{kubernetes.url}{path}") as response:
        assert response.status == (200 if path in known else 404)


async def test_kubectl_gets_a_table_whose_ages_are_by_the_servers_clock(
    kubernetes: EmbeddedKubernetes, store: Store, clock: HandClock
) -> None:
    store.put(pod("p", "chat"))
    store.put(override("keep", "chat"))
    clock.advance(150.0)
    asking = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    async with aiohttp.ClientSession(headers=asking) as session:
        async with session.get(f"{kubernetes.url}/api/v1/pods") as response:
            pods = await response.json()
        path = f"{kubernetes.url}/apis/rebalancer.io/v1alpha1/namespaces/chat/overrides/keep"
        async with session.get(path) as response:
            decided = await response.json()
    assert pods["kind"] == "Table"
    assert [(each["cells"][0], each["cells"][-1]) for each in pods["rows"]] == [("p", "2m")]
    assert pods["rows"][0]["object"]["metadata"]["namespace"] == "chat"
    heads = [each["name"] for each in decided["columnDefinitions"]]
    assert heads[1:] == COLUMNS
    assert dict(zip(heads, decided["rows"][0]["cells"], strict=True))["Value"] == "3"


async def test_a_thousand_pods_are_listed_within_50_ms(kubernetes: EmbeddedKubernetes, store: Store) -> None:
    for number in range(1000):
        store.put(pod(f"p{number:04}", node=f"gpu-{number % 125}", model="llama"))
    store.put(deployment("llama", 1000))
    body, best = b"", float("inf")
    async with aiohttp.ClientSession() as session:
        for _ in range(5):
            start = time.perf_counter()
            async with session.get(f"{kubernetes.url}/api/v1/pods") as response:
                body = await response.read()
            best = min(best, time.perf_counter() - start)
    assert body.count(b'"name":"p0') == 1000
    assert best < 0.05
