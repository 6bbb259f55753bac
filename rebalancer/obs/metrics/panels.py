"""What the dashboard asks, in the order in which somebody on call asks it.

Every replica of the service shows its own plan's figures, so they are one figure (`max`), never a sum of several.
"""

from rebalancer.obs.metrics.panel import NEVER, DashboardPanel, DashboardRow, Query
from rebalancer.obs.metrics.workload_panels import WORKLOAD_ROWS


def _yes(good: str, bad: str) -> tuple[tuple[int, str, str], ...]:
    return ((1, good, "green"), (0, bad, "red"))


ROWS: tuple[DashboardRow, ...] = (
    DashboardRow(
        "Is the service alive, fresh, writing?",
        (
            DashboardPanel(
                "Rebalancers",
                "stat",
                (Query("count by (write_mode) (rebalancer_build_info)", "{{write_mode}}"),),
                "How many answer, by write mode: shadow decides and writes nothing.",
                width=4,
            ),
            DashboardPanel(
                "Sees the cluster",
                "stat",
                (Query("min(rebalancer_synced)"),),
                "Every source listed and fresh.",
                width=4,
                words=_yes("synced", "not synced"),
            ),
            DashboardPanel(
                "Writes",
                "stat",
                (Query("max(rebalancer_write_stopped)"),),
                "Whether a WriteStop is in place.",
                width=4,
                words=((0, "allowed", "green"), (1, "stopped", "red")),
            ),
            DashboardPanel(
                "Policy file",
                "stat",
                (Query("min(rebalancer_policy_good)"),),
                "Whether the file as it is now is in force, all of it.",
                width=4,
                words=_yes("in force", "refused"),
            ),
            DashboardPanel(
                "Journal",
                "stat",
                (Query("min(rebalancer_journal_good)"),),
                "Whether decisions are kept on disk.",
                width=4,
                words=_yes("written", "failing"),
            ),
            DashboardPanel(
                "Age of the plan",
                "stat",
                (Query("time() - max(rebalancer_plan_timestamp_seconds)"),),
                "Plans come every planning period, 10 s unless the policy says otherwise.",
                unit="s",
                width=4,
            ),
        ),
    ),
    DashboardRow(
        "Who lacks what?",
        (
            DashboardPanel(
                "Unmet replicas",
                "timeseries",
                (
                    Query(
                        'max by (model) (rebalancer_unmet_replicas{model=~"$model"}) > 0',
                        "{{model}}",
                        "every model has what it needs",
                    ),
                ),
                "Replicas a model needs and does not have.",
            ),
            DashboardPanel(
                "Above the floor",
                "timeseries",
                (
                    Query(
                        'sum by (model) (max by (model, state) (rebalancer_model_replicas{state=~"ready|loading",'
                        'model=~"$model"}))'
                        ' - max by (model) (rebalancer_model_replicas{state="floor",model=~"$model"})',
                        "{{model}}",
                    ),
                ),
                "Replicas ready or loading beyond the floor; below 0 the floor is at risk.",
            ),
            DashboardPanel(
                "On nodes under notice, not replaced",
                "timeseries",
                (Query('max by (model) (rebalancer_notice_unreplaced_replicas{model=~"$model"})', "{{model}}"),),
                "Replicas that go with their node and beside which no replacement has been asked for.",
            ),
            DashboardPanel(
                "Blind models",
                "timeseries",
                (Query('sum(max by (model) (rebalancer_model_blind{model=~"$model"}))', "blind"),),
                "Models of which no signal has a usable vote.",
            ),
            DashboardPanel(
                "Seconds until a node under notice goes",
                "timeseries",
                (
                    Query(
                        'min by (model) (rebalancer_notice_left_seconds{model=~"$model"})',
                        "{{model}}",
                        "none has a deadline",
                    ),
                ),
                "For the first node that takes replicas with it which nothing replaces.",
                unit="s",
            ),
            DashboardPanel(
                "Foreign writers",
                "timeseries",
                (Query('max by (model) (rebalancer_foreign_writer{model=~"$model"})', "{{model}}"),),
                "1 while the rebalancer stands down on an object because somebody else keeps writing it.",
            ),
        ),
    ),
    DashboardRow(
        "Who holds which GPU?",
        (
            DashboardPanel(
                "GPUs of a pool",
                "timeseries",
                (
                    Query(
                        'max by (pool, state) (rebalancer_pool_gpus{pool=~"$pool",'
                        'state=~"owned|lent|loading|doomed|foreign|closed|free"})',
                        "{{pool}} {{state}}",
                    ),
                ),
                "Each GPU is in one of these states.",
                width=12,
            ),
            DashboardPanel(
                "Promised and budget",
                "timeseries",
                (
                    Query(
                        'max by (pool, state) (rebalancer_pool_gpus{pool=~"$pool",state=~"budget|promised"})',
                        "{{pool}} {{state}}",
                    ),
                ),
                "What targets ask for, and what may be used.",
                width=12,
            ),
            DashboardPanel(
                "Demand, granted, ready",
                "timeseries",
                (
                    Query(
                        'max by (model, state) (rebalancer_model_replicas{model=~"$model",'
                        'state=~"demand|granted|ready"})',
                        "{{model}} {{state}}",
                    ),
                ),
                "A demand that is unknown is absent.",
                width=12,
            ),
            DashboardPanel(
                "Lent and borrowed",
                "timeseries",
                (
                    Query(
                        'max by (model, state) (rebalancer_model_replicas{model=~"$model",state=~"lent|borrowed"})',
                        "{{model}} {{state}}",
                    ),
                ),
                "Replicas on somebody else's GPUs, and whose they are.",
                width=12,
            ),
        ),
    ),
    DashboardRow(
        "What did it do or refuse?",
        (
            DashboardPanel(
                "Changes",
                "timeseries",
                (
                    Query(
                        "sum by (kind, status) (increase(rebalancer_changes_total[5m])) > 0",
                        "{{kind}} {{status}}",
                        NEVER,
                    ),
                ),
                "In five minutes, by what became of them; shadow: would have been written.",
            ),
            DashboardPanel(
                "Refusals of the last plan",
                "timeseries",
                (Query("max by (guard) (rebalancer_refusals)", "{{guard}}"),),
                "Moves that guards declined.",
            ),
            DashboardPanel(
                "Overrides",
                "timeseries",
                (Query("max by (kind) (rebalancer_overrides)", "{{kind}}"),),
                "People's decisions that have not ended.",
            ),
        ),
    ),
    DashboardRow(
        "Is what it knows good?",
        (
            DashboardPanel(
                "Inputs per second",
                "timeseries",
                (Query("sum by (result) (rate(rebalancer_input_total[1m]))", "{{result}}"),),
                "Records, samples and objects, by what became of them.",
            ),
            DashboardPanel(
                "Rejected records",
                "timeseries",
                (Query("sum by (reason) (increase(rebalancer_rejected_records_total[5m])) > 0", "{{reason}}", NEVER),),
                "In five minutes; the dead-letter topic keeps them.",
            ),
            DashboardPanel(
                "Progress of topics",
                "timeseries",
                (
                    Query("max by (topic) (rebalancer_consumer_stuck_seconds)", "{{topic}} stands still"),
                    Query("max by (topic) (rebalancer_consumer_behind_seconds) > 2", "{{topic}} is behind", NEVER),
                ),
                "How long the worst partition has stood still, or how long ago it ended where it is read to.",
                unit="s",
            ),
            DashboardPanel(
                "Sources not listed or silent",
                "timeseries",
                (Query("min by (source) (rebalancer_source_good) == 0", "{{source}}", "every source is fresh"),),
                "While there is one, nothing is released.",
            ),
            DashboardPanel(
                "Prometheus as a second source",
                "timeseries",
                (Query("sum by (result) (rate(rebalancer_prometheus_polls_total[5m]))", "{{result}}"),),
                "Polls per second; a poll that fails has no say.",
            ),
            DashboardPanel(
                "What we cost Prometheus",
                "timeseries",
                (
                    Query("sum(rate(rebalancer_prometheus_query_seconds_total[5m]))", "seconds a second"),
                    Query("sum(rate(rebalancer_prometheus_query_samples_total[5m])) / 1e6", "million samples a second"),
                    Query("sum(rate(rebalancer_prometheus_queries_total[5m]))", "questions a second"),
                ),
                "One question is open at a time.",
            ),
            DashboardPanel(
                "Kubernetes API errors",
                "timeseries",
                (Query("sum by (kind) (rate(rebalancer_kubernetes_errors_total[5m]))", "{{kind}}"),),
                "Failed calls per second, by what the failure means.",
            ),
        ),
    ),
    DashboardRow(
        "Is it quick?",
        (
            DashboardPanel(
                "Cycle, 99th percentile",
                "timeseries",
                (
                    Query("histogram_quantile(0.99, sum by (le) (rate(rebalancer_cycle_seconds_bucket[5m])))", "cycle"),
                    Query("sum(rate(rebalancer_cycles_total[5m]))", "cycles per second"),
                ),
                "Duration of a cycle, writes included; and how often one runs.",
                unit="s",
            ),
            DashboardPanel(
                "Event loop lag, 99th percentile",
                "timeseries",
                (
                    Query(
                        "histogram_quantile(0.99, sum by (le) (rate(rebalancer_event_loop_lag_seconds_bucket[5m])))",
                        "lag",
                    ),
                ),
                "How late whoever waits is woken.",
                unit="s",
            ),
            DashboardPanel(
                "Records to Kafka per second",
                "timeseries",
                (Query("sum by (result) (rate(rebalancer_kafka_sends_total[5m]))", "{{result}}"),),
                "Decisions, state and dead letters.",
            ),
        ),
    ),
    *WORKLOAD_ROWS,
)
