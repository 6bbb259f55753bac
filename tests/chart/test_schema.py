"""The schema of the chart's values: complete, strict, and every value has a comment's place in values.yaml."""

import json
from collections.abc import Iterator

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.chart.helm import CHART, Json

SCHEMA: Json = json.loads((CHART / "values.schema.json").read_text())
VALUES: Json = yaml.safe_load((CHART / "values.yaml").read_text())
# Objects of Kubernetes that are passed on as they are.
PASSED_ON = {"policy", "affinity", "nodeSelector", "podAnnotations", "podLabels", "labels", "resources"} | {
    "serviceAccountAnnotations",
    "matchers",
}


def objects(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every part of the schema that has properties, with where it is."""
    if "properties" in schema:
        yield path or "(top)", schema
    for name, part in schema.get("properties", {}).items():
        yield from objects(part, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from objects(schema["items"], f"{path}[]")


def leaves(values: Json, path: str = "") -> Iterator[str]:
    for name, value in values.items():
        where = f"{path}.{name}" if path else name
        if isinstance(value, dict) and name not in PASSED_ON:
            yield from leaves(value, where)
        else:
            yield where


def allowed(schema: Json, path: str = "") -> Iterator[str]:
    for name, part in schema["properties"].items():
        where = f"{path}.{name}" if path else name
        if "properties" in part and name not in PASSED_ON:
            yield from allowed(part, where)
        else:
            yield where


def test_the_schema_is_one_and_the_values_as_they_stand_satisfy_it() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert [error.message for error in Draft7Validator(SCHEMA).iter_errors(VALUES)] == []


def test_no_part_of_it_takes_unknown_keys() -> None:
    assert [path for path, part in objects(SCHEMA) if part.get("additionalProperties") is not False] == []


def test_every_value_that_is_allowed_is_in_values_yaml_and_the_other_way_round() -> None:
    assert sorted(set(allowed(SCHEMA)) - {"global", "enabled"}) == sorted(leaves(VALUES))


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"writeMode": "active"}, "writeMode"),
        ({"replicas": 9}, "replicas"),
        ({"kafka": {"bootstrap": "kafka"}}, "kafka.bootstrap"),
        ({"kafka": {"securityProtocol": "TLS"}}, "kafka.securityProtocol"),
        ({"prometheus": {"url": "http://me:secret@prometheus"}}, "prometheus.url"),
        ({"namespaces": ["Team A"]}, "namespaces.0"),
        ({"image": {"digest": "latest"}}, "image.digest"),
        ({"api": {"port": 70000}}, "api.port"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_stands(given: Json, where: str) -> None:
    (error,) = Draft7Validator(SCHEMA).iter_errors(given)
    assert ".".join(str(part) for part in error.path) == where


@pytest.mark.parametrize(
    "given",
    [
        {"kafka": {"bootstrap": "[fd00::5]:9098"}},
        {"kafka": {"bootstrap": "[fd00::5]:9098,kafka-1:9098,10.0.0.7:9098"}},
        {"kafka": {"tokenUrl": "https://[fd00::6]/token"}},
        {"prometheus": {"url": "http://[fd00::7]:9090"}},
    ],
)
def test_an_ipv6_address_is_a_host_as_any_other(given: Json) -> None:
    assert [error.message for error in Draft7Validator(SCHEMA).iter_errors(given)] == []


@pytest.mark.parametrize("brokers", ["fd00::5:9098", "[fd00::5]", "[fd00::5]9098", "[fd00::5:9098", "[kafka]:1"])
def test_an_ipv6_address_of_a_broker_stands_in_brackets_before_its_port(brokers: str) -> None:
    (error,) = Draft7Validator(SCHEMA).iter_errors({"kafka": {"bootstrap": brokers}})
    assert list(error.path) == ["kafka", "bootstrap"]


def test_the_readme_has_a_row_for_every_value() -> None:
    rows = [line for line in (CHART / "README.md").read_text().splitlines() if line.startswith("| `")]
    missing = [name for name in VALUES if not any(f"`{name}" in row.split("|")[1] for row in rows)]
    assert missing == []


def test_a_chart_that_has_this_one_as_a_dependency_may_switch_it_by_helms_usual_condition() -> None:
    assert [error.message for error in Draft7Validator(SCHEMA).iter_errors(VALUES | {"enabled": True})] == []
