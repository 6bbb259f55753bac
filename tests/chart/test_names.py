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
        "nameOverride": NAME,
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


def test_a_volumes_size_that_is_a_number_stays_that_number() -> None:
    claim = render({"journal.persistence": {"enabled": True, "size": 2**31}}).one("PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == str(2**31)


@pytest.mark.parametrize(("release", "name"), [("gpu.v2", "gpu-v2-rebalancer"), ("rebalancer.v2", "rebalancer-v2")])
def test_a_release_with_a_dot_in_its_name_makes_a_service_for_a_service_may_have_none(release: str, name: str) -> None:
    tier = ("--set", "aggregate.enabled=true")
    objects = [obj for obj in yaml.safe_load_all(helm("template", release, str(CHART), *tier)) if obj]
    services = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Service"}
    assert services == {name, f"{name}-aggregate"}
    (pods,) = (obj for obj in objects if obj["kind"] == "StatefulSet")
    assert pods["spec"]["serviceName"] == f"{name}-aggregate"


def test_what_is_installed_under_a_name_with_a_dot_keeps_its_volume_and_its_accounts() -> None:
    journal = ("--set", "journal.persistence.enabled=true")
    objects = [obj for obj in yaml.safe_load_all(helm("template", "gpu.v2", str(CHART), *journal)) if obj]
    names = {obj["metadata"]["name"] for obj in objects if obj["kind"] != "Service"}
    assert {"gpu.v2-rebalancer", "gpu.v2-rebalancer-journal", "gpu.v2-rebalancer-viewer"} <= names
    assert [name for name in names if not name.startswith("gpu.v2-rebalancer")] == []


@pytest.mark.parametrize("known", [each for each in KNOWN if each.kind != DEPLOYMENT], ids=lambda each: each.kind)
def test_the_notes_know_the_resource_of_every_kind_that_a_policy_may_name_without_its_group(known: TargetKind) -> None:
    assert f'"{known.kind}" "{known.group}"' in (CHART / "templates/_helpers.tpl").read_text()
    assert known.plural == f"{known.kind.lower()}s"
