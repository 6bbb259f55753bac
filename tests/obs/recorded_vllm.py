"""A pod of vLLM 0.7 whose exporters tell what was recorded: every series and label of it, moved by the pod's load.

The engine's is `vllm-0.7-v0-captured-full.txt` of ../shared/artefacts/metrics. It ends at the histogram of tokens a
step: it has no time to the first token and no start of its process. An idle engine told it, so gauges of the load are
at the load's value and all others as recorded. What is counted grows by what was recorded of its four requests, once
for each four that the load ends. The GPU's is the whole card of `dcgm-exporter-mig-a100-captured.txt`, with the labels
of a pod that dcgm-exporter adds, which no file has.
"""

import re
from collections.abc import Iterator
from functools import cache

from tests import beside
from tests.obs.vllm_past import SLOTS, PastPod

ENGINE, CARD = "vllm-0.7-v0-captured-full.txt", "dcgm-exporter-mig-a100-captured.txt"
OF_AN_INSTANCE = "GPU_I_PROFILE"  # label of a MIG instance, which has series beside its card's
RECORDED_MODEL = 'model_name="Qwen/Qwen2.5-Coder-1.5B-Instruct"'
RECORDED_REQUESTS = 4.0  # as its request_success_total says
SERIES = re.compile(r"(?P<name>[\w:]+)\{(?P<labels>.*)\} (?P<value>\S+)")
COUNTS = ("_total", "_total_sum", "_total_bucket")


def told(pod: PastPod, at: float, labels: str = "") -> Iterator[tuple[str, str, float]]:
    """(family, labels, value) of all that its exporters tell at an instant."""
    busy = min(1.0, pod.in_work(at) / SLOTS)
    load = {
        "vllm:num_requests_running": pod.in_work(at),
        "vllm:gpu_cache_usage_perc": busy,
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": busy,
    }
    for name, recorded_labels, value in (*recorded(ENGINE), *recorded(CARD)):
        theirs = labels + recorded_labels.replace(RECORDED_MODEL, f'model_name="{pod.model}"')
        if OF_AN_INSTANCE in theirs:
            continue
        counted = name.endswith(COUNTS)
        yield name, theirs, value * pod.finished(at) / RECORDED_REQUESTS if counted else load.get(name, value)


@cache
def recorded(file: str) -> tuple[tuple[str, str, float], ...]:
    """(name, labels, value) of each series of an exposition; skips the test where the artefacts are not."""
    text = (beside.folder("artefacts", "REBALANCER_ARTEFACTS") / "metrics" / file).read_text()
    every = (SERIES.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))
    return tuple((each["name"], each["labels"], float(each["value"])) for each in every if each is not None)
