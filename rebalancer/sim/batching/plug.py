"""Continuous batching as a service model of `rebalancer.world`: pods are its replicas, metrics are what vLLM shows."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rebalancer.domain.events import Counters, Gauges
from rebalancer.sim.batching.arrivals import BatchArrivals
from rebalancer.sim.batching.engines import Served
from rebalancer.sim.batching.line import BatchLine
from rebalancer.sim.batching.state import FINISHED, FIRST_TOKENS, GATEWAY_LENGTH, GONE, I64
from rebalancer.sim.demand import F64, DemandStreams
from rebalancer.sim.scenario import ScenarioModel
from rebalancer.world import Look, WorldPod

REFRESH_SECONDS = 60
SETTLED_SECONDS = 600  # so long after it a second's arrivals have all had, or lost, their first token


class BatchingService:
    """One model, in steps of one second; a pod that became Ready within a second serves from the next one on.

    Seconds that pass with the same replicas are lived through together, when somebody looks or replicas change.
    A pod that was deleted takes no more requests and serves those it has until its GPUs are free: its stop time, at
    most the grace. `wait`, `late`, `lost`, `left`: shape (seconds,), as `sim.record.Record` has them, and `slow`
    requests as `world.Outcome` has them, up to date about every minute and at the end; `busy`, `served_by`: as
    `sim.controller.Seen` has them. Metrics count simulated requests.
    """

    def __init__(
        self, model: ScenarioModel, served: Served, arrivals: BatchArrivals, started_at: float, seconds: int
    ) -> None:
        self.wait, self.late, self.lost, self.left = (np.zeros(seconds) for _ in range(4))
        self.slow, self.busy, self.served_by = (np.zeros(seconds) for _ in range(3))
        self._slo_wait_seconds = model.slo_wait_seconds
        self._requests = model.requests[:seconds]
        self._served = served
        self._started_at = started_at
        self._line = BatchLine(
            served,
            arrivals,
            seconds,
            patience_seconds=model.patience_seconds,
            slo_wait_seconds=model.slo_wait_seconds,
        )
        self._places: dict[str, int] = {}
        self._pods: dict[str, WorldPod] = {}
        self._past = np.zeros(3)  # finished, prompt tokens, tokens of replicas that are gone
        self._looked = [0, 0]  # first tokens and ends that were looked at
        self._settled: Sequence[WorldPod] | None = None  # pods that all serve, and nobody else is leaving
        self._ready = 0
        self._watched = False
        self._now = self._lived = 0

    @property
    def lost_in_flight(self) -> float:
        """Recorded requests that were lost with their pod."""
        return self._line.lost_in_flight / self._served.scale

    def flow(self, since: float, until: float, pods: Sequence[WorldPod]) -> None:  # noqa: ARG002  # always a second
        """One second with those pods that were Ready as it began."""
        second = round(since - self._started_at)
        if not 0 <= second < len(self.late):
            return
        if pods is not self._settled:
            serving = {pod.uid: pod for pod in pods if pod.ready_at is not None and pod.ready_at <= since}
            if serving.keys() != self._places.keys():
                self._catch_up()
                self._follow(serving, since)
            self._ready = len(serving)
            self._settled = pods if len(serving) == len(pods) == len(self._places) else None
        self._now = second + 1
        if self._watched or self._now == len(self.late):
            self._catch_up()
        if self._now == len(self.late):
            self._close()

    def keep_in(self, wait: F64, left: F64, busy: F64, served_by: F64) -> None:
        """Write on in these rows, shape (seconds,), of somebody who looks at several models at once."""
        self.wait, self.left, self.busy, self.served_by = wait, left, busy, served_by
        self._watched = True

    def _catch_up(self) -> None:
        """Live through the seconds that have passed since the last time, all with the replicas that serve now."""
        begin, end = self._lived, self._now
        if begin == end:
            return
        self._lived = end
        self._line.live(begin, end)
        self.served_by[begin:end] = self._ready
        self.busy[begin:end] = self._line.state.seconds[begin:end]["done"]
        if end // REFRESH_SECONDS > begin // REFRESH_SECONDS or end == len(self.late):
            self._refresh(end)

    def _follow(self, serving: Mapping[str, WorldPod], now: float) -> None:
        for uid in [uid for uid in self._places if uid not in serving]:
            pod, place = self._pods[uid], self._places[uid]
            deleted_at = now if pod.deleted_at is None else pod.deleted_at
            if now < deleted_at + min(pod.owner.stop_seconds, pod.owner.grace_seconds):
                self._line.drain(place)
            else:
                self._past += self._did(place)
                self._line.stop(place, now - self._started_at)
                del self._places[uid], self._pods[uid]
        for uid, pod in serving.items():
            if uid not in self._places:
                self._places[uid] = self._line.start(now - self._started_at)
                self._pods[uid] = pod

    def _did(self, place: int) -> I64:
        replica = self._line.state.replicas[place]
        return np.array([replica["finished"], replica["read"], replica["written"]])

    def _refresh(self, end: int) -> None:
        begin = max(0, end - SETTLED_SECONDS)
        happened = self._line.state.seconds[begin:end]
        came = np.maximum(1.0, happened["came"])
        recorded = self._requests[begin:end] / came
        self.wait[begin:end] = happened["wait"] / came
        self.late[begin:end] = happened["late"] * recorded
        self.lost[begin:end] = happened["lost"] * recorded
        self.slow[begin:end] = happened["slow"] * recorded
        self.left[begin:end] = np.maximum(0.0, happened["queued"])

    def _close(self) -> None:
        """Who still waits beyond the SLO is late."""
        came = np.maximum(1.0, self._line.state.seconds["came"])
        arrived = self._line.without_token()
        born, waited = arrived.astype(np.int64), self._now - arrived
        np.add.at(self.wait, born, waited / came[born])
        np.add.at(self.late, born, (waited > self._slo_wait_seconds) * (self._requests / came)[born])

    def looks(self, pods: Sequence[WorldPod]) -> list[Look]:
        """The model as a whole; each Ready pod besides would double what a sum over samples says."""
        self._catch_up()
        state = self._line.state
        there = state.replicas[state.replicas["mode"] != GONE]
        ready = max(1, len(pods))
        first, whole = (self._recent(which, count) for which, count in ((0, FIRST_TOKENS), (1, FINISHED)))
        gauges = Gauges(
            running=float((there["decoding"] + there["prefilling"]).sum()),
            waiting=float(there["waiting"].sum() + state.counts[GATEWAY_LENGTH]),
            kv_cache_use=min(1.0, float(there["kv"].sum()) / (ready * self._served.engine.kv_tokens)) if pods else None,
            gpu_utilisation=min(1.0, float(np.isfinite(there["ends"]).sum()) / ready) if pods else None,
            ttft_p95_seconds=quantile(first, 0.95),
            latency_p95_seconds=quantile(whole, 0.95),
            latency_p99_seconds=quantile(whole, 0.99),
        )
        done = self._past + sum((self._did(place) for place in self._places.values()), np.zeros(3))
        finished, read, written = map(float, done)
        left = float(state.seconds["lost"].sum())
        return [Look(None, gauges, Counters(self._started_at, finished, left, read, written))]

    def _recent(self, which: int, count: int) -> F64:
        """Seconds of those who had their first token, or their last, since the last look; at most the last 1,024."""
        ring, written = self._line.state.recent[which], int(self._line.state.counts[count])
        some = min(written - self._looked[which], len(ring))
        self._looked[which] = written
        recent: F64 = ring[np.arange(written - some, written) % len(ring)]
        return recent


def quantile(values: F64, share: float) -> float | None:
    """None where there are no values: nobody measured any."""
    return float(np.quantile(values, share)) if len(values) else None


def serving(
    demand: DemandStreams, served: Mapping[str, Served], seed: int = 0
) -> Callable[[ScenarioModel, float, int], BatchingService]:
    """What makes the service of a model, by name: for whoever plays the product or a peer in the full world."""
    streams = {stream.model: (index, stream) for index, stream in enumerate(demand.streams)}

    def serve(model: ScenarioModel, started_at: float, seconds: int) -> BatchingService:
        index, stream = streams[model.name]
        how = served[model.name]
        arrivals = BatchArrivals(stream, scale=how.scale, spread=how.spread, seed=seed, model=index)
        return BatchingService(model, how, arrivals, started_at, seconds)

    return serve
