"""Whose a number is, by `metadata.managedFields` as the API server keeps it."""

import msgspec
import pytest

from rebalancer.ingest.objects.meta import Managed, writer


def entry(manager: str, *fields: str, time: str = "2027-01-15T08:00:00Z", **more: object) -> dict[str, object]:
    owned: dict[str, object] = {f"f:{name}": {} for name in fields}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:annotations": {".": {}}}, "f:spec": {**owned, "f:template": {}}},
        **more,
    }


def meta(*entries: dict[str, object]) -> Managed:
    return msgspec.json.decode(msgspec.json.encode({"name": "b", "managedFields": entries}), type=Managed)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((), ""),
        ((entry("kubectl", "replicas", subresource="scale"),), "kubectl"),
        ((entry("rebalancer", "replicas", subresource="scale"),), ""),
        ((entry("rebalancer", "replicas"), entry("argocd", "replicas")), ""),  # both applied the same value
        ((entry("kubectl", "paused"), entry("manager", "selector")), ""),
        ((entry("a", "replicas"), entry("b", "replicas", time="2027-01-15T08:00:01Z")), "b"),
        ((entry("x" * 500, "replicas"),), "x" * 128),
        (({"manager": "bare"},), ""),
    ],
)
def test_the_writer_is_who_owns_the_field_unless_we_do(entries: tuple[dict[str, object], ...], expected: str) -> None:
    assert writer(meta(*entries), "replicas") == expected


def test_bounds_are_told_apart() -> None:
    found = meta(entry("kubectl", "minReplicaCount"), entry("rebalancer", "maxReplicaCount"))
    assert (writer(found, "keda_minimum"), writer(found, "keda_maximum")) == ("kubectl", "")
