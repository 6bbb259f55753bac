"""The alert rules, symptom first: what hurts users, then what blinds or stops us, then the GPUs themselves.

Each says what is affected, with numbers; what to do is in the runbook of its name.
"""

from rebalancer.obs.metrics.alert import CRITICAL, INFO, WARNING, Alert
from rebalancer.obs.metrics.workload_alerts import WORKLOAD_ALERTS


def _figure(series: str, words: str = "VALUE") -> str:
    """In a description: `words` with the present value of a series of the alert's model, nothing where there is none.

    A second label goes in after `%q`.
    """
    shown = words.replace("VALUE", "{{ . | first | value }}")
    return f'{{{{ with printf "{series}" $labels.model | query }}}}{shown}{{{{ end }}}}'


FLOOR = _figure(r"rebalancer_model_replicas{model=%q,state=\"floor\"}")
SHORT_SECONDS = _figure("rebalancer_unmet_seconds{model=%q}").replace("value", "value | humanizeDuration")
FIRST_GOES = _figure("rebalancer_notice_left_seconds{model=%q}", " The first of these nodes goes in VALUE s.")
REPLICAS = "{{ $value }} replica{{ if ne $value 1.0 }}s{{ end }}"  # a count with its noun
FOREIGN_CHANGES = _figure("rebalancer_foreign_changes_total{model=%q}")
PLANLESS = "time() - (rebalancer_plan_timestamp_seconds or rebalancer_start_timestamp_seconds)"
# Whatever else a scrape adds tells one service from another: a name that is missing here splits one in two, and one too
# many in a list of those to keep would hide a cluster without a leader behind another one.
_OF_A_REPLICA = (
    "instance, pod, pod_name, kubernetes_pod_name, pod_ip, host_ip, uid, pod_template_hash, container, endpoint"
)
OF_ONE_SERVICE = f"without ({_OF_A_REPLICA}, node, node_name, kubernetes_node, hostname, host)"

ALERTS: tuple[Alert, ...] = (
    Alert(
        "RebalancerFloorAtRisk",
        CRITICAL,
        'sum without (state) (rebalancer_model_replicas{state=~"ready|loading"})\n'
        '  < sum without (state) (rebalancer_model_replicas{state="floor"})',
        "1m",
        "A model has fewer replicas than its floor.",
        f"Model {{{{ $labels.model }}}} is under its floor of {FLOOR}: it has {REPLICAS}, Ready or loading; "
        "`rebalancer explain {{ $labels.model }}` says why.",
    ),
    Alert(
        "RebalancerUnmetDemand",
        WARNING,
        "rebalancer_unmet_replicas > 0 and rebalancer_unmet_seconds > 600",
        "2m",
        "A model has been short of replicas for more than 10 minutes.",
        f"Model {{{{ $labels.model }}}} has been short of {REPLICAS} for {SHORT_SECONDS}: requests are late, "
        "or will be. `rebalancer explain {{ $labels.model }}` says what it waits for.",
    ),
    Alert(
        "RebalancerNoticeWithoutReplacement",
        CRITICAL,
        "rebalancer_notice_unreplaced_replicas > 0 and on (model) rebalancer_unmet_replicas > 0",
        "30s",
        "Replicas are about to go with their node and nothing replaces them.",
        f"Model {{{{ $labels.model }}}} has {REPLICAS} on nodes under notice, and nothing is on its way to "
        f"replace them.{FIRST_GOES}",
    ),
    Alert(
        "RebalancerBlind",
        WARNING,
        "rebalancer_model_blind == 1",
        "5m",
        "A model's demand is unknown.",
        "No signal of model {{ $labels.model }} has had a usable vote for 5 minutes: it keeps what it has, and gets no "
        "more when its load rises.",
    ),
    Alert(
        "RebalancerForeignWriter",
        WARNING,
        "rebalancer_foreign_writer == 1",
        "0s",
        "Somebody else keeps writing what the rebalancer writes.",
        "Somebody else changed what the rebalancer writes for model {{ $labels.model }}: "
        f"{FOREIGN_CHANGES} times since its start, two or more of them within 10 minutes. It stands down "
        "there and writes nothing until they agree.",
    ),
    Alert(
        "RebalancerBudgetUnknown",
        WARNING,
        "rebalancer_pool_budget_known == 0",
        "5m",
        "A pool's budget is unknown.",
        "No node of pool {{ $labels.pool }} has been seen for 5 minutes while pods run there: nothing is released or "
        "granted in it.",
    ),
    Alert(
        "RebalancerDown",
        CRITICAL,
        f"absent(rebalancer_build_info)\n  or {PLANLESS} > 180 unless {PLANLESS} <= 3 * rebalancer_plan_every_seconds",
        "2m",
        "Nobody rebalances.",
        "{{ with $labels.instance }}The rebalancer at {{ . }} has made no plan for {{ $value | humanizeDuration }}."
        "{{ else }}Prometheus has seen no rebalancer for 2 minutes.{{ end }}",
    ),
    Alert(
        "RebalancerNotLeading",
        CRITICAL,
        f"count {OF_ONE_SERVICE} (rebalancer_leading)\n  unless max {OF_ONE_SERVICE} (rebalancer_leading) == 1",
        "1m",
        "No replica of the service may act.",
        f"{REPLICAS} of the rebalancer run, and none leads, so nothing is written: no model's replica moves, not even "
        "away from nodes under notice.",
    ),
    Alert(
        "RebalancerTwoLead",
        CRITICAL,
        f"sum {OF_ONE_SERVICE} (rebalancer_leading) > 1",
        "1m",
        "Two of the service write at once.",
        f"{REPLICAS} of the rebalancer write at once, each by its own plans: they move the same models, and what one "
        "writes the other takes for a stranger's.",
    ),
    Alert(
        "RebalancerFailedOver",
        INFO,
        f"count {OF_ONE_SERVICE} (max_over_time(rebalancer_leading[15m]) == 1) > 1\n"
        f"  unless sum {OF_ONE_SERVICE} (rebalancer_leading) > 1",
        "0s",
        "Another replica of the service acts since less than 15 minutes.",
        "{{ $value }} replicas of the rebalancer have led within 15 minutes, one after the other: a leader ended, in "
        "order or not. It takes nothing from any model before it has seen the whole cluster.",
    ),
    Alert(
        "RebalancerCyclesFailing",
        CRITICAL,
        "rebalancer_failed_cycles_in_a_row >= 2\n  or rebalancer_pool_failed_cycles_in_a_row >= 2",
        "30s",
        "Cycle after cycle fails, for a pool or for all, and nothing is planned there.",
        "{{ $value }} cycles in a row failed{{ with $labels.pool }} on pool {{ . }}{{ end }}"
        "{{ with $labels.instance }} at {{ . }}{{ end }}: no replica moves{{ with $labels.pool }} there{{ end }}, not "
        "even away from nodes under notice.",
    ),
    Alert(
        "RebalancerCheckpointOld",
        WARNING,
        "rebalancer_checkpoint_age_seconds > 300\n"
        "  unless rebalancer_checkpoint_age_seconds <= 3 * rebalancer_checkpoint_every_seconds",
        "2m",
        "What a restart must find again has not been kept.",
        "Kafka has acknowledged no checkpoint{{ with $labels.instance }} of {{ . }}{{ end }} for "
        "{{ $value | humanizeDuration }}: a restart would hold back until it knows again what it knew.",
    ),
    Alert(
        "RebalancerNotSynced",
        WARNING,
        "rebalancer_synced == 0",
        "3m",
        "The rebalancer does not see the whole cluster.",
        "Nothing is released while these sources are not listed or silent:"
        '{{ range query "rebalancer_source_good == 0" }} {{ .Labels.source }}{{ end }}.',
    ),
    Alert(
        "RebalancerConsumerStuck",
        CRITICAL,
        "rebalancer_consumer_stuck_seconds > 60",
        "1m",
        "Kafka records are not read.",
        "Topic {{ $labels.topic }} has made no progress for {{ $value | humanizeDuration }}: "
        "metrics, notices or overrides in it are not seen.",
    ),
    Alert(
        "RebalancerConsumerBehind",
        WARNING,
        "rebalancer_consumer_behind_seconds - rebalancer_consumer_stuck_seconds > 120",  # standing still is the other's
        "2m",
        "Kafka records are read, and late.",
        "Topic {{ $labels.topic }} is read to where it ended {{ $value | humanizeDuration }} ago: more comes than is "
        "read, or a backlog is being read. Demand, notices and overrides in it are known so much later.",
    ),
    Alert(
        "RebalancerNoticeQueueUnread",
        WARNING,
        "rebalancer_notice_queue_good == 0",
        "5m",
        "The queue of notices is not read.",
        "{{ with $labels.instance }}{{ . }}{{ else }}The rebalancer{{ end }} takes no message from its queue of "
        "notices: of nodes that go it hears by signs on them alone, mostly later. `rebalancer status` says why, as "
        "notice-queue.",
    ),
    Alert(
        "RebalancerJournalFailing",
        WARNING,
        "rebalancer_journal_good == 0",
        "2m",
        "The local journal cannot be written.",
        "Decisions of {{ with $labels.instance }}{{ . }}{{ else }}the rebalancer{{ end }} are not kept on its disk: "
        "they cannot be replayed, and drains and overrides wait for Kafka.",
    ),
    Alert(
        "RebalancerPolicyRefused",
        WARNING,
        "rebalancer_policy_good == 0",
        "1m",
        "The policy file is refused, or some of its entries are; their last good forms stay in force.",
        "What changed in the policy file, or in entries of it, has no effect until its problems are mended. "
        "`rebalancer status` names the entries.",
    ),
    Alert(
        "RebalancerWritesStopped",
        WARNING,
        "rebalancer_write_stopped == 1",
        "15m",
        "Writes are stopped, and have been for 15 minutes.",
        "A WriteStop is in place: no replica moves, not even away from nodes under notice. It has no expiry.",
    ),
    Alert(
        "RebalancerObjectsPinned",
        WARNING,
        'rebalancer_pinned_objects{state=~"departed|unnamed"} > 0\n'
        "or (\n"
        '  rebalancer_pinned_objects{state="held"} > 0\n'
        '  and on (instance) rebalancer_build_info{write_mode="shadow"} == 1\n'
        ")",
        "10m",
        "Autoscalers or NodePools are left with values that a rebalancer wrote.",
        "{{ $value }} objects ({{ $labels.state }}) have carried bounds or limits of a rebalancer's for 10 minutes, "
        "and nothing moves them past those.",
    ),
    *WORKLOAD_ALERTS,
)

RUNBOOKS = "RUNBOOK_URL"

_HEAD = f"""\
# Written by `python -m rebalancer.generate` from rebalancer/obs/metrics/alerts.py; do not edit.
#
# {RUNBOOKS} stands for the address of the runbooks. The chart puts its value prometheusRule.runbookUrl there and does
# not render the file as a template, because descriptions hold Prometheus' own braces.
# Without the chart: sed s,{RUNBOOKS},https://example.com/runbooks, charts/rebalancer/files/alerts.yaml
"""


def rules_text() -> str:
    """Prometheus' rule file: the `spec` of a PrometheusRule."""
    lines = [_HEAD + "groups:", "  - name: rebalancer", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            "        expr: |-",
            *(f"          {line}" for line in alert.expr.splitlines()),
            f"        for: {alert.hold}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {alert.summary}",
            "          description: >-",
            f"            {alert.description}",
            f"          runbook_url: {RUNBOOKS}/{alert.name}.md",
        ]
    return "\n".join(lines) + "\n"
