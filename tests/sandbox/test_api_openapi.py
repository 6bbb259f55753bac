"""What kubectl reads before it applies: with it plain `kubectl apply -f` works (seen with kubectl 1.34.4)."""

import aiohttp

from rebalancer.api.auth.authority import Trusting
from rebalancer.sandbox.api import EmbeddedKubernetes
from rebalancer.sandbox.api.resources import RESOURCES

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def test_every_kind_says_that_its_patch_checks_fields(kubernetes: EmbeddedKubernetes) -> None:
    kinds = set()
    async with aiohttp.ClientSession(kubernetes.url, raise_for_status=True) as session:
        places = (await (await session.get("/openapi/v3")).json())["paths"]
        for place in places.values():
            document = await (await session.get(place["serverRelativeURL"])).json()
            for path in document["paths"].values():
                named = path["patch"]["x-kubernetes-group-version-kind"]
                assert [each["name"] for each in path["patch"]["parameters"]] == ["fieldValidation"]
                kinds.add((named["group"], named["version"], named["kind"]))
    assert kinds == {(each.group, each.version, each.kind) for each in RESOURCES}


async def test_our_own_kinds_are_described_field_by_field(kubernetes: EmbeddedKubernetes) -> None:
    async with aiohttp.ClientSession(kubernetes.url, raise_for_status=True) as session:
        document = await (await session.get("/openapi/v3/apis/rebalancer.io/v1alpha1")).json()
    schemas = document["components"]["schemas"]
    assert set(schemas) == {"io.rebalancer.v1alpha1.Override", "io.rebalancer.v1alpha1.WriteStop"}
    described = schemas["io.rebalancer.v1alpha1.Override"]
    named = {"group": "rebalancer.io", "version": "v1alpha1", "kind": "Override"}
    assert described["x-kubernetes-group-version-kind"] == [named]
    assert "pin" in described["properties"]["spec"]["properties"]["kind"]["enum"]


async def test_who_asks_in_protobuf_what_he_may_is_told_to_ask_in_json(kubernetes: EmbeddedKubernetes) -> None:
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    async with aiohttp.ClientSession(kubernetes.url, headers=headers) as session:
        assert (await session.post(path, data=b"k8s\x00\x00")).status == 415


async def test_a_group_that_is_not_there_is_404(kubernetes: EmbeddedKubernetes) -> None:
    async with aiohttp.ClientSession(kubernetes.url) as session:
        assert (await session.get("/openapi/v3/apis/nobody.example/v1")).status == 404


async def test_who_asks_in_protobuf_who_he_is_is_told_in_json(kubernetes: EmbeddedKubernetes) -> None:
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf", "Authorization": "Bearer sandbox-me"}
    async with aiohttp.ClientSession(kubernetes.url, headers=headers, raise_for_status=True) as session:
        answer = await (await session.post(WHOAMI, data=b"k8s\x00\x00")).json()
    assert answer["kind"] == "SelfSubjectReview"
    assert answer["status"]["userInfo"]["username"] == "me"


async def test_who_shows_no_token_is_the_one_person_that_the_services_open_api_knows(
    kubernetes: EmbeddedKubernetes,
) -> None:
    async with aiohttp.ClientSession(kubernetes.url, raise_for_status=True) as session:
        answer = await (await session.post(WHOAMI, json={})).json()
    here = await Trusting().who("")
    assert here is not None
    assert answer["status"]["userInfo"]["username"] == here.user == "local"
