"""Our own kinds are held against the chart's definitions, in the words of an API server."""

from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from rebalancer.sandbox.api import EmbeddedKubernetes, Store
from rebalancer.sandbox.api.definitions import schema
from rebalancer.sandbox.api.resources import OVERRIDES, PODS, RESOURCES, WRITESTOPS

PATH = "/apis/rebalancer.io/v1alpha1/namespaces/chat/overrides"
# Of a schema: what is checked, what only explains itself, and the rules in CEL, of which one is known.
CHECKED = {"type", "properties", "required", "enum", "minimum", "minLength", "maxLength", "format"}
KINDS = '"pause", "freeze", "pin", "cap", "floor", "drain", "exclude", "standUp"'
# What stands behind others than wrong values: the rules in CEL come after them.
MORE = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
SAID = {"description", "x-kubernetes-validations"}


def decided(**spec: object) -> dict[str, Any]:
    whole = {"kind": "pin", "target": {"model": "llama"}, "value": 3, "reason": "launch day", "actor": "alice"}
    whole |= {"expiresAt": "2036-01-01T00:00:00Z", **spec}
    return {
        "metadata": {"name": "keep"},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


async def answered(server: EmbeddedKubernetes, method: str, path: str, body: object, **query: str) -> dict[str, Any]:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    async with (
        aiohttp.ClientSession(server.url) as session,
        session.request(method, path, json=body, params=query, headers={"Content-Type": kind}) as response,
    ):
        answer: dict[str, Any] = await response.json()
        return answer


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            {"kind": "pinn"},
            f'spec.kind: Unsupported value: "pinn": supported values: {KINDS}',
        ),
        ({"value": -1}, "spec.value: Invalid value: -1: spec.value in body should be greater than or equal to 0"),
        (
            {"value": "3"},
            'spec.value: Invalid value: "string": spec.value in body must be of type integer: "string"',
        ),
        (
            {"value": True},
            'spec.value: Invalid value: "boolean": spec.value in body must be of type integer: "boolean"',
        ),
        ({"reason": ""}, 'spec.reason: Invalid value: "": spec.reason in body should be at least 1 chars long'),
        ({"reason": "r" * 257}, "spec.reason: Too long: may not be more than 256 bytes"),
        ({"actor": None, "reason": None}, "spec.reason: Required value, spec.actor: Required value"),
    ],
)
async def test_what_breaks_the_schema_is_refused_and_not_stored(
    kubernetes: EmbeddedKubernetes, store: Store, spec: dict[str, object], says: str
) -> None:
    refused = await answered(kubernetes, "POST", PATH, decided(**spec))
    assert (refused["code"], refused["reason"]) == (422, "Invalid")
    lone = says.startswith(("spec.value: Invalid value: -1", "spec.reason: Invalid"))
    told = says if lone else f"[{says}, {MORE}]"
    assert refused["message"] == f'Override.rebalancer.io "keep" is invalid: {told}'
    assert store.list(OVERRIDES) == []


@pytest.mark.parametrize("end", ["tomorrow", "2036-01-01", "2036-01-01 00:00:00"])
async def test_an_end_that_is_no_instant_is_refused(kubernetes: EmbeddedKubernetes, end: str) -> None:
    refused = await answered(kubernetes, "POST", PATH, decided(expiresAt=end))
    assert [(each["field"], each["reason"]) for each in refused["details"]["causes"]] == [
        ("spec.expiresAt", "FieldValueTypeInvalid"),
        ("<nil>", "FieldValueInvalid"),
    ]


async def test_a_field_that_nobody_knows_is_dropped_and_refused_to_who_asks_for_it(
    kubernetes: EmbeddedKubernetes, store: Store
) -> None:
    misspelt = decided(vlaue=4, target={"model": "llama", "modell": "x"})
    refused = await answered(kubernetes, "POST", PATH, misspelt, fieldValidation="Strict")
    assert refused["code"] == 400
    assert 'strict decoding error: unknown field "spec.vlaue", unknown field "spec.target.modell"' in refused["message"]
    assert store.list(OVERRIDES) == []
    stored = await answered(kubernetes, "POST", PATH, misspelt)
    assert stored["spec"] == decided()["spec"]


async def test_a_decision_does_not_change_but_its_status_does(kubernetes: EmbeddedKubernetes, store: Store) -> None:
    await answered(kubernetes, "POST", PATH, decided())
    refused = await answered(kubernetes, "PATCH", f"{PATH}/keep", {"spec": {"value": 4}})
    assert refused["code"] == 422
    assert "spec: Invalid value: " in refused["message"]
    assert refused["message"].endswith(": an override does not change; delete it and create another")
    told = {"status": {"phase": "InForce", "observedAt": "2026-01-01T00:00:00.5+00:00"}}
    assert (await answered(kubernetes, "PATCH", f"{PATH}/keep/status", told))["status"]["phase"] == "InForce"
    assert store.list(OVERRIDES)[0]["spec"]["value"] == 3


async def test_what_broke_the_schema_before_keeps_nobody_from_the_rest(
    kubernetes: EmbeddedKubernetes, store: Store
) -> None:
    old = {"apiVersion": "rebalancer.io/v1alpha1", "kind": "Override", **decided(actor="")}
    old["metadata"]["namespace"] = "chat"
    store.put(old)
    told = await answered(kubernetes, "PATCH", f"{PATH}/keep/status", {"status": {"phase": "Refused"}})
    assert told["status"]["phase"] == "Refused"
    refused = await answered(kubernetes, "PATCH", f"{PATH}/keep/status", {"status": {"phase": 7}})
    assert [each["field"] for each in refused["details"]["causes"]] == ["status.phase", "<nil>"]


def test_every_keyword_of_the_definitions_is_one_that_is_checked() -> None:
    assert {each for each in RESOURCES if schema(each)} == {OVERRIDES, WRITESTOPS}
    assert schema(PODS) is None

    def keywords(part: dict[str, Any]) -> Iterator[str]:
        yield from part
        for each in part.get("properties", {}).values():
            yield from keywords(each)

    assert {word for each in (OVERRIDES, WRITESTOPS) for word in keywords(schema(each) or {})} == CHECKED | SAID
