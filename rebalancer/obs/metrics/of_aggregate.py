"""What a process of the aggregate tier tells Prometheus: its own metrics; `catalogue.AGGREGATE` has all."""

from rebalancer.obs.metrics.metric import GAUGE, Metric

AGGREGATE_ONLY = (
    Metric(
        "rebalancer_aggregate_partitions",
        GAUGE,
        "Partitions of the topic `metrics` that this process of the aggregate tier reads.",
        "partitions",
    ),
    Metric(
        "rebalancer_aggregate_lag_records",
        GAUGE,
        "Records of them that are not read yet.",
        "records",
    ),
    Metric(
        "rebalancer_aggregate_held_back_records",
        GAUGE,
        "Records of them that were read, and that another process would read again: some have no dead letter yet.",
        "records",
    ),
)
