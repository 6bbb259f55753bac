"""Overrides and write stops as the real API server validates them."""

import json
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.api import EmbeddedKubernetes
from tests.testbed.kube import ApiError, Kube

LATER = "2036-01-01T00:00:00Z"


def override(namespace: str, kind: str, target: dict[str, str], **spec: object) -> dict[str, Any]:
    whole = {"kind": kind, "target": target, "reason": "launch day", "expiresAt": LATER, "actor": "alice"} | spec
    return {
        "apiVersion": "rebalancer.io/v1alpha1",
        "kind": "Override",
        "metadata": {"generateName": "o-", "namespace": namespace},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def write_stop(name: str, **spec: object) -> dict[str, Any]:
    return {"apiVersion": "rebalancer.io/v1alpha1", "kind": "WriteStop", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("kind", "target", "spec"),
    [
        ("pause", {"model": "llama-70b"}, {}),
        ("freeze", {"model": "llama-70b"}, {}),
        ("pin", {"model": "llama-70b"}, {"value": 0, "allowBelowFloor": True}),
        ("cap", {"model": "llama-70b"}, {"value": 3}),
        ("floor", {"model": "llama-70b"}, {"value": 3, "allowBelowFloor": False}),
        ("drain", {"node": "gpu-1"}, {}),
        ("drain", {"pool": "spot"}, {}),
        ("exclude", {"node": "gpu-1"}, {}),
        ("standUp", {"model": "llama-70b"}, {}),
        ("exclude", {"pool": "spot", "model": "llama-70b"}, {"reason": "r" * 256}),
    ],
)
async def test_an_override_that_makes_sense_is_accepted(
    kube: Kube, crds: None, namespace: str, kind: str, target: dict[str, str], spec: dict[str, object]
) -> None:
    stored = await kube.create(override(namespace, kind, target, **spec))

    assert stored["spec"]["kind"] == kind


@pytest.mark.parametrize(
    ("kind", "target", "spec", "says"),
    [
        ("pin", {}, {"value": 3}, "need target.model"),
        ("pause", {"node": "gpu-1"}, {}, "need target.model"),
        ("pin", {"model": "m", "node": "gpu-1"}, {"value": 3}, "neither a node nor a pool"),
        ("pin", {"model": "m"}, {}, "need a value"),
        ("cap", {"model": "m"}, {"value": -1}, "greater than or equal to 0"),
        ("pause", {"model": "m"}, {"value": 1}, "the others have none"),
        ("standUp", {"model": "m"}, {"value": 1}, "the others have none"),
        ("standUp", {"node": "gpu-1"}, {}, "need target.model"),
        ("floor", {"model": "m"}, {"value": 1, "allowBelowFloor": True}, "only a pin or a cap"),
        ("drain", {}, {}, "either target.node or target.pool"),
        ("drain", {"node": "gpu-1", "pool": "spot"}, {}, "either target.node or target.pool"),
        ("drain", {"node": "gpu-1", "model": "m"}, {}, "not about one model"),
        ("exclude", {"model": "m"}, {}, "either target.node or target.pool"),
        ("scale", {"model": "m"}, {}, "Unsupported value"),
        ("pause", {"model": "m"}, {"reason": ""}, "spec.reason"),
        ("pause", {"model": "m"}, {"reason": "r" * 257}, "spec.reason"),
        ("pause", {"model": "m"}, {"actor": ""}, "spec.actor"),
        ("pause", {"model": "m"}, {"expiresAt": "tomorrow"}, "spec.expiresAt"),
        ("pause", {"model": "m"}, {"expiresAt": None}, "spec.expiresAt"),
        ("pause", {"model": ""}, {}, "spec.target.model"),
    ],
)
async def test_an_override_that_makes_no_sense_is_refused_with_words(
    kube: Kube, crds: None, namespace: str, kind: str, target: dict[str, str], spec: dict[str, object], says: str
) -> None:
    with pytest.raises(ApiError, match=says) as refused:
        await kube.create(override(namespace, kind, target, **spec))

    assert refused.value.status == 422


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "pinn"},
        {"value": -1},
        {"value": "3"},
        {"value": None, "kind": None},
        {"target": 7},
        {"reason": ""},
        {"reason": "r" * 257},
        {"expiresAt": "tomorrow"},
        {"expiresAt": "2036-01-01"},
        {"vlaue": 3},
    ],
)
async def test_the_demos_api_refuses_in_the_same_words(
    kube: Kube, crds: None, namespace: str, spec: dict[str, object]
) -> None:
    """Of a number that is none each line of Kubernetes has words of its own, so that is not compared."""
    wrong = override(namespace, "pin", {"model": "m"}, value=3)
    wrong["metadata"] = {"name": "wrong", "namespace": namespace}
    wrong["spec"] = {key: value for key, value in (wrong["spec"] | spec).items() if value is not None}
    with pytest.raises(ApiError) as refused:
        await kube.create(wrong, fieldValidation="Strict")
    async with (
        EmbeddedKubernetes(RealClock()) as embedded,
        aiohttp.ClientSession(embedded.url) as session,
        session.post(
            f"/apis/rebalancer.io/v1alpha1/namespaces/{namespace}/overrides",
            json=wrong,
            params={"fieldValidation": "Strict"},
        ) as response,
    ):
        answer = await response.json()
    theirs = json.loads(str(refused.value).partition(f" {answer['code']} ")[2])
    assert _told(answer) == _told(theirs)


def _told(status: dict[str, Any]) -> tuple[object, ...]:
    causes = status.get("details", {}).get("causes", [])
    return status["reason"], status["message"], causes


async def test_a_decision_does_not_change_but_its_status_does(kube: Kube, crds: None, namespace: str) -> None:
    stored = await kube.create(override(namespace, "pin", {"model": "m"}, value=3))
    name = stored["metadata"]["name"]
    now = datetime.now(UTC).isoformat()

    with pytest.raises(ApiError, match="an override does not change"):
        await kube.patch("Override", name, {"spec": {"value": 4}}, namespace)
    told = {"status": {"phase": "InForce", "message": "pin 3", "observedAt": now}}
    await kube.patch("Override", name, told, namespace, subresource="status")

    shown = await kube.get("Override", name, namespace)
    assert (shown["spec"]["value"], shown["status"]["phase"]) == (3, "InForce")


async def test_a_write_stop_says_who_and_why(kube: Kube, crds: None, namespace: str) -> None:
    await kube.create(write_stop(namespace, reason="incident 42", actor="alice"))

    try:
        for spec in ({"reason": "incident 42"}, {"actor": "alice"}, {"reason": "", "actor": "alice"}):
            with pytest.raises(ApiError, match=r"spec\.(actor|reason)"):
                await kube.create(write_stop(f"{namespace}-2", **spec))
        with pytest.raises(ApiError, match="a write stop does not change"):
            await kube.patch("WriteStop", namespace, {"spec": {"reason": "another"}})
    finally:
        await kube.delete("WriteStop", namespace)
