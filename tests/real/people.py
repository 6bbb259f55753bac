"""Somebody with kubectl: overrides and the red button."""

import time
from datetime import UTC, datetime
from typing import Any

from tests.testbed.kube import Kube

Json = dict[str, Any]

WHY = "the test says so"


class People:
    """What they made goes when they `leave`: overrides and stops of a test that is over are nobody's."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._made: list[tuple[str, str]] = []

    async def pin(self, name: str, model: str, replicas: int, seconds: float) -> float:
        """Pin the model for that long; the instant of its end."""
        expires_at = time.time() + seconds
        spec = {
            "kind": "pin",
            "target": {"model": model},
            "value": replicas,
            "reason": WHY,
            "expiresAt": datetime.fromtimestamp(expires_at, UTC).isoformat(),
            "actor": "testbed",
        }
        await self._make("Override", name, spec)
        return expires_at

    async def unpin(self, name: str) -> None:
        """Take a pin back before its end."""
        await self._take_back("Override", name)

    async def phase(self, name: str, phase: str) -> None:
        """Wait until the override's status says so."""

        async def told() -> bool:
            override = await self._kube.get("Override", name, self._namespace)
            return bool(override.get("status", {}).get("phase") == phase)

        await self._kube.wait_for(told, f"override {name} is told {phase}", 15)

    async def stop_writes(self) -> float:
        """Press the red button; an instant at which it was in force."""
        await self._make("WriteStop", self._namespace, {"reason": WHY, "actor": "testbed"})
        return time.time()

    async def resume_writes(self) -> None:
        """Take the stop away."""
        await self._take_back("WriteStop", self._namespace)

    async def leave(self) -> None:
        """Take everything back."""
        for kind, name in self._made.copy():
            await self._take_back(kind, name)

    async def _make(self, kind: str, name: str, spec: Json) -> None:
        metadata = {"name": name, "namespace": self._namespace} if kind == "Override" else {"name": name}
        await self._kube.create(
            {"apiVersion": "rebalancer.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
        )
        self._made.append((kind, name))

    async def _take_back(self, kind: str, name: str) -> None:
        await self._kube.delete(kind, name, self._namespace)
        self._made.remove((kind, name))
