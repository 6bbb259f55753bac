"""The metrics of cycles: how often one is due, and how many failed."""

from rebalancer.obs.metrics.metric import GAUGE, Label, Metric

POOL = Label("pool", of="the policy's pools")

CYCLES = (
    Metric("rebalancer_plan_every_seconds", GAUGE, "The policy's planning period; absent without a policy.", "seconds"),
    Metric("rebalancer_failed_cycles_in_a_row", GAUGE, "Cycles since the last one that planned, all failed.", "cycles"),
    Metric(
        "rebalancer_pool_failed_cycles_in_a_row",
        GAUGE,
        "Cycles since the last one that planned the pool; they planned others, and failed on it.",
        "cycles",
        (POOL,),
    ),
)
