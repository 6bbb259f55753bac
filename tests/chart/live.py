"""Rendered objects on the real API server, and what tests write there in people's names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.chart.helm import Json, Rendered, named
from tests.testbed.kube import ApiError, Kube

ANY: Json = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


@asynccontextmanager
async def applied(kube: Kube, rendered: Rendered, *kinds: str) -> AsyncIterator[None]:
    """The rendered objects (of these kinds) on the server, and away again."""
    objects = rendered.of(*kinds) if kinds else [obj for obj in rendered.objects if obj["kind"] != "Job"]
    await kube.apply(*objects)
    try:
        yield
    finally:
        for kind, namespace, name in named(objects):
            await kube.delete(kind, name, namespace)
        if rendered.of("ValidatingAdmissionPolicy"):
            await policies_gone(kube)


async def policies_gone(kube: Kube) -> None:
    """Wait until deleted policies refuse nothing: the server knows a second later, and tests speak as alice."""
    await kube.wait_for(lambda: _anybody(kube), "the policies are gone")


async def _anybody(kube: Kube) -> bool:
    """Whether one may speak as another."""
    try:
        await kube.create(write_stop("alice"), dryRun="All")
    except ApiError:
        return False
    return True


def override(namespace: str, actor: str) -> Json:
    target: Any = {"model": "chat"}
    spec = {"kind": "pause", "target": target, "reason": "r", "expiresAt": "2036-01-01T00:00:00Z", "actor": actor}
    metadata = {"generateName": "o-", "namespace": namespace}
    return {"apiVersion": "rebalancer.io/v1alpha1", "kind": "Override", "metadata": metadata, "spec": spec}


def write_stop(actor: str) -> Json:
    spec = {"reason": "r", "actor": actor}
    return {
        "apiVersion": "rebalancer.io/v1alpha1",
        "kind": "WriteStop",
        "metadata": {"generateName": "s-"},
        "spec": spec,
    }
