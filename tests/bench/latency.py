"""From an event's first byte to Kafka until the API has answered the first /scale write that it causes.

The real `rebalancer run` in act mode reads 10 samples a second of each model; embedded broker, embedded Kubernetes API
and flood are processes of their own. Every event has its own model, so that it finds nothing done for it already.

Notices come to models with a look-ahead that have all they may have. Surges come to models that vote: with a look-ahead
those share out all free GPUs beforehand (of 15 replicas wanted each has 14), and a surge alone moves none.
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rebalancer.kafka.broker import Broker
from rebalancer.sandbox.producer import Producer
from tests.bench import journal
from tests.bench.children import Child, child
from tests.bench.processes import busy_seconds, resident_mib
from tests.bench.scale import GPUS_PER_NODE, REPLICAS, Scale
from tests.bench.timing import percentile
from tests.bench.voices import CALM, Voice, pod_record, speak_past
from tests.testbed.place import answers
from tests.testbed.process import Process, Reaper, free_port

PAST_SECONDS, PAST_INTERVAL_SECONDS = 320, 20  # the surge's long window is 300 s
BURST = 15.0  # times as many requests: after one second of it a window of 15 s is 1.9 times its level
APART_SECONDS = (1.0, 1.5)  # so that events do not march in step with the planning period
ANSWER_SECONDS = 10.0
LONGEST_SECONDS = 180.0  # on a machine that answers late, fewer events say the same
READY_SECONDS = 180.0  # a policy of 1,000 models takes a while to read on a busy machine
MOST_REPLICAS = REPLICAS + GPUS_PER_NODE
STRIDE = 4  # models from one event's to the next of its kind; so a node, with 8 of its 10 pods, is one model's


@dataclass(frozen=True, slots=True)
class Latency:
    """Answers to events of one kind, and how many had none; `flood`: samples per second beside them.

    `resident`: MiB of the service; `cores`: how many it kept busy.
    """

    kind: str
    answers: tuple[journal.Answer, ...]
    missed: int
    flood: float
    resident: float
    cores: float

    @property
    def events(self) -> int:
        """How many were sent."""
        return len(self.answers) + self.missed

    def milliseconds(self, share: float) -> float:
        """One without an answer counts for as long as it was waited for."""
        seconds = [each.seconds for each in self.answers] + [ANSWER_SECONDS] * self.missed
        return percentile(seconds, share) * 1e3

    def split_ms(self) -> dict[str, float]:
        """Median milliseconds per step."""
        steps = {
            "to Kafka and into a cycle": [each.looked - each.sent for each in self.answers],
            "look, plan, journal": [each.intended - each.looked for each in self.answers],
            "gate with reads and write": [each.called - each.intended for each in self.answers],
        }
        return {name: percentile(seconds, 0.5) * 1e3 for name, seconds in steps.items() if seconds}


async def latency(kind: str, scale: Scale, events: int, warm_up_seconds: float) -> Latency:
    """`events` of the kind `notice` or `surge`, one after the other; fewer where they take too long."""
    folder = Path(tempfile.mkdtemp(prefix="rebalancer-bench-"))
    reaper = Reaper(scrap=folder)  # ends the service and removes the folder also when this process is killed
    try:
        return await _in(folder, reaper, kind, scale, events, warm_up_seconds)
    finally:
        await asyncio.to_thread(reaper.close)


async def _in(folder: Path, reaper: Reaper, kind: str, scale: Scale, events: int, warm_up_seconds: float) -> Latency:
    (folder / "policy.yaml").write_text(_policy(scale, kind))
    kubeconfig = folder / "kubeconfig"
    async with child("broker") as broker, child("kubernetes", scale.models, _spare(scale), kubeconfig) as api:
        bootstrap = await broker.line()
        await api.line()
        await asyncio.to_thread(speak_past, bootstrap, scale.models, PAST_SECONDS, PAST_INTERVAL_SECONDS)
        service = serving(folder, reaper, bootstrap)
        async with service as pid, child("flood", bootstrap, scale.models) as flood:
            await asyncio.sleep(warm_up_seconds)
            began, busy = time.monotonic(), busy_seconds(pid)
            told = await _Events(bootstrap, flood, _Calls(api)).run(kind, events)
            cores = (busy_seconds(pid) - busy) / (time.monotonic() - began)
            resident = resident_mib(pid)
            flood.finish()
            spoken = float(await flood.line())
    missed = sum(each.called is None for each in told)
    return Latency(kind, journal.answers(folder / "journal", told), missed, spoken, resident, cores)


def _spare(scale: Scale) -> int:
    """Nodes."""
    return scale.spare // GPUS_PER_NODE


def _policy(scale: Scale, kind: str) -> str:
    """By which every event finds free GPUs, and room below `maxReplicas`: doomed replicas do not count there."""
    policy = scale.policy().model_dump(mode="json", by_alias=True, exclude_unset=True)
    for model in policy["models"]:
        model["maxReplicas"] = REPLICAS if kind == "notice" else MOST_REPLICAS
    return json.dumps(policy | {"lookAhead": kind == "notice"})


@asynccontextmanager
async def serving(folder: Path, reaper: Reaper, bootstrap: str, **others: str) -> AsyncIterator[int]:
    """The process id of a ready service; `others` are settings besides."""
    name, probe = others.get("INSTANCE", "service"), free_port()
    settings = {
        "KAFKA_BOOTSTRAP": bootstrap,
        "KAFKA_SECURITY_PROTOCOL": "PLAINTEXT",
        "KUBECONFIG": folder / "kubeconfig",
        "POLICY_PATH": folder / "policy.yaml",
        "JOURNAL_DIR": folder / "journal",
        "JOURNAL_MAX_MIB": 4096,
        "WRITE_MODE": "act",
        "API_AUTH": "none",
        "API_PORT": free_port(),
        "PROBE_PORT": probe,
    } | others
    process = Process(
        [str(Path(sys.executable).parent / "rebalancer"), "run"],
        log=folder / f"{name}.log",
        healthy=lambda: answers(probe, "/readyz"),
        reaper=reaper,
        environment={f"REBALANCER_{name}": str(value) for name, value in settings.items()},
        start_seconds=READY_SECONDS,
        stop_seconds=20.0,
    )
    try:
        await asyncio.to_thread(process.start)
        assert process.pid is not None, "it is healthy"
        yield process.pid
    finally:
        await asyncio.to_thread(process.stop)


class _Calls:
    """The API's writes as they come."""

    def __init__(self, api: Child) -> None:
        self._api = api

    async def first(self, model: str, since: float) -> float | None:
        """When the first write for the model after an instant was answered."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    name, at, _ = (await self._api.line()).split()
                    if name == model and float(at) >= since:
                        return float(at)
        return None


class _Events:
    """Sends events and waits for what they cause."""

    def __init__(self, bootstrap: str, flood: Child, calls: _Calls) -> None:
        self._bootstrap = bootstrap
        self._flood = flood
        self._calls = calls
        self._voice = Voice(bootstrap, linger_ms=0)
        self._rng = random.Random(20)

    async def run(self, kind: str, events: int) -> list[journal.Told]:
        """So many of that kind."""
        told: list[journal.Told] = []
        began = time.monotonic()
        async with Producer(Broker(self._bootstrap)) as producer:
            while len(told) < events and time.monotonic() - began <= LONGEST_SECONDS:
                await self._pause()
                number = len(told)
                told.append(await (self._notice(producer, number) if kind == "notice" else self._surge(number)))
        return told

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.uniform(*APART_SECONDS))

    async def _notice(self, producer: Producer, number: int) -> journal.Told:
        """The node that holds the first eight pods of the model."""
        model = number * STRIDE
        sent = time.time()
        node = model * REPLICAS // GPUS_PER_NODE
        await producer.spot_notice(f"aws:///us-east-1a/i-{node:017x}", sent)
        return await self._answered(model, sent)

    async def _surge(self, number: int) -> journal.Told:
        """All pods of the model at once, and what they say from then on does not fall back to calm."""
        model = number * STRIDE + STRIDE // 2
        sent = time.time()
        for pod in range(REPLICAS):
            self._voice.say(pod_record(model, pod, sent, running=CALM * BURST))
        self._flood.tell(str(model))
        return await self._answered(model, sent)

    async def _answered(self, model: int, sent: float) -> journal.Told:
        name = f"m{model:04d}"
        return journal.Told(name, sent, await self._calls.first(name, sent))
