"""Invariant I13 over time: rows of the catalogue one after the other on one process, and what it holds stays flat.

`REBALANCER_SOAK_SECONDS` says for how long; `make faults ARGS="--soak 3600"` sets it, and writes `results/soak.md`.
"""

import asyncio
import os
import sys
import time
from random import Random

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it names what it hands on nowhere
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from tests.bench.processes import resident_mib
from tests.faults import counted
from tests.faults.catalogue import ROWS
from tests.faults.conftest import Stage
from tests.faults.evidence import TASKS
from tests.faults.injections import standby
from tests.faults.row import play
from tests.faults.scene import Scene
from tests.faults.soak import FEWEST, STATE_SEGMENTS, Round, page, round_of, steady

SOAK_SECONDS = float(os.environ.get("REBALANCER_SOAK_SECONDS", "600"))
# None of them ends the process, so that its figures are of one. M11 is none of them: what liars said to need counts as
# their use for three hours, and the tide after it does not come to rest as it is desired.
SOAKING = (
    "A01", "A02", "A03", "A04", "A05", "A08", "C05", "H03", "K07", "K08", "K10", "K15", "K16", "K18",
    "M05", "M07", "M09", "M10", "N06", "O02", "X02",
)  # fmt: skip


@pytest.mark.real
@pytest.mark.outage
@pytest.mark.proof
@pytest.mark.timeout(SOAK_SECONDS + 600, func_only=True)
@pytest.mark.asyncio(loop_scope="session")
async def test_i13_what_the_service_holds_stays_flat_through_fault_after_fault(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = await stage.ready()
    await asyncio.to_thread(_compacted_soon, stage.kafka.bootstrap, scene.broker.topic("state"))
    await _counts_its_tasks(scene)
    chance, began, pid = Random(1), time.monotonic(), scene.service.pid
    rounds: list[Round] = []
    async with standby(scene) as other:
        while time.monotonic() - began < SOAK_SECONDS:
            row = ROWS[chance.choice(SOAKING)]
            assert await play(row, scene, len(rounds) + 1) == {}
            assert scene.service.pid == pid, f"the process ended in {row.id}, its round {len(rounds) + 1}"
            assert other.pid is not None, f"who stands by ended in {row.id}, its round {len(rounds) + 1}"
            topics = await asyncio.to_thread(stage.kafka.sizes, f"{scene.namespace}-")
            resident = await asyncio.to_thread(resident_mib, other.pid)
            rounds.append(round_of(row.id, time.monotonic() - began, scene.now, resident, topics))
            with capsys.disabled():
                print(f"\n{rounds[-1]}", flush=True)
            if len(rounds) >= FEWEST:
                await asyncio.to_thread(page, rounds, SOAK_SECONDS)
    assert steady(rounds) == []


async def _counts_its_tasks(scene: Scene) -> None:
    """It starts anew as a process that says how many tasks it has."""
    assert await scene.service.stop() == 0
    scene.service.begun_by = (sys.executable, counted.__file__, str(scene.service.folder / TASKS))
    await scene.service.start()


def _compacted_soon(bootstrap: str, topic: str) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in STATE_SEGMENTS.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # what it was asked ends with it
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30.0)
