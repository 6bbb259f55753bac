"""Names that the chart is given, and those that it makes of them."""

from collections.abc import Iterator

import pytest
import yaml

from rebalancer.domain.target_kinds import DEPLOYMENT, KNOWN, TargetKind
from tests.chart.helm import CHART, EVERY_ACTUATION, Json, helm, render

NUMBER = 1234
NAME = str(NUMBER)


def leaves(value: object) -> Iterator[object]:
    """Everything in an object that is no map and no list."""
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from leaves(each) if isinstance(each, dict | list) else (each,)


def test_a_name_of_digits_alone_stays_a_name() -> None:
    given: Json = EVERY_ACTUATION | {
        "aggregate": {"enabled": True, "keda": {"enabled": True, "authentication": NAME}},
        "clusterName": "eu-1",
        "imagePullSecrets": [{"name": NAME}],
        "journal.persistence": {"enabled": True, "storageClassName": NAME},
        "kafka": {
            "securityProtocol": "SASL_SSL",
            "passwordSecret": {"name": NAME, "key": NAME},
            "caSecret": {"name": NAME, "key": NAME},
            "certificateSecret": {"name": NAME, "certificate": NAME, "privateKey": NAME},
            "tokenSecret": {"name": NAME, "key": NAME},
            "overrideKeysSecret": NAME,
        },
        "login": {"operators": {"groups": [NAME]}, "viewers": {"users": [NAME]}},
        "namespaces": [NAME],
        "policyConfigMap": NAME,
        "priorityClassName": NAME,
        "prometheus": {
            "url": "https://prometheus:9090",
            **{each: {"name": NAME, "key": NAME} for each in ("tokenSecret", "passwordSecret", "caConfigMap")},
            "certificateSecret": NAME,
        },
        "serviceMonitor.enabled": True,
        "prometheusRule.enabled": True,
        "dashboard.enabled": True,
    }
    claims = {"journal.persistence": {"enabled": True, "existingClaim": NAME}}
    for objects in (render(given, NAME).objects, render(given | claims, NAME).objects):
        assert [obj["kind"] for obj in objects if NUMBER in leaves(obj)] == []
        assert sum(NAME in leaves(obj) for obj in objects) > 20


@pytest.mark.parametrize(("release", "name"), [("gpu.v2", "gpu-v2-rebalancer"), ("rebalancer.v2", "rebalancer-v2")])
def test_a_release_with_a_dot_in_its_name_makes_a_service_for_a_service_may_have_none(release: str, name: str) -> None:
    objects = [obj for obj in yaml.safe_load_all(helm("template", release, str(CHART))) if obj]
    assert [obj["metadata"]["name"] for obj in objects if obj["kind"] in {"Service", "Deployment"}] == [name] * 2


@pytest.mark.parametrize("known", [each for each in KNOWN if each.kind != DEPLOYMENT], ids=lambda each: each.kind)
def test_the_notes_know_the_resource_of_every_kind_that_a_policy_may_name_without_its_group(known: TargetKind) -> None:
    assert f'"{known.kind}" "{known.group}"' in (CHART / "templates/_helpers.tpl").read_text()
    assert known.plural == f"{known.kind.lower()}s"
