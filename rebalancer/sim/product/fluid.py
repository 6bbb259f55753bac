"""The fluid service model in the full world: the fast path's kernel, second by second, and what metrics show of it."""

from collections.abc import Sequence

import numpy as np

from rebalancer.domain.events import Counters, Gauges
from rebalancer.sim.demand import F64
from rebalancer.sim.scenario import Model
from rebalancer.sim.serving import serve
from rebalancer.world import Look, Pod

SLOTS = 64  # requests that a full replica has in hand: the batch of the measured profiles
MEAN_SECONDS = 60  # over which the work of one request is averaged


class FluidService:
    """One model's work as a backlog that its Ready replicas wear away (sim.serving), in steps of one second.

    Metrics: `slots` requests run on a busy replica; who waits is the backlog over the recent work of one request;
    utilisation and running are means since the last scrape, latency is the worst wait since then.
    `wait`, `late`, `lost`, `left`: shape (seconds,), as `sim.record.Record` has them; `busy`, `served_by`: so too, as
    `sim.controller.Seen` has them.
    """

    def __init__(self, model: Model, started_at: float, seconds: int, *, slots: float = SLOTS, per_pod: bool = False) -> None:  # noqa: E501  # fmt: skip
        self.wait, self.late, self.lost, self.left, self.busy, self.served_by = (np.zeros(seconds) for _ in range(6))
        self._model = model
        self._started_at = started_at
        self._slots = slots
        self._per_pod = per_pod
        self._now = self._looked = 0
        self._backlog = 0.0
        self._work_by = np.concatenate(([0.0], np.cumsum(model.work[:seconds])))  # until the beginning of each second
        self._requests_by = np.concatenate(([0.0], np.cumsum(model.requests[:seconds])))
        self._pods: Sequence[Pod] | None = None
        self._serving: Sequence[Pod] = ()
        self._finished: dict[str | None, float] = {None: 0.0}
        self._serve(0, 0, 0)  # the kernel is compiled or read from its cache now, not within the event loop

    def flow(self, since: float, until: float, pods: Sequence[Pod]) -> None:  # noqa: ARG002  # always a second
        """One second; a replica that became Ready within it serves from the next one on."""
        second = round(since - self._started_at)
        if not 0 <= second < len(self.wait):
            return
        if pods is not self._pods:
            serving = [pod for pod in pods if pod.ready_at is not None and pod.ready_at <= since]
            self._pods = pods if len(serving) == len(pods) else None
            self._serving = serving
        self.served_by[second] = ready = len(self._serving)
        self._serve(second, second + 1, ready)
        self._now = second + 1
        done = float(self.busy[second])
        if done:
            self._finish(done)

    def keep_in(self, wait: F64, left: F64, busy: F64, served_by: F64) -> None:
        """Write on in these rows, shape (seconds,), of somebody who looks at several models at once."""
        self.wait, self.left, self.busy, self.served_by = wait, left, busy, served_by

    def _serve(self, begin: int, end: int, ready: int) -> None:
        model = self._model
        self._backlog = serve(
            model.work,
            model.requests,
            begin,
            end,
            self._backlog,
            ready,
            model.slo_wait_seconds,
            model.headroom_seconds,
            model.patience_seconds,
            model.queue_base,
            model.queue_per_replica,
            self.wait,
            self.late,
            self.lost,
            self.busy,
            self.left,
        )

    def _finish(self, work: float) -> None:
        requests = work / self._work_of_one()
        self._finished[None] += requests
        if self._per_pod:
            for pod in self._serving:
                self._finished[pod.uid] = self._finished.get(pod.uid, 0.0) + requests / len(self._serving)

    def _work_of_one(self) -> float:
        """Replica-seconds of a request, mean of the last minute; 1 while nothing came."""
        begin = max(0, self._now - MEAN_SECONDS)
        requests = float(self._requests_by[self._now] - self._requests_by[begin])
        work = float(self._work_by[self._now] - self._work_by[begin])
        return work / requests if work > 0.0 and requests > 0.0 else 1.0

    def looks(self, pods: Sequence[Pod]) -> list[Look]:
        """The model as a whole, or every Ready pod with its equal part."""
        begin, end = self._looked, self._now
        if begin == end:
            return []
        self._looked = end
        busy = float(np.add.reduce(self.busy[begin:end])) / (end - begin)
        able = float(np.add.reduce(self.served_by[begin:end])) / (end - begin)
        shares = max(1, len(pods)) if self._per_pod else 1
        worst = float(self.wait[begin:end].max())
        use = min(1.0, busy / able) if able else None
        gauges = Gauges(
            running=busy * self._slots / shares,
            waiting=self._backlog / self._work_of_one() / shares,
            kv_cache_use=use,
            gpu_utilisation=use,
            ttft_p95_seconds=worst if worst < np.inf else None,
        )
        if not self._per_pod:
            return [Look(None, gauges, Counters(self._started_at, self._finished[None]))]
        return [Look(pod.uid, gauges, Counters(pod.ready_at or 0.0, self._finished.get(pod.uid, 0.0))) for pod in pods]
