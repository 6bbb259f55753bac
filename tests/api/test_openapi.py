"""The OpenAPI document: made of the routes, whole, and the one that is kept in the documentation."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from rebalancer.api.serving.routes import ROUTES, openapi_text
from tests.api.asking import Asked, token

DOCUMENT: dict[str, Any] = json.loads(openapi_text())
OPERATIONS = [
    (method, path, operation) for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
]


def references(part: object) -> Iterator[str]:
    """Every `$ref` below."""
    if isinstance(part, dict):
        yield from (value for key, value in part.items() if key == "$ref")
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def test_every_route_is_in_it_once_with_words_and_its_errors() -> None:
    assert {(method.upper(), path) for method, path, _ in OPERATIONS} == {(each.method, each.path) for each in ROUTES}
    identifiers = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(identifiers)) == len(identifiers)
    for _, path, operation in OPERATIONS:
        assert operation["summary"].endswith("."), path
        assert {"400", "401", "403", "429", "503", "default"} <= set(operation["responses"]), path
        assert "Retry-After" in operation["responses"]["503"]["headers"]


def test_every_reference_leads_somewhere_and_nothing_is_there_in_vain() -> None:
    used = set(references(DOCUMENT))
    there = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert used == there


def test_names_are_camel_case_and_instants_are_date_times() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for key, part in schema.get("properties", {}).items():
            assert re.fullmatch(r"[a-z][a-zA-Z0-9]*", key), f"{name}.{key}"
            if key == "at" or key.endswith("At"):
                text = json.dumps(part)
                assert '"date-time"' in text, f"{name}.{key}: {text}"


@pytest.mark.parametrize("name", sorted(DOCUMENT["components"]["schemas"]))
def test_every_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])


@pytest.mark.parametrize("path", ["/v1/plan", "/v1/snapshot", "/v1/session"])
async def test_answers_fit_their_schemas(api: Asked, path: str) -> None:
    body = (await api("GET", path, token("ann"))).json
    schema = DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    whole = {**schema, "components": DOCUMENT["components"]}
    validator = jsonschema.Draft202012Validator(whole, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    assert [error.message for error in validator.iter_errors(body)] == []


async def test_it_is_served_to_everybody_as_it_is_kept(api: Asked) -> None:
    answer = await api("GET", "/v1/openapi.json")
    assert answer.status == 200
    assert answer.body.decode() == openapi_text()
