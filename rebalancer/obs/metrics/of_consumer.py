"""The metrics of how far Kafka's topics are read."""

from rebalancer.obs.metrics.metric import GAUGE, Label, Metric

TOPIC = Label("topic", ("metrics", "readings", "notices", "overrides"))

CONSUMER = (
    Metric(
        "rebalancer_consumer_stuck_seconds",
        GAUGE,
        "How long the worst partition of a topic has made no progress, or the topic has not been seen.",
        "seconds",
        (TOPIC,),
    ),
    Metric(
        "rebalancer_consumer_behind_seconds",
        GAUGE,
        "How long ago the worst partition of a topic ended where it has been read to; up to 2 s is not behind.",
        "seconds",
        (TOPIC,),
    ),
)
