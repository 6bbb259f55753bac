"""The fluid service model in the full world: the fast path's kernel, second by second, and what metrics show of it."""

from collections.abc import Iterable, Sequence

import numpy as np

from rebalancer.domain.events import Counters, Gauges
from rebalancer.sim.demand import F64
from rebalancer.sim.fluid.deferred import FirstCome, finished
from rebalancer.sim.fluid.serving import serve
from rebalancer.sim.scenario import ScenarioModel
from rebalancer.world import Look, WorldPod

MEAN_SECONDS = 60  # over which the work of one request is averaged


class FluidService:
    """One model's work as a backlog that its Ready replicas wear away (sim.fluid.serving), in steps of one second.

    Seconds that pass with the same replicas are played together: before the replicas change, when somebody looks, and
    after the last one (each at once where somebody else keeps the rows). A call of the kernel costs more than a second.
    Metrics count recorded requests, as the score does: of engines whose requests are `model.scale` times as many and as
    small, those of a model with 7.5 would look four times as urgent beside one with 1.9, and late they count alike.
    `slots` (the model's `recorded_slots`, where not given) run on a busy replica; who waits is the backlog over the
    recent work of one request; utilisation and running are means since the last scrape, latency is the worst wait since
    then. There is no cache: one as full as the replica is busy would tell what a replica carries, as no engine's does.
    `wait`, `late`, `lost`, `left`: shape (seconds,), as `sim.record.Record` has them; `busy`, `served_by`: so too, as
    `sim.controller.Seen` has them.
    """

    def __init__(self, model: ScenarioModel, started_at: float, seconds: int, *, slots: float | None = None, per_pod: bool = False) -> None:  # noqa: E501  # fmt: skip
        self.wait, self.late, self.lost, self.left, self.busy, self.served_by = (np.zeros(seconds) for _ in range(6))
        self._model = model
        self._started_at = started_at
        self._slots = model.recorded_slots if slots is None else slots
        self._per_pod = per_pod
        self._now = self._played = self._looked = 0
        self._watched = False
        self._backlog = self._gone = 0.0
        self._work_of_one = _work_of_one(model.work[:seconds], model.requests[:seconds])
        self._queue = FirstCome(model, seconds) if model.deferred else None
        self._pods: Sequence[WorldPod] | None = None
        self._serving: Sequence[WorldPod] = ()
        self._finished: dict[str | None, float] = {None: 0.0}
        self._serve(0, 0, 0)  # the kernel is compiled or read from its cache now, not within the event loop

    def flow(self, since: float, until: float, pods: Sequence[WorldPod]) -> None:  # noqa: ARG002  # always a second
        """One second; a replica that became Ready within it serves from the next one on."""
        second = round(since - self._started_at)
        if not 0 <= second < len(self.wait):
            return
        if pods is not self._pods:
            serving = [pod for pod in pods if pod.ready_at is not None and pod.ready_at <= since]
            self._pods = pods if len(serving) == len(pods) else None
            if serving != self._serving:
                self._catch_up()
                self._serving = serving
        self._now = second + 1
        if self._watched or self._now == len(self.wait):
            self._catch_up()

    def keep_in(self, wait: F64, left: F64, busy: F64, served_by: F64) -> None:
        """Write on in these rows, shape (seconds,), of somebody who looks at several models at once."""
        self.wait, self.left, self.busy, self.served_by = wait, left, busy, served_by
        self._watched = True

    def _catch_up(self) -> None:
        """Play the seconds that have passed since the last time, all with the replicas that serve now."""
        begin, end = self._played, self._now
        if begin == end:
            return
        self._played = end
        ready = len(self._serving)
        self.served_by[begin:end] = ready
        self._serve(begin, end, ready)
        if end == len(self.wait) and self._queue:
            self.wait, self.late = finished(self._model, self.busy, self.lost)
        busy = self.busy[begin:end]
        self._finish((self._queue.finish(busy) if self._queue else busy / self._work_of_one[begin:end]).tolist())

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

    def _finish(self, requests: Iterable[float]) -> None:
        """Count the requests of each second."""
        finished, serving = self._finished, self._serving if self._per_pod else ()
        for some in requests:
            finished[None] += some
            for pod in serving:
                finished[pod.uid] = finished.get(pod.uid, 0.0) + some / len(serving)

    def looks(self, pods: Sequence[WorldPod]) -> list[Look]:
        """The model as a whole, or every Ready pod with its equal part."""
        self._catch_up()
        begin, end = self._looked, self._now
        if begin == end:
            return []
        self._looked = end
        busy = float(np.add.reduce(self.busy[begin:end])) / (end - begin)
        able = float(np.add.reduce(self.served_by[begin:end])) / (end - begin)
        shares = max(1, len(pods)) if self._per_pod else 1
        worst = float(np.maximum.reduce(self.wait[begin:end]))
        use = min(1.0, busy / able) if able else None
        gauges = Gauges(
            running=busy * self._slots / shares,
            waiting=(self._queue.waiting(end) if self._queue else self._backlog / float(self._work_of_one[end - 1]))
            / shares,
            gpu_utilisation=use,
            ttft_p95_seconds=worst if worst < np.inf else None,
        )
        if not self._per_pod:
            self._gone += float(np.add.reduce(self.lost[begin:end]))
            return [Look(None, gauges, Counters(self._started_at, self._finished[None], self._gone))]
        return [Look(pod.uid, gauges, Counters(pod.ready_at or 0.0, self._finished.get(pod.uid, 0.0))) for pod in pods]


def _work_of_one(work: F64, requests: F64) -> F64:
    """Replica-seconds of a request by second, shape (seconds,): mean of its last minute; 1 while nothing came."""
    work_by, requests_by = (np.concatenate(([0.0], np.cumsum(each))) for each in (work, requests))  # until each second
    ends = np.arange(1, len(work_by))
    begins = np.maximum(0, ends - MEAN_SECONDS)
    came = requests_by[ends] - requests_by[begins]
    brought = work_by[ends] - work_by[begins]
    mean: F64 = np.divide(brought, came, out=np.ones(len(came)), where=(brought > 0.0) & (came > 0.0))
    return mean
