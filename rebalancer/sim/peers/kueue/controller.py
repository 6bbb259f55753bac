"""KEDA asks, Kueue lets through."""

from collections.abc import Sequence
from dataclasses import replace

from rebalancer.sim.controller import Seen
from rebalancer.sim.peers.behaviour import DOWN
from rebalancer.sim.peers.hpa import SYNC_SECONDS, HpaMetric
from rebalancer.sim.peers.keda import Keda
from rebalancer.sim.peers.kueue.scheduler import Scheduler
from rebalancer.sim.peers.kueue.settings import KueueSettings, queues


class KedaKueue:
    """What is asked of the cluster is what Kueue admitted; KEDA goes by what it asked for, pods at the gate included.

    The quota of a pod that goes is free at once, its GPU when the pod is gone, for which whoever is admitted in its
    place waits as a pending pod. (In life it waits at the gate for as long.) Who goes of a model's pods is the
    cluster's choice, on one node the one admitted last as in Kueue.
    """

    every_seconds = SYNC_SECONDS

    def __init__(self, metrics: Sequence[HpaMetric], settings: KueueSettings) -> None:
        self._keda = Keda(metrics, down=replace(DOWN, window_seconds=int(settings.window)))
        self._settings = settings
        self._scheduler: Scheduler | None = None
        self._wished: list[int] = []

    @property
    def preemptions(self) -> int:
        """Pods that went for others so far."""
        return 0 if self._scheduler is None else self._scheduler.preemptions

    def decide(self, seen: Seen) -> Sequence[int]:
        """Admitted replicas by model."""
        scheduler = self._scheduler = self._scheduler or self._begun(seen)
        wished = list(self._keda.decide(replace(seen, desired=self._wished)))
        if wished != self._wished:
            self._follow(scheduler, seen, wished)
            scheduler.settle(seen.now)
            self._wished = wished
        return [len(admitted) for admitted in scheduler.cohort.admitted]

    def _begun(self, seen: Seen) -> Scheduler:
        """All replicas that are there are admitted, as far as quotas allow."""
        by_model, shared = queues(seen.scenario, self._settings)
        scheduler = Scheduler(by_model, shared, fair=self._settings.sharing != "first-come")
        self._wished = [0] * len(seen.desired)
        self._follow(scheduler, seen, seen.desired, created=0)
        scheduler.settle(0)
        self._wished = list(seen.desired)
        return scheduler

    def _follow(self, scheduler: Scheduler, seen: Seen, wished: Sequence[int], created: int | None = None) -> None:
        """Pods come and go as the ReplicaSets make them, those that go first."""
        now = seen.now if created is None else created
        for index, before in enumerate(self._wished):
            for _ in range(before - wished[index]):
                scheduler.end(index)
        for index, model in enumerate(seen.scenario.models):
            for _ in range(wished[index] - self._wished[index]):
                scheduler.create(index, model.gpus, round(100 * model.priority), now)
