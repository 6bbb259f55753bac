"""Every metric there is: name, kind, help, labels with what bounds them, unit. Nothing else is exposed.

Base units (seconds, replicas, GPUs); `_total` on counters and only there. A label value comes from a closed set of
words or from the policy: names that come in from outside never become labels.
"""

from rebalancer.domain.account import DRAINERS
from rebalancer.domain.cluster import CLOCK, READINGS, SOURCES
from rebalancer.domain.outcome import FAILED, REFUSED, SHADOW, UNKNOWN, WRITTEN
from rebalancer.domain.pinned import STATES
from rebalancer.domain.starts import KINDS, MIDDLE, SLOW
from rebalancer.ledger.states import STATES as LEDGER_STATES
from rebalancer.obs.metrics.metric import COUNTER, GAUGE, HISTOGRAM, Label, Metric
from rebalancer.obs.metrics.of_aggregate import AGGREGATE_ONLY
from rebalancer.obs.metrics.of_consumer import CONSUMER
from rebalancer.obs.metrics.of_cycles import CYCLES, POOL
from rebalancer.obs.metrics.of_notice_queue import NOTICE_QUEUE
from rebalancer.obs.metrics.of_prometheus import PROMETHEUS
from rebalancer.planning.guards.guards import EVERY_GUARD
from rebalancer.settings.entries import FORMS

MODEL = Label("model", of="the policy's models")
TEAM = Label("team", of="the policy's teams")
COST_CENTER = Label("cost_center", of="the policy's cost centers, of models without one their teams")
START_KIND = Label("kind", KINDS)
TARGETS = "targets"  # all kinds of targets but Deployments: which ones there are is the policy's to say
SOURCE = Label("source", (*SOURCES, TARGETS, READINGS, CLOCK))

MODEL_STATES = ("demand", "allocation", "granted", "ready", "loading", "doomed", "floor", "lent", "borrowed")
POOL_STATES = ("budget", "promised", "owned", "lent", "loading", "doomed", "foreign", "closed", "free")
CHANGES = (
    *("release", "grant", "replace", "settle", "withdraw", "bounds"),
    *("limit", "restore-limit", "hold", "end-hold"),
    *("cordon", "uncordon", "evict", "delete"),
)
INPUTS = (
    *("events", "tombstones", "ignored", "duplicates", "accepted", "duplicate", "late", "too-old", "time-ahead"),
    *("unknown-model", "unknown-pod", "older-than-pod", "worker-pod", "unbound-launcher"),
    *("unknown-source", "too-many-sources"),
    *("before-pods", "older-object"),
    *("too-many-notices", "unmatched-notice", "buried", "put-off", "resyncs", "unreadable", "reconnects"),
    *("orders-taken", "orders-put-off", "unmapped", "gaps"),
)
REASONS = (
    *("too-large", "not-cloudevent", "unsupported-content-type", "not-utf8", "not-json", "not-finite", "too-deep"),
    *("duplicate-key", "bad-envelope", "unknown-type", "no-time", "time-ahead", "invalid-data", "impossible-gauge"),
    *("unknown-gauge", "no-pod"),
    "stale",
    *("override-unsigned", "override-signature", "override-late", "override-refused", "not-applied"),
)
GAUGES = (
    *("running", "waiting", "kvCacheUse", "gpuUtilisation", "fbUsedMib", "fbFreeMib"),
    *("ttftP95Seconds", "latencyP95Seconds", "latencyP99Seconds"),
)
KUBE_ERRORS = (
    *("temporary", "ambiguous", "conflict", "gone", "silent"),
    *("notfound", "forbidden", "unauthorized", "invalid", "timeout"),
)

METRICS: tuple[Metric, ...] = (
    # --- the service
    Metric(
        "rebalancer_build_info",
        GAUGE,
        "Always 1; the labels say what runs.",
        "no unit",
        (
            Label("version", of="this build"),
            Label("python", of="this process"),
            Label("write_mode", ("shadow", "act")),
        ),
    ),
    Metric(
        "rebalancer_leader",
        GAUGE,
        "1 while this replica is the one that acts: the same as rebalancer_leading.",
        "0 or 1",
    ),
    Metric(
        "rebalancer_clock_step_seconds",
        GAUGE,
        "By how much this machine's clock was set since the service started, beyond the time that passed.",
        "seconds",
    ),
    Metric(
        "rebalancer_clock_offset_seconds",
        GAUGE,
        "How far the API server's clock is ahead of this machine's at the last reply; negative: behind.",
        "seconds",
    ),
    Metric("rebalancer_synced", GAUGE, "1 when every source is listed and fresh.", "0 or 1"),
    Metric("rebalancer_source_good", GAUGE, "1 when the source is listed and fresh.", "0 or 1", (SOURCE,)),
    Metric("rebalancer_write_stopped", GAUGE, "1 while a WriteStop exists.", "0 or 1"),
    Metric("rebalancer_policy_good", GAUGE, "1 when the policy file as it is now is in force.", "0 or 1"),
    Metric(
        "rebalancer_policy_entries_refused",
        GAUGE,
        "Entries of the policy file that are not in force as it has them. kept: wrong, its last good form is in force; "
        "left-out: wrong and new; stays: not in the file, and kept while the file has problems.",
        "entries",
        (Label("form", FORMS),),
    ),
    Metric("rebalancer_journal_good", GAUGE, "1 when the local journal can be written.", "0 or 1"),
    Metric(
        "rebalancer_overrides",
        GAUGE,
        "Override objects that have not ended, by kind.",
        "overrides",
        (Label("kind", ("pause", "freeze", "pin", "cap", "floor", "drain", "exclude", "standUp")),),
    ),
    # --- the wheel
    Metric(
        "rebalancer_cycles_total",
        COUNTER,
        "Cycles run, by what became of them.",
        "cycles",
        (Label("result", ("ok", "failed")),),
    ),
    Metric(
        "rebalancer_cycle_seconds",
        HISTOGRAM,
        "Duration of a cycle, writes included.",
        "seconds",
        buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0),
    ),
    Metric(
        "rebalancer_event_loop_lag_seconds",
        HISTOGRAM,
        "How much later than asked a task was woken, looked at each second.",
        "seconds",
        buckets=(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0),
    ),
    Metric("rebalancer_start_timestamp_seconds", GAUGE, "When the service was started (Unix time).", "seconds"),
    Metric(
        "rebalancer_plan_timestamp_seconds", GAUGE, "Unix time of the last plan; absent before the first.", "seconds"
    ),
    *CYCLES,
    Metric(
        "rebalancer_skipped_outcomes_total",
        COUNTER,
        "Outcomes of writes that could not be remembered: their model left the policy, or nobody understands them.",
        "outcomes",
    ),
    Metric(
        "rebalancer_changes_total",
        COUNTER,
        "Changes by kind and by what became of them (shadow: would have been written; counted when the wish appears).",
        "changes",
        (Label("kind", CHANGES), Label("status", (WRITTEN, SHADOW, REFUSED, FAILED, UNKNOWN))),
    ),
    Metric(
        "rebalancer_pinned_objects",
        GAUGE,
        "Autoscalers and NodePools with values of a rebalancer's. held: ours, the policy names it; departed: ours, "
        "to be given back; unnamed: no installation's by name; other: another installation's, the policy names it.",
        "objects",
        (Label("state", STATES),),
    ),
    Metric(
        "rebalancer_refusals",
        GAUGE,
        "Moves that a guard declined in the last plan.",
        "moves",
        (Label("guard", EVERY_GUARD),),
    ),
    # --- models and pools
    Metric(
        "rebalancer_model_replicas",
        GAUGE,
        "Replicas of a model in the last plan; a figure that is unknown is absent. ready and loading leave out doomed.",
        "replicas",
        (MODEL, Label("state", MODEL_STATES)),
    ),
    Metric("rebalancer_unmet_replicas", GAUGE, "Replicas a model needs and does not have.", "replicas", (MODEL,)),
    Metric(
        "rebalancer_unmet_seconds", GAUGE, "How long a model has been short; 0 when it is not.", "seconds", (MODEL,)
    ),
    Metric(
        "rebalancer_model_blind",
        GAUGE,
        "1 while no signal of the model has a usable vote: demand is unknown.",
        "0 or 1",
        (MODEL,),
    ),
    Metric(
        "rebalancer_model_latency_seconds",
        GAUGE,
        "95th percentile of the latency of a model's worst replica, as it is planned by; absent while unknown.",
        "seconds",
        (MODEL,),
    ),
    Metric(
        "rebalancer_model_slo_seconds",
        GAUGE,
        "Latency that a model's users were promised; once for its id and for each alias, as engines' `model_name`.",
        "seconds",
        (MODEL, Label("model_namespace", of="namespaces of the policy"), Label("model_name", of="ids and aliases")),
    ),
    Metric(
        "rebalancer_pool_gpus",
        GAUGE,
        "GPUs of a pool in the last plan; a figure that is unknown is absent.",
        "GPUs",
        (POOL, Label("state", POOL_STATES)),
    ),
    Metric(
        "rebalancer_gpu_seconds_total",
        COUNTER,
        "GPU-seconds of a pool by who held them and how, each counted once; model, team and cost center are empty "
        "where no model held them. They add up to the pool's capacity times the time.",
        "seconds",
        (POOL, MODEL, TEAM, COST_CENTER, Label("state", LEDGER_STATES)),
    ),
    Metric(
        "rebalancer_gpu_cost_usd_total",
        COUNTER,
        "What they cost at the price that the policy named then; pools without a price are absent.",
        "USD",
        (POOL, MODEL, TEAM, COST_CENTER, Label("state", LEDGER_STATES)),
    ),
    Metric(
        "rebalancer_prediction_error_ratio",
        GAUGE,
        "Of the last UTC day that `rebalancer report --predictions` played: what was predicted with whoever was in "
        "charge less what came, over what came (of late requests at least one).",
        "ratio",
        (MODEL, Label("quantity", ("late-requests", "gpu-hours"))),
    ),
    Metric("rebalancer_pool_budget_known", GAUGE, "1 when the pool's budget is known.", "0 or 1", (POOL,)),
    Metric(
        "rebalancer_notice_action_seconds",
        HISTOGRAM,
        "From the plan that first saw a notice to the first write for it that was acknowledged.",
        "seconds",
        buckets=(0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0),
    ),
    Metric(
        "rebalancer_notice_replaced_seconds",
        HISTOGRAM,
        "From the plan that first saw a notice until its models had as many Ready replicas elsewhere as before.",
        "seconds",
        buckets=(15.0, 30.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1800.0),
    ),
    Metric(
        "rebalancer_notice_spare_seconds",
        HISTOGRAM,
        "From the end of the last replica on a node under notice to the deadline; below 0: it came too late.",
        "seconds",
        buckets=(-60.0, -20.0, 0.0, 5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 600.0),
    ),
    Metric(
        "rebalancer_notice_requests_in_flight",
        HISTOGRAM,
        "Requests in flight on the replicas of a node under notice when they ended, as last reported.",
        "requests",
        buckets=(0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0),
    ),
    Metric(
        "rebalancer_notice_drained_total",
        COUNTER,
        "Replicas that left nodes under notice, by who ended them.",
        "replicas",
        (Label("by", DRAINERS),),
    ),
    Metric(
        "rebalancer_notice_unreplaced_replicas",
        GAUGE,
        "Replicas on nodes under notice beside which no replacement has been asked for.",
        "replicas",
        (MODEL,),
    ),
    Metric(
        "rebalancer_notice_left_seconds",
        GAUGE,
        "Seconds until the first of those nodes goes, negative once it should be gone; absent when none has a deadline "
        "(a person's drain has none).",
        "seconds",
        (MODEL,),
    ),
    Metric(
        "rebalancer_starts_total",
        COUNTER,
        "Starts of replicas that were watched, by what was there; a wake that did not end is a cold one.",
        "starts",
        (MODEL, POOL, START_KIND),
    ),
    Metric(
        "rebalancer_start_seconds",
        GAUGE,
        "The last 20 starts, from a pod's creation to Ready: half of them, or nine of ten, took at most so long.",
        "seconds",
        (MODEL, POOL, START_KIND, Label("quantile", (str(MIDDLE), str(SLOW)))),
    ),
    Metric(
        "rebalancer_wake_failures_total",
        COUNTER,
        "Sleeping engines that were to be woken and were not Ready after three times the usual wake, at least 20 s.",
        "wakes",
        (MODEL,),
    ),
    Metric(
        "rebalancer_foreign_changes_total",
        COUNTER,
        "Changes that somebody else made to objects of the model that we write.",
        "changes",
        (MODEL,),
    ),
    Metric(
        "rebalancer_foreign_writer",
        GAUGE,
        "1 while we stand down on an object of the model because somebody else keeps writing it.",
        "0 or 1",
        (MODEL,),
    ),
    # --- what comes in
    Metric(
        "rebalancer_input_total",
        COUNTER,
        "Records, samples and objects, by what became of them; a word may count the same record at a later stage.",
        "inputs",
        (Label("result", INPUTS),),
    ),
    Metric(
        "rebalancer_rejected_records_total",
        COUNTER,
        "Kafka records that went to the dead-letter topic; of those with an impossible gauge the rest counts.",
        "records",
        (Label("reason", REASONS),),
    ),
    Metric(
        "rebalancer_unknown_node_signs",
        GAUGE,
        "Taints and conditions on nodes that look like notices and that no table knows; `status` names them.",
        "signs",
    ),
    Metric(
        "rebalancer_unusable_objects_total",
        COUNTER,
        "Kubernetes objects met that cannot be read; the last good state of each stands.",
        "objects",
        (SOURCE,),
    ),
    Metric(
        "rebalancer_impossible_gauges_total",
        COUNTER,
        "Gauges that cannot be (an exporter's blank, a ratio above 1) and were left out of their samples.",
        "gauges",
        (Label("source", ("kafka", "prometheus")), Label("gauge", GAUGES)),
    ),
    *CONSUMER,
    *PROMETHEUS,
    *NOTICE_QUEUE,
    # --- what goes out
    Metric(
        "rebalancer_leading",
        GAUGE,
        "1 when this replica acts; of all replicas one does, and none for some seconds after it died.",
        "0 or 1",
    ),
    Metric(
        "rebalancer_kafka_sends_total",
        COUNTER,
        "Records for Kafka (decisions, state, dead letters), by what became of them; dropped: no room left to wait in.",
        "records",
        (Label("result", ("acknowledged", "unacknowledged", "failed", "dropped")),),
    ),
    Metric(
        "rebalancer_checkpoint_age_seconds",
        GAUGE,
        "How long ago Kafka acknowledged the last checkpoint; before the first, how long ago the service was started. "
        "Absent while another replica leads.",
        "seconds",
    ),
    Metric("rebalancer_checkpoint_every_seconds", GAUGE, "How often memory is checkpointed, as set.", "seconds"),
    Metric(
        "rebalancer_checkpoint_failures_total",
        COUNTER,
        "Checkpoints, or parts of one, that Kafka did not acknowledge.",
        "checkpoints",
    ),
    Metric(
        "rebalancer_kubernetes_errors_total",
        COUNTER,
        "Calls to the Kubernetes API that failed, by what the failure means for the caller.",
        "calls",
        (Label("kind", KUBE_ERRORS),),
    ),
)

BY_NAME = {metric.name: metric for metric in (*METRICS, *AGGREGATE_ONLY)}

# What a process of the aggregate tier shows, and nothing else: of what goes in and out it tells as the service does.
AGGREGATE: tuple[Metric, ...] = (
    *AGGREGATE_ONLY,
    BY_NAME["rebalancer_input_total"],
    BY_NAME["rebalancer_rejected_records_total"],
    BY_NAME["rebalancer_kafka_sends_total"],
)
