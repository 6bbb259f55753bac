"""The metrics of what we ask a Prometheus."""

from rebalancer.obs.metrics.metric import COUNTER, GAUGE, Label, Metric

PROMETHEUS = (
    Metric(
        "rebalancer_prometheus_polls_total",
        COUNTER,
        "Polls of Prometheus for readings, by what became of them.",
        "polls",
        (Label("result", ("ok", "partial", "empty", "failed", "slow", "skipped")),),
    ),
    Metric(
        "rebalancer_prometheus_queries_total",
        COUNTER,
        "Questions that Prometheus was asked, those about which metrics it has included.",
        "questions",
    ),
    Metric(
        "rebalancer_prometheus_query_seconds_total",
        COUNTER,
        "Time until the answers to these questions were read.",
        "seconds",
    ),
    Metric(
        "rebalancer_prometheus_query_samples_total",
        COUNTER,
        "Samples that Prometheus looked at to answer them, as it counts them itself; 0 where it does not tell.",
        "samples",
    ),
    Metric(
        "rebalancer_prometheus_left_out_namespaces",
        GAUGE,
        "Namespaces that the last poll did not ask about, for want of time or samples; they are asked about first.",
        "namespaces",
    ),
    Metric(
        "rebalancer_prometheus_good",
        GAUGE,
        "1 when the last poll brought readings; absent when none is asked.",
        "0 or 1",
    ),
)
