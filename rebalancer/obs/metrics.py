"""Every Prometheus metric of the service, in one file.

Label values are bounded: models and pools of the policy, guards, kinds and reasons of closed sets; names that come in
from outside never become labels.
"""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Plan

CYCLE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


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
        self.refusals = Gauge(
            "rebalancer_refusals", "Moves refused in the last plan, by guard.", ["guard"], registry=made
        )
        self.model = Gauge(
            "rebalancer_model_replicas",
            "Replicas of a model: demand (absent when unknown), allocation, granted, ready, loading, doomed, floor.",
            ["model", "state"],
            registry=made,
        )
        self.unmet = Gauge(
            "rebalancer_unmet_replicas", "Replicas a model needs and does not have.", ["model"], registry=made
        )
        self.pool = Gauge(
            "rebalancer_pool_gpus",
            "GPUs of a pool: budget (absent when unknown), promised, owned, lent, loading, doomed, foreign, free.",
            ["pool", "state"],
            registry=made,
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

    def cycle(self, seconds: float, ok: bool) -> None:  # noqa: FBT001  # the runner's hook
        """A cycle ended."""
        self.cycles.labels("ok" if ok else "failed").inc()
        self.cycle_seconds.observe(seconds)

    def outcome(self, outcome: Outcome) -> None:
        """A change ended."""
        self.changes.labels(outcome.intent.kind, outcome.status).inc()

    def plan(self, plan: Plan) -> None:
        """Show a plan; models and pools that left the policy leave the metrics too."""
        for gauge in (self.model, self.unmet, self.pool, self.refusals):
            gauge.clear()
        for model in plan.models:
            for state in ("demand", "allocation", "granted", "ready", "loading", "doomed", "floor"):
                value = getattr(model, state)
                if value is not None:
                    self.model.labels(model.model, state).set(value)
        for unmet in plan.unmet:
            self.unmet.labels(unmet.model).set(unmet.replicas)
        for pool in plan.pools:
            for state in ("budget", "promised", "owned", "lent", "loading", "doomed", "foreign", "free"):
                value = getattr(pool, state)
                if value is not None:
                    self.pool.labels(pool.pool, state).set(value)
        for refusal in plan.refusals:
            self.refusals.labels(refusal.guard).inc()

    def inputs(self, counters: Mapping[str, int]) -> None:
        """What came in so far, by result."""
        for result, count in counters.items():
            self.input.labels(result).set(count)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
