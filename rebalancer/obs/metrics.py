"""Every Prometheus metric of the service, in one file.

Label values are bounded: models and pools of the policy, guards, kinds and reasons of closed sets; names that come in
from outside never become labels.
"""

from collections import Counter as Counted
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Plan

CYCLE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)

MODEL_STATES = ("demand", "allocation", "granted", "ready", "loading", "doomed", "floor")
POOL_STATES = ("budget", "promised", "owned", "lent", "loading", "doomed", "foreign", "free")


class Metrics:
    """The registry and what is in it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made = self.registry
        self.cycles = Counter("rebalancer_cycles", "Cycles run, by result (ok, failed).", ["result"], registry=made)
        self.cycle_seconds = Histogram(
            "rebalancer_cycle_seconds", "Duration of a cycle, writes included.", buckets=CYCLE_BUCKETS, registry=made
        )
        self.changes = Counter(
            "rebalancer_changes", "Changes by kind and by what became of them.", ["kind", "status"], registry=made
        )
        self.synced = Gauge("rebalancer_synced", "1 when every source is listed and fresh.", registry=made)
        self.write_stopped = Gauge("rebalancer_write_stopped", "1 while a WriteStop exists.", registry=made)
        self.policy_good = Gauge(
            "rebalancer_policy_good", "1 when the policy file as it is now is in force.", registry=made
        )
        self.journal_good = Gauge("rebalancer_journal_good", "1 when the local journal can be written.", registry=made)
        self.input = Gauge(
            "rebalancer_input_total",
            "Records and samples since the start, by what became of them.",
            ["result"],
            registry=made,
        )
        self._shown = _ShownPlan()
        made.register(self._shown)

    def cycle(self, seconds: float, ok: bool) -> None:  # noqa: FBT001  # the runner's hook
        """A cycle ended."""
        self.cycles.labels("ok" if ok else "failed").inc()
        self.cycle_seconds.observe(seconds)

    def outcome(self, outcome: Outcome) -> None:
        """A change ended."""
        self.changes.labels(outcome.intent.kind, outcome.status).inc()

    def plan(self, plan: Plan) -> None:
        """The plan to show; models and pools that left the policy leave the metrics too."""
        self._shown.plan = plan

    def inputs(self, counters: Mapping[str, int]) -> None:
        """What came in so far, by result."""
        for result, count in counters.items():
            self.input.labels(result).set(count)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)


class _ShownPlan(Collector):
    """The last plan's figures, read from it when somebody asks.

    Set one by one they would cost every cycle 70 ms at 1,000 models, before its first write goes out.
    """

    def __init__(self) -> None:
        self.plan: Plan | None = None

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The names, for the registry to keep apart."""
        yield from _families()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Every figure of the plan that is known."""
        refusals, models, unmet, pools = _families()
        if self.plan is not None:
            for guard, count in sorted(Counted(refusal.guard for refusal in self.plan.refusals).items()):
                refusals.add_metric([guard], count)
            for model in self.plan.models:
                _add(models, model.model, model, MODEL_STATES)
            for model_id, replicas in {each.model: each.replicas for each in self.plan.unmet}.items():
                unmet.add_metric([model_id], replicas)
            for pool in self.plan.pools:
                _add(pools, pool.pool, pool, POOL_STATES)
        yield from (refusals, models, unmet, pools)


def _families() -> tuple[GaugeMetricFamily, ...]:
    return (
        GaugeMetricFamily("rebalancer_refusals", "Moves refused in the last plan, by guard.", labels=["guard"]),
        GaugeMetricFamily(
            "rebalancer_model_replicas",
            f"Replicas of a model: {', '.join(MODEL_STATES)} (absent when unknown).",
            labels=["model", "state"],
        ),
        GaugeMetricFamily("rebalancer_unmet_replicas", "Replicas a model needs and does not have.", labels=["model"]),
        GaugeMetricFamily(
            "rebalancer_pool_gpus",
            f"GPUs of a pool: {', '.join(POOL_STATES)} (absent when unknown).",
            labels=["pool", "state"],
        ),
    )


def _add(family: GaugeMetricFamily, name: str, figures: object, states: Iterable[str]) -> None:
    for state in states:
        value = getattr(figures, state)
        if value is not None:
            family.add_metric([name, state], value)
