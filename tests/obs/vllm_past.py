"""The past of vLLM's pods as its exporters would have told it, in OpenMetrics with timestamps: made up, not recorded.

Names and labels are those of the recorded expositions in ../shared/artefacts/metrics (vllm-0.7-v0-captured-full.txt,
dcgm-exporter-*.txt); values are made: a day's wave, whose GPUs are busy by as much as the engine's slots are.
"""

import math
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TextIO

import pytest

from tests.testbed.build import Missing
from tests.testbed.system import program

DAY_SECONDS = 86_400.0
SLOTS = 32.0
SECONDS_PER_REQUEST = 4.0
TOKENS = 200.0
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
TTFT_SECONDS = 0.3  # of every request: all of them in the bucket 0.25 to 0.5


class PastPod(NamedTuple):
    """One pod: `running` requests are in work on the average, half of that at night and as much more at noon."""

    namespace: str
    name: str
    model: str
    running: float
    since: float = 0.0

    def in_work(self, at: float) -> float:
        """Requests in work at an instant: whole ones."""
        return float(round(self.running * (1.0 - 0.5 * math.cos(2 * math.pi * at / DAY_SECONDS))))

    def finished(self, at: float) -> float:
        """Requests finished since the epoch's day begins, by Little's law: the wave's integral."""
        turn = 2 * math.pi / DAY_SECONDS
        return self.running / SECONDS_PER_REQUEST * ((at % 1e7) - 0.5 / turn * math.sin(turn * at))


Exposition = Callable[[PastPod, float, str], Iterator[tuple[str, str, float]]]
"""(family, labels, value) of all that a pod's exporters tell at an instant; each label set begins with the third."""


def exposition(pod: PastPod, at: float, labels: str = "") -> Iterator[tuple[str, str, float]]:
    """(family, labels, value) of all that its exporters tell at an instant."""
    engine = f'{labels}model_name="{pod.model}"'
    running, finished = pod.in_work(at), pod.finished(at)
    yield "vllm:num_requests_running", engine, running
    yield "vllm:num_requests_waiting", engine, 0.0
    yield "vllm:gpu_cache_usage_perc", engine, running / SLOTS
    yield "vllm:prompt_tokens_total", engine, 5 * TOKENS * finished
    yield "vllm:generation_tokens_total", engine, TOKENS * finished
    yield "vllm:request_success_total", f'{engine},finished_reason="stop"', finished
    yield "process_start_time_seconds", labels.rstrip(","), pod.since
    for bucket in (*BUCKETS, math.inf):
        le = "+Inf" if math.isinf(bucket) else f"{bucket}"
        count = finished if bucket >= TTFT_SECONDS else 0.0
        yield "vllm:time_to_first_token_seconds_bucket", f'{engine},le="{le}"', count
    device = f'{labels}gpu="0",modelName="NVIDIA A100-SXM4-80GB"'
    yield "DCGM_FI_DEV_GPU_UTIL", device, 100 * min(1.0, running / SLOTS)
    yield "DCGM_FI_DEV_FB_USED", device, 70_000.0
    yield "DCGM_FI_DEV_FB_FREE", device, 10_000.0


def text(pod: PastPod, at: float, tells: Exposition = exposition) -> str:
    """What a scrape of the pod gets."""
    return "".join(f"{family}{{{labels}}} {value}\n" for family, labels, value in tells(pod, at, ""))


def write_past(  # what was scraped, when, of whom, and what they told
    folder: Path,
    pods: Sequence[PastPod],
    begin: float,
    end: float,
    step_seconds: float,
    instance: str = "engine:8000",
    tells: Exposition = exposition,
) -> None:
    """Blocks of a Prometheus in `folder`/tsdb; skips the test where there is no promtool. Blocks.

    `instance`: HOST:PORT of the exporters; one that is scraped later goes on with the same series.
    """
    try:
        promtool = program("promtool")
    except Missing as missing:
        pytest.skip(str(missing))
    families = folder / "families"  # a week of 40 pods is 6 million lines: on disk, since a format wants them together
    families.mkdir()
    with ExitStack() as files:
        by_family: dict[str, TextIO] = {}
        for pod in pods:
            labels = f'namespace="{pod.namespace}",pod="{pod.name}",instance="{instance}",job="vllm",'
            at = max(begin, pod.since)
            while at <= end:
                for family, named, value in tells(pod, at, labels):
                    if family not in by_family:
                        by_family[family] = files.enter_context((families / str(len(by_family))).open("w"))
                    by_family[family].write(f"{family}{{{named}}} {value} {at:.0f}\n")
                at += step_seconds
    with (folder / "past").open("wb") as file:
        for one in families.iterdir():
            with one.open("rb") as lines:
                shutil.copyfileobj(lines, file)
        file.write(b"# EOF\n")
    shutil.rmtree(families)
    # It reads the whole file once for each block: of two hours by default, which are 84 times for a week.
    blocks = f"--max-block-duration={math.ceil(end - begin)}s"
    command = [str(promtool), "tsdb", "create-blocks-from", blocks, "openmetrics", "past", "tsdb"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603  our own command
    (folder / "past").unlink()
