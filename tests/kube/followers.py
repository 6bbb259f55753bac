"""Sinks that remember what they were told, and a reflector at work."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rebalancer.kube.client import KubeClient
from rebalancer.kube.pace import WatchPace
from rebalancer.kube.reflector import Reflector, Trouble
from rebalancer.kube.resources import PODS, Object, Resource
from tests.kube.server import EPOCH, Asked, LoopClock


@dataclass
class View:
    """What a sink believes there is, by name, and how it came to that."""

    pods: dict[str, Object] = field(default_factory=dict)
    relists: int = 0
    told: list[str] = field(default_factory=list)
    troubles: list[tuple[float, Trouble]] = field(default_factory=list)
    heard: list[float] = field(default_factory=list)

    def relisted(self, _resource: Resource, items: Sequence[Object], _resource_version: str, now: float) -> None:
        self.pods = {item["metadata"]["name"]: item for item in items}
        self.relists += 1
        self.heard.append(now - EPOCH)

    def changed(self, _resource: Resource, obj: Object, _now: float) -> None:
        self.pods[obj["metadata"]["name"]] = obj
        self.told.append(f"{obj['metadata']['name']}@{obj['metadata']['resourceVersion']}")

    def gone(self, _resource: Resource, obj: Object, _now: float) -> None:
        del self.pods[obj["metadata"]["name"]]
        self.told.append(f"-{obj['metadata']['name']}")

    def alive(self, _resource: Resource, now: float) -> None:
        self.heard.append(now - EPOCH)

    def trouble(self, _resource: Resource, reason: Trouble, now: float) -> None:
        self.troubles.append((now - EPOCH, reason))

    @property
    def kinds(self) -> list[str]:
        return [reason.kind for _at, reason in self.troubles]


@asynccontextmanager
async def following(client: KubeClient, sink: Any, seed: int = 1, **options: Any) -> AsyncIterator[None]:  # noqa: ANN401 - fields of Reflector
    """A reflector of pods at work; it must not have ended by itself."""
    options = {"pace": WatchPace(resync_seconds=None)} | options
    reflector = Reflector(client, PODS, sink, LoopClock(), random.Random(seed), **options)
    task = asyncio.create_task(reflector.run())
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def least_gap(asked: Sequence[Asked]) -> float:
    """Seconds between the two requests nearest to each other."""
    return min((b.at - a.at for a, b in pairwise(asked)), default=float("inf"))


async def settle(seconds: float = 5) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(seconds)


def names(view: View) -> list[str]:
    return sorted(view.pods)
