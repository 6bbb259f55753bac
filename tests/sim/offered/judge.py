"""One cell: an engine, a traffic and a load, and how far each path to the offered work is off.

Replicas of a fixed number serve an hour of the traffic. What they tell every 5 s is heard by the product, by each path
alone and by all together; what it takes the last minute's work for is held against the work that came in that minute.
The truth of a request is what it takes of a replica that is full of this very traffic: its own prompt's seconds and its
own cache's, and of what is left of the time as large a part as it has of all generated tokens.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from rebalancer.domain.events import Gauges, MetricSample
from rebalancer.sim.batching.arrivals import ComingRequests
from rebalancer.sim.batching.engine import BatchingEngine
from rebalancer.sim.batching.engines import LLAMA2_7B, Served, shaped
from rebalancer.sim.batching.plug import BatchingService
from rebalancer.sim.batching.single import alone
from rebalancer.sim.demand import F64
from rebalancer.sim.product import default_policy
from rebalancer.sim.product.stage import STARTED_AT, Stage
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.suite.scenarios import LLM_3_RATES
from rebalancer.sim.suite.worlds import KV_TOKENS
from rebalancer.state import ClusterState
from tests.builders import a_model, a_policy
from tests.sim.offered.traffic import SECONDS, Listed
from tests.state.loads import load_of
from tests.state.objects import a_ready_pod, a_state, a_workload, feed

LEARNING_SECONDS, WINDOW_SECONDS, EVERY_SECONDS = 1200, 60, 5
BUSY = {"half busy": 0.5, "nearly full": 0.9}  # of what replicas can do, on average
SLO_SECONDS = 10.0  # that a replica keeps while nobody waits: a prompt of 15 k tokens alone takes 2 s


def _of_suite(name: str) -> BatchingEngine:
    rates = LLM_3_RATES[name]
    return shaped(rates.prefill_per_second, rates.seconds_per_token, rates.batch, KV_TOKENS)


ENGINES = {"70B, batch of 64": _of_suite("m-large"), "8B, batch of 128": _of_suite("m-small")}
ENGINES["7B, one A100"] = LLAMA2_7B["a100"]  # whose cache is full of 92 short requests, or of 8 long ones


class Path(NamedTuple):
    """A way to the offered work: which gauges come from each producer, and what it counts.

    `per_replica`: whether the policy says what a replica carries (its batch); None: `concurrency` is not configured.
    """

    gauges: tuple[tuple[str, ...], ...]
    counts: tuple[tuple[str, ...], ...] = ((),)
    per_replica: bool | None = True


_ENGINE = ("running", "waiting", "kv_cache_use", "ttft_p95_seconds", "latency_p95_seconds", "latency_p99_seconds")
_DEVICE = ("gpu_utilisation",)
_REQUESTS = ("requests_finished", "requests_left")
_TOKENS = (*_REQUESTS, "prompt_tokens", "generated_tokens")
PATHS = {
    "arrivals": Path((_ENGINE,), (_TOKENS,)),
    "all together": Path((_ENGINE, _ENGINE, _DEVICE), (_TOKENS, (), ())),
    "arrivals, no figure": Path((_ENGINE,), (_TOKENS,), per_replica=False),
    "concurrency, requests counted": Path((_ENGINE,), (_REQUESTS,)),
    "concurrency": Path((_ENGINE,)),
    "utilisation": Path((_DEVICE,), per_replica=None),
}
RIGHT = ("arrivals", "all together")  # those that are held to be right within 15 %


class Ratio(NamedTuple):
    """Estimate over truth in the judged minutes: the middle, and what a tenth are below and above; NaN: unknown."""

    low: float
    middle: float
    high: float


class Cell:
    """One engine's hour with one traffic. `replicas`: how many, to be `busy` on average; `mean`: the true work."""

    def __init__(self, engine: BatchingEngine, coming: ComingRequests, busy: float) -> None:
        works = works_of(engine, coming)
        minute = (coming.arrived // WINDOW_SECONDS).astype(np.int64)
        self._engine = engine
        self.truth = np.bincount(minute, weights=works, minlength=SECONDS // WINDOW_SECONDS) / WINDOW_SECONDS
        self.mean = float(self.truth.mean())
        self.replicas = max(1, round(self.mean / busy))
        self._samples = list(_samples(engine, coming, self.replicas))

    def ratio(self, path: Path) -> Ratio:
        """By one path."""
        state, found = self._listening(path), []
        for sample in self._samples:
            feed(state, *_told(sample, path), now=sample.at)
            if (sample.at - STARTED_AT) % WINDOW_SECONDS == 0:
                work = load_of(state, now=sample.at).work.last_60s
                found.append(np.nan if work is None else work)
        judged = slice(LEARNING_SECONDS // WINDOW_SECONDS, None)
        truth = self.truth[judged]
        ratios = (np.array(found[judged]) / np.where(truth > 0.0, truth, np.nan))[truth > 0.0]
        known = ratios[~np.isnan(ratios)]
        if 2 * len(known) < len(ratios):
            return Ratio(np.nan, np.nan, np.nan)
        return Ratio(*(float(each) for each in np.quantile(known, (0.1, 0.5, 0.9))))

    def _listening(self, path: Path) -> ClusterState:
        figure = {"per_replica": float(self._engine.most_running)} if path.per_replica else {}
        signals: dict[str, object] = {"utilisation": True} if path.per_replica is None else {"concurrency": figure}
        policy = a_policy(a_model("b", signals=signals, slo={"latency_seconds": SLO_SECONDS}))
        pods = [a_ready_pod(f"b-{number}") for number in range(self.replicas)]
        return a_state(policy, a_workload(replicas=self.replicas), *pods)


def works_of(engine: BatchingEngine, coming: ComingRequests) -> F64:
    """Replica-seconds of each request; together what one replica takes for all of them when nobody ever waits to come.

    A prompt of p tokens attends to p^2 / 2 pairs; g generated tokens read the cache of p + g / 2 tokens each.
    """
    prompt, tokens = coming.prompt.astype(np.float64), coming.tokens.astype(np.float64)
    own = prompt / engine.prefill_per_second + engine.seconds_per_pair * prompt**2 / 2.0
    own += engine.seconds_per_kv_token * tokens * (prompt + tokens / 2.0)
    ends = alone(engine, np.zeros(len(prompt)), coming.prompt, coming.tokens)[:, 1]
    works: F64 = own + tokens * (float(np.nanmax(ends)) - own.sum()) / tokens.sum()
    return works


def _samples(engine: BatchingEngine, coming: ComingRequests, replicas: int) -> Iterator[MetricSample]:
    """What the model as a whole tells every 5 s."""
    counts = np.bincount(coming.arrived.astype(np.int64), minlength=SECONDS).astype(np.float64)
    model = ScenarioModel("b", counts, counts, first=replicas)

    def serve(model: ScenarioModel, started_at: float, seconds: int) -> BatchingService:
        return BatchingService(model, Served(engine), Listed(coming), started_at, seconds)

    scenario = Scenario("offered", "0", (model,), (replicas,), SECONDS)
    stage = Stage(scenario, default_policy(scenario), serve=serve, scrape_seconds=float(EVERY_SECONDS), lag_seconds=0.0)
    stage.world.take_samples()
    for second in range(EVERY_SECONDS, SECONDS + 1, EVERY_SECONDS):
        stage.world.advance(STARTED_AT + second)
        yield from stage.world.take_samples()


def _told(sample: MetricSample, path: Path) -> Iterable[MetricSample]:
    """What the path's producers tell of it."""
    for number, (gauges, counts) in enumerate(zip(path.gauges, path.counts, strict=True)):
        shown = Gauges(**{name: getattr(sample.gauges, name) for name in gauges})
        counters = sample.counters
        if counters is not None:
            counters = replace(counters, **dict.fromkeys(set(_TOKENS) - set(counts))) if counts else None
        yield replace(sample, source=f"{number}", id=f"{sample.id}-{number}", gauges=shown, counters=counters)
