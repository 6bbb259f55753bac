"""Marks the pods that go first when a Deployment shrinks: its ReplicaSet reads their pod-deletion-cost annotation.

Which pods these are is decided by `domain.victims` and `planning.allocation`; here it is written down.
A ReplicaSet deletes unready pods first, then those of the lowest `controller.kubernetes.io/pod-deletion-cost` (absent
counts as 0). It reads the cost once, when replicas fall, so it is written before. Best effort: without it Kubernetes
chooses, and the release still stands.
"""

import asyncio
from typing import Final

from rebalancer.act.port import Port
from rebalancer.domain.plan import Change
from rebalancer.kube.errors import KubeError, NotFound
from rebalancer.kube.resources import PODS, Object, Ref

ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"
FIRST_COST: Final = -1000
LEAST_COST: Final = -(2**31)
AT_ONCE: Final = 8
DEADLINE_SECONDS: Final = 3.0


class DeletionCost:
    """Marks the victims of a release."""

    def __init__(self, kube: Port) -> None:
        self._kube = kube
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def mark(self, change: Change) -> str:
        """Write the costs of `change`'s victims. What did not work, in words; empty when all did."""
        written = {pod.uid: pod.deletion_cost for pod in change.target.pods}
        due = [
            self._patch(change.target.namespace, name, uid, cost)
            for (uid, name), cost in zip(
                zip(change.victims, change.victim_names, strict=True), costs(change), strict=True
            )
            if written.get(uid) != cost
        ]
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                troubles = [trouble for trouble in await asyncio.gather(*due) if trouble]
        except TimeoutError:
            troubles = [f"no answer within {DEADLINE_SECONDS:g} s"]
        return f"deletion cost not written, Kubernetes chooses the victims: {troubles[0]}" if troubles else ""

    async def mark_pod(self, namespace: str, name: str, uid: str) -> str:
        """Write the first cost on one pod that is to be evicted. What did not work, in words; empty when it did."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                trouble = await self._patch(namespace, name, uid, FIRST_COST)
        except TimeoutError:
            trouble = f"no answer within {DEADLINE_SECONDS:g} s"
        return f"deletion cost not written: {trouble}" if trouble else ""

    async def _patch(self, namespace: str, name: str, uid: str, cost: int) -> str:
        # The uid is a precondition: never mark another pod of that name.
        body: Object = {"metadata": {"uid": uid, "annotations": {ANNOTATION: str(cost)}}}
        try:
            async with self._slots:
                await self._kube.patch(Ref(PODS, namespace, name), body)
        except NotFound:
            return ""  # it went by itself
        except KubeError as error:
            return str(error)
        return ""


def costs(change: Change) -> list[int]:
    """One per victim, rising, all below those of the pods that shall stay (an earlier release may have marked some)."""
    going = set(change.victims)
    staying = [pod.deletion_cost or 0 for pod in change.target.pods if pod.uid not in going]
    count = len(change.victims)
    first = min(FIRST_COST, min(staying, default=0) - count)
    return [max(LEAST_COST, first) + n for n in range(count)]
