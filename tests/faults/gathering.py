"""The evidence of one row: begun, written down while it is played, and gathered from others' records afterwards.

Records of an hour are read by another process: both links of the service run through this one, and while it read 60 MB
for itself the service lost its Lease.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from rebalancer.obs.journal_files import PATTERN
from tests.faults.accounts import unaccounted
from tests.faults.evidence import Evidence, Json, Rules, Span, watched
from tests.faults.scene import FLOORS, GPUS, LEASE, OWN, PER_REPLICA, SHARE, WINDOW_SECONDS, Scene
from tests.real.occupancy import Pods
from tests.real.readiness import Readiness
from tests.testbed.audit import AuditLog, Write
from tests.testbed.kube import NotYet

KNOWN_SECONDS = 20.0  # each model's past is checkpointed every 4 s


async def begin(scene: Scene) -> Evidence:
    """A clean sheet for the next row."""
    rules = Rules(FLOORS, OWN, GPUS, SHARE, WINDOW_SECONDS, await scene.replicas())
    scene.door.calls.clear()
    scene.wire.opened.clear()
    scene.evidence = Evidence(scene.service.account, scene.namespace, rules, Span(time.time(), float("inf")))
    return scene.evidence


@asynccontextmanager
async def looked_at(scene: Scene) -> AsyncIterator[Evidence]:
    """Everything that goes on is written down until the context ends."""
    evidence = scene.now
    async with Readiness.of(scene.service) as readiness, watched(scene.service, evidence):
        evidence.readiness = readiness
        yield evidence


async def gather(scene: Scene) -> Evidence:
    """What others wrote down of the row that is over."""
    evidence, audit = scene.now, scene.stack.audit
    await audit.settle(scene.kube)
    journals = tuple(Path(each.settings["JOURNAL_DIR"]) for each in (scene.service, *scene.others))
    since = evidence.span.since
    wanted = _Wanted(audit, scene.namespace, scene.service.account, scene.began, since, journals)
    records = await asyncio.to_thread(_read_elsewhere, wanted)
    evidence.pods, evidence.writes, evidence.journal = records
    evidence.leases = [each for each in evidence.writes if (each.resource, each.name) == ("leases", LEASE)]
    for each in scene.traffic.taken:
        evidence.work.setdefault(each.model, []).append((each.at, each.running / PER_REPLICA))
    evidence.unaccounted = await _settled_accounts(scene)
    evidence.calls, evidence.connections = scene.door.calls.copy(), scene.wire.opened.copy()
    evidence.overrides += await scene.kube.items("Override", scene.namespace)
    return evidence


@dataclass(frozen=True)
class _Wanted:
    """Whose writes since when, all pods since `began`, and the intents and outcomes in these folders."""

    audit: AuditLog
    namespace: str
    account: str
    began: float
    since: float
    journals: tuple[Path, ...]


@cache
def _reader() -> ProcessPoolExecutor:
    """One process that stands behind all others."""
    return ProcessPoolExecutor(1, get_context("spawn"), os.nice, (10,))


def _read_elsewhere(wanted: _Wanted) -> tuple[Pods, list[Write], list[Json]]:
    return _reader().submit(_read, wanted).result()


def _read(wanted: _Wanted) -> tuple[Pods, list[Write], list[Json]]:
    """Pods that held GPUs in the row, everybody's writes in it, and our records of our own."""
    everything = wanted.audit.writes(since=wanted.began)
    there = [each for each in everything if each.namespace == wanted.namespace or each.user == wanted.account]
    pods = Pods.of(there)
    pods.spans = {name: span for name, span in pods.spans.items() if span[1] >= wanted.since}
    return pods, [each for each in there if each.received >= wanted.since], [*_records(wanted.journals)]


def _records(journals: Iterable[Path]) -> Iterable[Json]:
    for file in (file for folder in journals for file in sorted(folder.glob(PATTERN))):
        with file.open("rb") as lines:
            for line in lines:
                if (b'"line":"intent"' in line or b'"line":"outcome"' in line) and line.endswith(b"\n"):
                    yield json.loads(line)


async def _settled_accounts(scene: Scene) -> list[str]:
    """What is missing of this row's samples, once the checkpoint has had time to come round."""
    since = scene.now.span.since
    samples = [
        each
        for each in scene.traffic.taken
        if each.acknowledged_at >= since and not any(gone.since <= each.at <= gone.until for gone in scene.now.gone)
    ]
    scene.now.acknowledged = len(samples)
    missing: list[str] = ["nothing was looked at"]

    async def all_there() -> bool:
        missing[:] = await unaccounted(scene.broker, samples)
        return not missing

    with suppress(NotYet):
        await scene.until(all_there, "every sample is in the checkpoint", KNOWN_SECONDS)
    return missing
