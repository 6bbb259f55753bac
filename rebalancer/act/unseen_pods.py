"""Pods that no watch has shown: a decrease waits while the API server knows of more pods of its target than we see.

Planning takes a replica that is no pod yet for one that goes first and whose GPUs are free at once. While a watch is
half-open, which is found after at most 75 s, pods that serve look just like that: which of them go, and when their GPUs
are free, is unknown then.
"""

from typing import Final

import msgspec

from rebalancer.act.driver import Refused, resource_of
from rebalancer.act.port import Port
from rebalancer.act.recent import Recent
from rebalancer.domain.plan import Change
from rebalancer.domain.snapshot import Snapshot, TargetView
from rebalancer.domain.words import counted
from rebalancer.kube.resources import DEPLOYMENTS
from rebalancer.obs.clock import Clock

AGE_SECONDS: Final = 1.0


class _Meta(msgspec.Struct):
    uid: str


class _Status(msgspec.Struct):
    replicas: int = 0  # the API server leaves zero out


class _Deployment(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class UnseenPods:
    """How many pods Deployments have, read where a decrease counts on replicas that are no pods yet.

    Deployments alone: what other kinds write into their status counts pods that are on their way out, or no pods.
    """

    def __init__(self, kube: Port, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._deployments: dict[str, Recent[dict[str, int]]] = {}

    async def known(self, change: Change) -> int:
        """Pods that the API server knows of; 0 where nothing rests on it. Raises KubeError."""
        target, decreases = change.target, change.replicas_to < change.replicas_from
        if not decreases or resource_of(target) != DEPLOYMENTS or _shown(target) >= change.replicas_from:
            return 0

        async def read() -> dict[str, int]:
            listing = await self._kube.list(DEPLOYMENTS, target.namespace, into=_Deployment)
            return {each.metadata.uid: each.status.replicas for each in listing.items}

        if target.namespace not in self._deployments:
            self._deployments[target.namespace] = Recent(read, self._clock, AGE_SECONDS)
        return (await self._deployments[target.namespace].get()).get(target.uid, 0)


def all_seen(change: Change, snapshot: Snapshot, known: int) -> None:
    """Raise Refused where the target has more pods than watches have shown. `snapshot`: taken after the reading."""
    targets = (each for model in snapshot.models if model.id == change.model for each in model.targets)
    target = next((each for each in targets if each.uid == change.target.uid), change.target)
    if known > _shown(target):
        where = f"deployment/{target.namespace}/{target.name}"
        raise Refused("unseen", f"{where} has {counted(known, 'pod')}, and watches have shown {_shown(target)} of them")


def _shown(target: TargetView) -> int:
    """The target's pods that watches have shown and that are not ending, as a ReplicaSet counts them."""
    return sum(pod.phase != "terminating" for pod in target.pods)
