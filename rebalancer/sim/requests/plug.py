"""Faro's jobs as service models of `rebalancer.world`: pods are a head's replicas, metrics are what heads measure."""

from collections.abc import Callable, Sequence

import numpy as np

from rebalancer.domain.events import Counters, Gauges
from rebalancer.sim.demand import F64
from rebalancer.sim.requests.head import Head
from rebalancer.sim.requests.world import RequestScenario
from rebalancer.sim.scenario import ScenarioModel
from rebalancer.world import Look, WorldPod


class HeadService:
    """One job, in steps of one second; a pod that became Ready within a second serves from the next one on.

    Seconds that pass with the same replicas are lived through together, when somebody looks or replicas change.
    A pod that was deleted takes no more requests and finishes the few it holds, as in `world.RequestWorld`: nobody is
    lost in flight. Metrics: `running` are the requests in service, mean since the last scrape, `waiting` those behind
    them; latencies are those of requests answered since then, refused ones left out.
    `wait`, `late`, `lost`, `left`: shape (seconds,), as `sim.record.Record` has them, and `minutes` as `by_minute`
    gives them: there when the last second was lived through. `busy`, `served_by`: as `sim.controller.Seen` has them.
    """

    def __init__(self, of: RequestScenario, job: int, started_at: float, seconds: int) -> None:
        self._arrivals = of.jobs[job]
        self._slo_seconds = of.slo_seconds
        self._started_at = started_at
        rows = np.zeros((5, seconds))
        self.busy, self.left, self._answered, _, self.wait = rows
        self.served_by, self.late, self.lost = (np.zeros(seconds) for _ in range(3))
        self.minutes = np.zeros((3, 0))
        self._head = Head(self._arrivals, rows, of.scenario.gpus, of.ongoing_limit, of.queue_limit)
        self._warm()
        self._now = self._lived = self._looked = 0
        self._watched = False
        self._unsettled = 0  # the first request that has no answer yet
        self._turned_away = self._settled_away = 0.0  # requests: so far, and of those before it

    def _warm(self) -> None:
        """Kernels are compiled or read from their cache now, not within the event loop."""
        self._head.live(0, 0)
        self._head.live(0, 0.0)
        self._head.resize(1)
        self._head.resize(0)

    def flow(self, since: float, until: float, pods: Sequence[WorldPod]) -> None:  # noqa: ARG002  # always a second
        """One second with those pods that were Ready as it began."""
        second = round(since - self._started_at)
        if not 0 <= second < len(self.late):
            return
        ready = sum(pod.ready_at is not None and pod.ready_at <= since for pod in pods)
        if ready != self._head.replicas:
            self._catch_up()
            self._head.resize(ready)
        self._now = second + 1
        if self._watched or self._now == len(self.late):
            self._catch_up()
        if self._now == len(self.late):
            self._finish()

    def _catch_up(self) -> None:
        """Live through the seconds that have passed since the last time, all with the replicas that serve now."""
        begin, end = self._lived, self._now
        if begin == end:
            return
        self._lived = end
        self._head.live(begin, end)
        self.served_by[begin:end] = self._head.replicas

    def keep_in(self, wait: F64, left: F64, busy: F64, served_by: F64) -> None:
        """Write on in these rows, shape (seconds,), of somebody who looks at several jobs at once."""
        self._head.keep_in(wait, left, busy)
        self.wait, self.left, self.busy, self.served_by = wait, left, busy, served_by
        self._watched = True

    def _finish(self) -> None:
        """Answer what is still inside with the replicas there are, and sum up by the second of arrival."""
        self._head.live(self._now, float("inf"))
        self.wait, self.late, self.lost = self._head.by_second(self._now, self._slo_seconds)
        self.minutes = self._head.by_minute(self._slo_seconds)

    def looks(self, pods: Sequence[WorldPod]) -> list[Look]:  # noqa: ARG002  # a head speaks for all its pods
        """The job as a whole."""
        self._catch_up()
        begin, end = self._looked, self._now
        if begin == end:
            return []
        self._looked = end
        busy = float(np.add.reduce(self.busy[begin:end]))
        able = float(np.add.reduce(self.served_by[begin:end]))
        seconds = self._answered_in(begin, end)
        gauges = Gauges(
            running=busy / (end - begin),
            waiting=float(self._head.behind),
            gpu_utilisation=min(1.0, busy / able) if able else None,
            latency_p95_seconds=float(np.quantile(seconds, 0.95)) if len(seconds) else None,
            latency_p99_seconds=float(np.quantile(seconds, 0.99)) if len(seconds) else None,
        )
        answered = float(np.add.reduce(self._answered[:end]))
        return [Look(None, gauges, Counters(self._started_at, answered - self._turned_away, self._turned_away))]

    def _answered_in(self, begin: int, end: int) -> F64:
        """Seconds that those requests lasted which were answered in [begin, end)."""
        some = slice(self._unsettled, self._head.came)
        latency = self._head.measured.latency[some]
        done_at = self._arrivals.at[some] + latency
        self._turned_away = self._settled_away + float(np.isinf(latency).sum())
        settled = int(np.argmax(np.isnan(latency))) if np.isnan(latency).any() else len(latency)
        self._settled_away += float(np.isinf(latency[:settled]).sum())
        self._unsettled += settled
        answered: F64 = latency[(done_at >= begin) & (done_at < end)]
        return answered


def serving(of: RequestScenario) -> Callable[[ScenarioModel, float, int], HeadService]:
    """What makes the service of a job, by its name: for whoever plays the product in the full world."""
    jobs = {model.name: job for job, model in enumerate(of.scenario.models)}

    def serve(model: ScenarioModel, started_at: float, seconds: int) -> HeadService:
        return HeadService(of, jobs[model.name], started_at, seconds)

    return serve
