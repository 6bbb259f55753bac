"""The figures of the running parts, read when Prometheus asks."""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from rebalancer import __version__
from rebalancer.domain.cluster import CLOCK, READINGS, SOURCES
from rebalancer.domain.pinned import STATES, Pinned
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.sync import Sync
from rebalancer.ingest.gauges import IMPOSSIBLE
from rebalancer.ingest.intake import KafkaIntake
from rebalancer.ingest.notice_queue import NoticeQueue
from rebalancer.ingest.prometheus import PrometheusReadings
from rebalancer.ingest.watches import Watches
from rebalancer.kafka.outbox import Outbox
from rebalancer.kube.reader import KubeReader
from rebalancer.obs.metrics import Figure
from rebalancer.obs.metrics.catalogue import BY_NAME, GAUGES, INPUTS, REASONS, TARGETS
from rebalancer.settings.entries import FORMS
from rebalancer.settings.policy_file import PolicyFile
from rebalancer.settings.service import ServiceSettings
from rebalancer.state import ClusterState

REJECTED = "rejected."


def build_figures(settings: ServiceSettings, *, leads: bool) -> Iterator[Figure]:
    """What runs, and whether it acts."""
    yield Figure("rebalancer_build_info", 1, (__version__, platform.python_version(), settings.write_mode))
    yield Figure("rebalancer_leading", leads)
    yield Figure("rebalancer_leader", leads)  # the name that dashboards of people's own use


def policy_figures(file: PolicyFile) -> Iterator[Figure]:
    """How much of the policy file as it is now is in force."""
    yield Figure("rebalancer_policy_good", file.trouble is None)
    forms = [each.form for each in file.refused]
    yield from (Figure("rebalancer_policy_entries_refused", forms.count(form), (form,)) for form in FORMS)


def sync_figures(sync: Sync) -> Iterator[Figure]:
    """Which sources are listed and fresh."""
    bad = {*sync.missing, *sync.stale}
    known = {*SOURCES, READINGS, CLOCK}
    yield Figure("rebalancer_synced", not bad)
    yield from (Figure("rebalancer_source_good", source not in bad, (source,)) for source in known)
    yield Figure("rebalancer_source_good", bad <= known, (TARGETS,))


def people_figures(snapshot: Snapshot) -> Iterator[Figure]:
    """What people decided."""
    yield Figure("rebalancer_write_stopped", snapshot.write_stop is not None)
    open_kinds = [one.kind for one in snapshot.overrides if one.expires_at > snapshot.at]
    kinds = BY_NAME["rebalancer_overrides"].labels[0].words
    yield from (Figure("rebalancer_overrides", open_kinds.count(kind), (kind,)) for kind in kinds)


def input_figures(state: ClusterState, intake: KafkaIntake | None) -> Iterator[Figure]:
    """What came in so far, and whether more is coming; `intake` None: there is no Kafka."""
    counts = {**state.counters(), **(intake.counts if intake is not None else {})}
    yield from record_figures(counts)
    yield from _impossible("kafka", counts)
    yield Figure("rebalancer_unknown_node_signs", len(state.signs.unknown()))
    for model, changes in state.foreign_changes().items():
        yield Figure("rebalancer_foreign_changes_total", changes, (model,))
    for start, count in state.starts.counts.items():
        yield Figure("rebalancer_starts_total", count, start)
    for model, count in state.starts.failures.items():
        yield Figure("rebalancer_wake_failures_total", count, (model,))
    if intake is not None:
        for topic, seconds in intake.consumer.stuck_by_topic().items():
            yield Figure("rebalancer_consumer_stuck_seconds", seconds, (topic,))
        for topic, seconds in intake.consumer.behind_by_topic().items():
            yield Figure("rebalancer_consumer_behind_seconds", seconds, (topic,))


def record_figures(counts: Mapping[str, int]) -> Iterator[Figure]:
    """What became of what came in."""
    yield from _words("rebalancer_input_total", counts, INPUTS)
    rejected = {word.removeprefix(REJECTED): count for word, count in counts.items() if word.startswith(REJECTED)}
    yield from _words("rebalancer_rejected_records_total", rejected, REASONS)


def watch_figures(watches: Watches) -> Iterator[Figure]:
    """Objects that nobody can read."""
    counts = dict.fromkeys((*SOURCES, TARGETS), 0)
    for source, sink in watches.sources.items():
        counts[source if source in SOURCES else TARGETS] += sink.counts["unusable"]
    yield from (Figure("rebalancer_unusable_objects_total", count, (source,)) for source, count in counts.items())


def output_figures(outbox: Outbox | None, kube: KubeReader | None) -> Iterator[Figure]:
    """What became of what went out; `outbox` None: there is no Kafka."""
    if outbox is not None:
        sends = BY_NAME["rebalancer_kafka_sends_total"].labels[0].words
        yield from _words("rebalancer_kafka_sends_total", outbox.counts, sends)
    if kube is not None:
        kinds = BY_NAME["rebalancer_kubernetes_errors_total"].labels[0].words
        yield from _words("rebalancer_kubernetes_errors_total", kube.errors, kinds)


def pinned_figures(pinned: Iterable[Pinned]) -> Iterator[Figure]:
    """What carries values that a rebalancer wrote."""
    yield from _words("rebalancer_pinned_objects", Counter(each.state for each in pinned), STATES)


def prometheus_figures(source: PrometheusReadings) -> Iterator[Figure]:
    """What became of the questions to it, and what they cost it."""
    results = BY_NAME["rebalancer_prometheus_polls_total"].labels[0].words
    yield from _words("rebalancer_prometheus_polls_total", source.counts, results)
    yield from _impossible("prometheus", source.counts)
    yield Figure("rebalancer_prometheus_good", source.trouble is None)
    yield Figure("rebalancer_prometheus_queries_total", source.cost.queries)
    yield Figure("rebalancer_prometheus_query_seconds_total", source.cost.seconds)
    yield Figure("rebalancer_prometheus_query_samples_total", source.cost.samples)
    yield Figure("rebalancer_prometheus_left_out_namespaces", len(source.left_out))


def queue_figures(queue: NoticeQueue) -> Iterator[Figure]:
    """What became of the messages of a queue of SQS."""
    results = BY_NAME["rebalancer_notice_queue_messages_total"].labels[0].words
    yield from _words("rebalancer_notice_queue_messages_total", queue.counts, results)
    yield Figure("rebalancer_notice_queue_good", queue.trouble is None)


def _impossible(source: str, counts: Mapping[str, int]) -> Iterator[Figure]:
    for gauge in GAUGES:
        yield Figure("rebalancer_impossible_gauges_total", counts.get(f"{IMPOSSIBLE}{gauge}", 0), (source, gauge))


def _words(name: str, counts: Mapping[str, int], words: tuple[str, ...]) -> Iterator[Figure]:
    """Each of the closed set, so that no other word becomes a label."""
    yield from (Figure(name, counts.get(word, 0), (word,)) for word in words)
