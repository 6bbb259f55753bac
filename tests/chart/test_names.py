"""Names that the chart is given, and those that it makes of them."""

from collections.abc import Iterator

from tests.chart.helm import EVERY_ACTUATION, Json, render

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
            "caConfigMap": {"name": NAME, "key": NAME},
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
