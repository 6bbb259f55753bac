"""The registry: what happens is counted here as it happens, everything else is handed in when somebody asks.

Set one by one, a plan's figures would cost every cycle 70 ms at 1,000 models, before its first write goes out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rebalancer.domain.outcome import SHADOW, Outcome
from rebalancer.domain.plan import Plan
from rebalancer.obs.metrics.catalogue import BY_NAME, METRICS
from rebalancer.obs.metrics.figure import Figure
from rebalancer.obs.metrics.metric import COUNTER, HISTOGRAM, Metric

# One more series per histogram, which nobody reads and the catalogue does not name.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the client has no types there

Family = CounterMetricFamily | GaugeMetricFamily
_Wish = tuple[str, str, tuple[int | None, ...]]


class Metrics:
    """The registry and what is in it: exactly the catalogue, or those of it that a process of another kind shows."""

    def __init__(self, shown: Sequence[Metric] = METRICS) -> None:
        self.registry = CollectorRegistry()
        self._histograms = {
            metric.name: Histogram(metric.name, metric.help, buckets=metric.buckets, registry=self.registry)
            for metric in shown
            if metric.kind == HISTOGRAM
        }
        self._wishes: frozenset[_Wish] = frozenset()
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._figures = _Figures(shown)
        self.registry.register(self._figures)

    def count(self, name: str, *labels: str) -> None:
        """One more."""
        self._counts[name, labels] += 1

    def observe(self, name: str, value: float) -> None:
        """One more value of a histogram."""
        self._histograms[name].observe(value)

    def cycle(self, seconds: float, ok: bool) -> None:  # noqa: FBT001  # the runner's hook
        """A cycle ended."""
        self.count("rebalancer_cycles_total", "ok" if ok else "failed")
        self.observe("rebalancer_cycle_seconds", seconds)

    def outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """The changes of one plan ended.

        In shadow every plan asks again for what was not written: such a wish counts when it appears, and again only
        after a plan without it.
        """
        wished = [(_wish(outcome), outcome) for outcome in outcomes]
        for wish, outcome in wished:
            if outcome.status != SHADOW or wish not in self._wishes:
                self.count("rebalancer_changes_total", outcome.intent.kind, outcome.status)
        self._wishes = frozenset(wish for wish, outcome in wished if outcome.status == SHADOW)

    def accounts(self, plan: Plan) -> None:
        """The notices whose node this plan found empty, and replicas that were replaced after their node was."""
        for account in plan.accounts:
            if account.replaced_late_at == plan.at:
                self.observe("rebalancer_notice_replaced_seconds", plan.at - account.since)
            if account.drained_at != plan.at:
                continue
            for name, value in (
                ("action_seconds", _since(account.since, account.acted_at)),
                ("replaced_seconds", _since(account.since, account.replaced_at)),
                ("spare_seconds", account.spare_seconds),
                ("requests_in_flight", account.requests_at_end),
            ):
                if value is not None:
                    self.observe(f"rebalancer_notice_{name}", value)
            for replica in account.replicas:
                self.count("rebalancer_notice_drained_total", replica.gone_by)

    def text(self, figures: Iterable[Figure] = ()) -> bytes:
        """The exposition format. Raises KeyError for a figure of which the catalogue knows nothing."""
        counted = (Figure(name, count, labels) for (name, labels), count in self._counts.items())
        self._figures.take((*figures, *counted))
        return generate_latest(self.registry)


class _Figures(Collector):
    """The figures of one answer."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics
        self._shown: dict[str, dict[tuple[str, ...], float]] = {}

    def take(self, figures: Iterable[Figure]) -> None:
        """These and no others; counters whose labels are all known begin at 0, so that their first step is seen."""
        self._shown = {metric.name: dict.fromkeys(_beginnings(metric), 0.0) for metric in self._metrics}
        for name, value, labels in figures:
            if len(labels) != len(BY_NAME[name].labels):
                raise KeyError(f"{name} has {len(BY_NAME[name].labels)} labels, not {len(labels)}")
            self._shown[name][labels] = value

    def describe(self) -> Iterator[Family]:
        """The names, for the registry to keep apart."""
        yield from (_family(metric) for metric in self._metrics if metric.kind != HISTOGRAM)

    def collect(self) -> Iterator[Family]:
        """All of them, in the catalogue's order."""
        for name, values in self._shown.items():
            if BY_NAME[name].kind != HISTOGRAM:
                family = _family(BY_NAME[name])
                for labels, value in sorted(values.items()):
                    family.add_metric(labels, value)
                yield family


def _since(begin: float, end: float | None) -> float | None:
    return None if end is None else end - begin


def _wish(outcome: Outcome) -> _Wish:
    """What two plans that ask for the same have in common: the object, the kind, from where to where."""
    intent = outcome.intent
    return intent.object, intent.kind, (intent.replicas_from, intent.replicas_to, intent.limit_from, intent.limit_to)


def _family(metric: Metric) -> Family:
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    return kind(metric.name, metric.help, labels=[label.name for label in metric.labels])


def _beginnings(metric: Metric) -> Iterable[tuple[str, ...]]:
    if metric.kind != COUNTER or not all(label.words for label in metric.labels):
        return ()
    return product(*(label.words for label in metric.labels))
