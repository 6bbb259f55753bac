"""KEDA and the HPA controller, in their own time.

A ScaledObject's bounds reach its HPA within a second, the HPA's its target at its next look, one every 15 s.
An HPA clamps what is outside its bounds at once; between them it asks for what its metric says, downwards for the
highest of the last five minutes. A target of 0 replicas switches it off, until KEDA, which looks every 30 s, brings
the target back to a minimum above 0. A paused ScaledObject has no HPA.
"""

from collections import deque
from collections.abc import Callable
from functools import partial

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world.agenda import Agenda
from rebalancer.world.cluster import Cluster
from rebalancer.world.things import WorldHpa, WorldScaledObject

SYNC_SECONDS = 15.0
POLL_SECONDS = 30.0  # how often KEDA looks whether anybody asks, where it may go to 0 or to its idle count
REACHES_HPA_SECONDS = 0.5
STABILISED_LOOKS = 20  # of 15 s: the HPA's own five minutes
DEFAULT_MAXIMUM = 100

Wanted = Callable[[WorkloadRef], int | None]
"""Replicas that the metric of a target asks for: 0 = nobody asks, None = unknown."""


class Autoscaling:
    """The controllers of the HPAs and ScaledObjects that were given to them. `hpas` is everybody's."""

    def __init__(self, agenda: Agenda, cluster: Cluster, hpas: dict[tuple[str, str], WorldHpa], wanted: Wanted) -> None:
        self.scaled_objects: dict[tuple[str, str], WorldScaledObject] = {}
        self._agenda = agenda
        self._cluster = cluster
        self._hpas = hpas
        self._wanted = wanted
        self._looks: dict[str, deque[int]] = {}

    def follow(self, hpa: WorldHpa, first_after_seconds: float = SYNC_SECONDS) -> None:
        """The controller looks at the HPA every 15 s from then on, as long as it is there."""
        self._looks[hpa.uid] = deque(maxlen=STABILISED_LOOKS)
        self._agenda.after(first_after_seconds, partial(self._sync, hpa))

    def add(self, scaled: WorldScaledObject) -> None:
        """KEDA makes the ScaledObject's HPA and looks after it."""
        self.scaled_objects[scaled.namespace, scaled.name] = scaled
        self._reconcile(scaled)
        self._agenda.after(POLL_SECONDS, partial(self._poll, scaled))

    def remove(self, scaled: WorldScaledObject) -> None:
        """Delete the ScaledObject, with the HPA that KEDA made for it; its target stays as it is."""
        del self.scaled_objects[scaled.namespace, scaled.name]
        self._cluster.touch(scaled, gone=True)
        if scaled.hpa is not None:
            del self._hpas[scaled.namespace, scaled.hpa.name]
            self._cluster.touch(scaled.hpa, gone=True)

    def pause(self, scaled: WorldScaledObject, *, paused: bool) -> None:
        """Sets or removes the annotation that pauses the ScaledObject."""
        if scaled.paused != paused:
            scaled.paused = paused
            self.changed(scaled)

    def changed(self, scaled: WorldScaledObject) -> None:
        """Tells KEDA that the ScaledObject's spec or pause has changed; it reconciles soon."""
        self._cluster.touch(scaled)
        self._agenda.after(REACHES_HPA_SECONDS, partial(self._reconcile, scaled))

    # --- KEDA

    def _reconcile(self, scaled: WorldScaledObject) -> None:
        if self.scaled_objects.get((scaled.namespace, scaled.name)) is not scaled:
            return
        if scaled.paused:
            if scaled.hpa is not None:
                del self._hpas[scaled.namespace, scaled.hpa.name]
                self._cluster.touch(scaled.hpa, gone=True)
                scaled.hpa = None
                self._cluster.touch(scaled)
            return
        low = max(1, scaled.minimum or 0)
        high = DEFAULT_MAXIMUM if scaled.maximum is None else scaled.maximum
        if scaled.hpa is None:
            uid, name = self._cluster.uid("hpa"), f"keda-hpa-{scaled.name}"
            scaled.hpa = WorldHpa(scaled.namespace, name, uid, scaled.target, low, high, owner=scaled.name)
            self._hpas[scaled.namespace, name] = scaled.hpa
            self._cluster.touch(scaled)
            self._cluster.touch(scaled.hpa)
            self.follow(scaled.hpa)
        elif (scaled.hpa.minimum, scaled.hpa.maximum) != (low, high):
            scaled.hpa.minimum, scaled.hpa.maximum = low, high
            self._cluster.touch(scaled.hpa)

    def _poll(self, scaled: WorldScaledObject) -> None:
        """Between nothing and something KEDA itself decides, where the object lets it."""
        if self.scaled_objects.get((scaled.namespace, scaled.name)) is not scaled:
            return
        self._agenda.after(POLL_SECONDS, partial(self._poll, scaled))
        idle = scaled.idle if scaled.idle is not None else 0 if not scaled.minimum else None
        target = self._cluster.deployments.get(scaled.target)
        if scaled.paused or target is None:
            return
        if idle is None:  # whether a trigger is active or not, it may not have less than its minimum
            if target.replicas == 0:
                self._cluster.scale(scaled.target, max(1, scaled.minimum or 0))
            return
        wanted = self._wanted(scaled.target)
        if wanted == 0:
            self._cluster.scale(scaled.target, idle)
        elif wanted is not None and target.replicas <= idle:
            self._cluster.scale(scaled.target, max(1, scaled.minimum or 0))

    # --- the HPA controller

    def _sync(self, hpa: WorldHpa) -> None:
        if self._hpas.get((hpa.namespace, hpa.name)) is not hpa:
            return
        self._agenda.after(SYNC_SECONDS, partial(self._sync, hpa))
        target = self._cluster.deployments.get(hpa.target)
        if target is None or target.replicas == 0:
            return
        now = target.replicas
        if not hpa.minimum <= now <= hpa.maximum:
            self._cluster.scale(hpa.target, min(max(now, hpa.minimum), hpa.maximum))
            return
        wanted = self._wanted(hpa.target)
        looks = self._looks[hpa.uid]
        looks.append(now if wanted is None else wanted)
        desired = now if wanted is None else max(wanted, min(now, max(looks)))
        self._cluster.scale(hpa.target, min(max(desired, hpa.minimum), hpa.maximum))
