"""What a service that had run through a window of the past would have learnt: rings, what a replica carries, starts.

The samples go through the very learners of a running service, in the order of their time, and what these keep is what
a checkpoint would have: `ClusterState.restore_rings` takes it.
"""

from collections.abc import Iterable, Mapping

from rebalancer.domain.policy import Policy
from rebalancer.domain.starts import MeasuredStart
from rebalancer.ingest.past.looks import PodLook
from rebalancer.ingest.prometheus_answer import sample_of
from rebalancer.state.loads import Loads

SILENT_STEPS = 3  # after which a pod that is not scraped any more has gone
START_STEP_SECONDS = 30.0  # a start is told to within a step: coarser than this it says nothing


class Lessons:
    """`hear` the looks, oldest first; `pasts` is what was learnt. `begin`: the window's first instant."""

    def __init__(self, policy: Policy, begin: float) -> None:
        self._begin = begin
        self._loads = Loads(policy, begin)
        self._pools = {model.id: {target.pool for target in model.targets} for model in policy.models}
        self._engines: set[str] = set()  # models whose engines tell something themselves
        self._heard_at: dict[str, float] = {}  # by UID, of pods that are there
        self._starts: dict[str, list[MeasuredStart]] = {}

    def hear(self, looks: Iterable[PodLook], step_seconds: float) -> None:
        """The looks of one piece of the window."""
        for look in looks:
            self._forget_silent(look.step_at - SILENT_STEPS * step_seconds)
            sample, _ = sample_of(look.pod, look.values, step_seconds)
            if sample is None or sample.pod is None or sample.at <= self._heard_at.get(sample.pod, 0.0):
                continue
            if sample.gauges.running is not None:
                self._engines.add(sample.model)
            elif sample.model in self._engines:
                continue  # its GPUs tell of it while the engine still loads
            if sample.pod not in self._heard_at:
                self._loads.pod_is(sample.model, sample.pod, sample.at)
                if sample.gauges.running is not None:
                    self._started(look.pod, sample.at, step_seconds)
            self._heard_at[sample.pod] = sample.at
            self._loads.take(sample, look.step_at)
        self._loads.pour()

    def pasts(self) -> Mapping[str, bytes]:
        """By model of which something was heard: what `ClusterState.restore_rings` takes."""
        heard = sorted(model for model, track in self._loads.tracks.items() if track.sampled)
        return {model: self._loads.past(model, {}, tuple(self._starts.get(model, ()))).to_bytes() for model in heard}

    def _forget_silent(self, since: float) -> None:
        for uid in [uid for uid, at in self._heard_at.items() if at < since]:
            del self._heard_at[uid]
            self._loads.pod_gone(uid)

    def _started(self, pod: tuple[str, str, float], at: float, step_seconds: float) -> None:
        """A start that the window saw from the pod's creation on, to the first scrape of its engine."""
        model, _, created_at = pod
        pools = self._pools[model]
        if self._begin < created_at and step_seconds <= START_STEP_SECONDS and len(pools) == 1:
            start = MeasuredStart(min(pools), "unknown", at - created_at, None, at)
            self._starts.setdefault(model, []).append(start)
