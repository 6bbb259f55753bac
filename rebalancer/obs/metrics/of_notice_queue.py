"""The metrics of a queue of notices."""

from rebalancer.obs.metrics.metric import COUNTER, GAUGE, Label, Metric

NOTICE_QUEUE = (
    Metric(
        "rebalancer_notice_queue_messages_total",
        COUNTER,
        "Messages of the queue of notices, by what became of them: `put-off` and `undeleted` are delivered again.",
        "messages",
        (Label("result", ("forwarded", "too-large", "put-off", "undeleted")),),
    ),
    Metric(
        "rebalancer_notice_queue_good",
        GAUGE,
        "1 when the queue of notices is read; absent when none is set.",
        "0 or 1",
    ),
)
