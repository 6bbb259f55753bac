"""The evidence of one row: begun, written down while it is played, and gathered from others' records afterwards."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random

from tests.faults.accounts import unaccounted
from tests.faults.evidence import Evidence, Rules, Span, watched
from tests.faults.scene import FLOORS, GPUS, LEASE, OWN, PER_REPLICA, SHARE, WINDOW_SECONDS, Scene
from tests.real.occupancy import Pods
from tests.real.readiness import Readiness
from tests.testbed.kube import NotYet

KNOWN_SECONDS = 20.0  # each model's past is checkpointed every 4 s


async def begin(scene: Scene, seed: str) -> Evidence:
    """A clean sheet for the row with this seed."""
    scene.chance = Random(seed)
    rules = Rules(FLOORS, OWN, GPUS, SHARE, WINDOW_SECONDS, await scene.replicas())
    scene.door.calls.clear()
    scene.wire.opened.clear()
    scene.evidence = Evidence(scene.service.account, scene.namespace, rules, Span(time.time(), float("inf")))
    return scene.evidence


@asynccontextmanager
async def looked_at(scene: Scene) -> AsyncIterator[Evidence]:
    """Everything that goes on is written down until the context ends."""
    evidence = scene.now
    async with Readiness.of(scene.service) as readiness, watched(scene.service, evidence.vitals):
        evidence.readiness = readiness
        yield evidence


async def gather(scene: Scene) -> Evidence:
    """What others wrote down of the row that is over."""
    evidence, audit = scene.now, scene.stack.audit
    await audit.settle(scene.kube)
    since = evidence.span.since
    everything = await asyncio.to_thread(audit.writes, since=scene.began)
    there = [each for each in everything if each.namespace == scene.namespace or each.user == scene.service.account]
    evidence.pods = Pods.of(there)
    evidence.writes = [each for each in there if each.received >= since]
    evidence.leases = [each for each in evidence.writes if (each.resource, each.name) == ("leases", LEASE)]
    for each in scene.traffic.taken:
        evidence.work.setdefault(each.model, []).append((each.at, each.running / PER_REPLICA))
    evidence.unaccounted = await _settled_accounts(scene)
    evidence.calls, evidence.connections = scene.door.calls.copy(), scene.wire.opened.copy()
    evidence.journal = [line for each in (scene.service, *scene.others) for line in await each.journal()]
    evidence.overrides = await scene.kube.items("Override", scene.namespace)
    return evidence


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
