"""What the dashboard asks about the workloads themselves, of what their exporters tell, and about their cost.

`empty` says which exporter a Prometheus lacks that has no answer.
"""

from rebalancer.obs.metrics.exporters import (
    DEGREES,
    MEMORY_USE,
    PENDING,
    WAITING,
    WATTS,
    first_token,
    gpu_nodes,
    gpu_use,
    of_gpu,
)
from rebalancer.obs.metrics.panel import NEVER, DashboardPanel, DashboardRow, Query

NO_DCGM = "Prometheus scrapes no dcgm-exporter"
NO_ENGINE = "Prometheus scrapes no engine that tells it"
NO_STATE = "Prometheus scrapes no kube-state-metrics"
NO_PRICE = "no pool of the policy has a pricePerGpuHour"
GPU = "{{hostname}} GPU {{gpu}} {{namespace}}/{{pod}}"
COST = "rebalancer_gpu_cost_usd_total"
BEFORE = "offset 5m"


def _cost(by: str, span: str, states: str = "") -> str:
    return f"sum by ({by}) (increase({COST}{states}[{span}]))"


WORKLOAD_ROWS: tuple[DashboardRow, ...] = (
    DashboardRow(
        "How do requests fare, and what do the GPUs do?",
        (
            DashboardPanel(
                "Latency by model",
                "timeseries",
                (
                    Query(
                        'max by (model) (rebalancer_model_latency_seconds{model=~"$model"})',
                        "{{model}} p95",
                        "no model's latency is known",
                    ),
                    Query(
                        'max by (model) (rebalancer_model_slo_seconds{model=~"$model"})',
                        "{{model}} SLO",
                        "no model of the policy has an SLO",
                    ),
                ),
                "95th percentile of the worst replica, as it is planned by, beside what was promised.",
                unit="s",
            ),
            DashboardPanel(
                "Time to the first token, 99th percentile",
                "timeseries",
                (Query(first_token(0.99, "5m"), "{{namespace}} {{model_name}}", NO_ENGINE),),
                "Of vLLM's and SGLang's histograms, over all replicas. At the last bucket's bound the truth is more.",
                unit="s",
            ),
            DashboardPanel(
                "GPU use by workload",
                "timeseries",
                (Query(f"avg by (namespace, pod) ({of_gpu(gpu_use('5m'))})", "{{namespace}}/{{pod}}", NO_DCGM),),
                "Share of the last five minutes in which anything ran; an engine with one request says nearly as much "
                "as one with a hundred.",
                unit="percentunit",
            ),
            DashboardPanel(
                "Requests that wait",
                "timeseries",
                (Query(WAITING, "{{namespace}}/{{pod}}", NO_ENGINE),),
                "By replica, as the engines tell it.",
            ),
            DashboardPanel(
                "Pods that wait for GPUs",
                "timeseries",
                (Query(f"count by (namespace, reason) ({PENDING})", "{{namespace}} {{reason}}", "every pod runs"),),
                "By the reason that Kubernetes gives; needs kube-state-metrics.",
            ),
            DashboardPanel(
                "Nodes with GPUs that came and went",
                "timeseries",
                (
                    Query(f"count({gpu_nodes()})", "there are", NO_STATE),
                    Query(f"count({gpu_nodes()} unless {gpu_nodes(BEFORE)})", "came", NEVER),
                    Query(f"count({gpu_nodes(BEFORE)} unless {gpu_nodes()})", "went", NEVER),
                ),
                "Within five minutes.",
            ),
        ),
    ),
    DashboardRow(
        "What does each GPU do?",
        (
            DashboardPanel(
                "Use by node and pod",
                "timeseries",
                (Query(of_gpu(gpu_use("5m")), GPU, NO_DCGM),),
                "Share of the last five minutes in which anything ran on the GPU, or on an instance of it.",
                unit="percentunit",
                width=12,
            ),
            DashboardPanel(
                "Memory by node and pod",
                "timeseries",
                (Query(of_gpu(MEMORY_USE), GPU, NO_DCGM),),
                "Used, of used and free. vLLM takes about 90 % when it starts.",
                unit="percentunit",
                width=12,
            ),
            DashboardPanel(
                "Temperature by node and pod",
                "timeseries",
                (Query(of_gpu(DEGREES), GPU, NO_DCGM),),
                "Above 85 degrees GPUs begin to throttle.",
                unit="celsius",
                width=12,
            ),
            DashboardPanel(
                "Power by node and pod",
                "timeseries",
                (Query(of_gpu(WATTS), GPU, NO_DCGM),),
                "What each GPU draws.",
                unit="watt",
                width=12,
            ),
        ),
    ),
    DashboardRow(
        "What does it cost?",
        (
            DashboardPanel(
                "Cost of the last hour, by team",
                "timeseries",
                (Query(_cost("team", "1h"), "{{team}}", NO_PRICE),),
                "At the policy's pricePerGpuHour; without a team: free, foreign or unknown. `rebalancer report` "
                "has the bill that adds up, restarts included.",
                unit="currencyUSD",
            ),
            DashboardPanel(
                "Cost of the last day, by team",
                "timeseries",
                (Query(_cost("team", "1d"), "{{team}}", NO_PRICE),),
                "The same over 24 hours.",
                unit="currencyUSD",
            ),
            DashboardPanel(
                "Cost of the last hour, by what the GPUs did",
                "timeseries",
                (Query(_cost("state", "1h"), "{{state}}", NO_PRICE),),
                "What owned-idle and free cost is what could be spared.",
                unit="currencyUSD",
            ),
        ),
    ),
)
