"""Invariant I13 over time: rows of the catalogue one after the other on one process, and what it holds stays flat.

`REBALANCER_SOAK_SECONDS` says for how long; `make faults ARGS="--soak 3600"` sets it, and writes `results/soak.md`.
"""

import asyncio
import os
import time
from random import Random

import pytest

from tests.faults.catalogue import ROWS
from tests.faults.conftest import Stage
from tests.faults.row import play
from tests.faults.soak import FEWEST, Round, page, round_of, steady

SOAK_SECONDS = float(os.environ.get("REBALANCER_SOAK_SECONDS", "600"))
# None of them ends the process, so that its figures are of one.
SOAKING = ("A01", "A02", "A03", "A04", "A05", "A08", "K07", "K08", "K10", "K15", "K16", "K18", "N06", "O02", "X02")


@pytest.mark.real
@pytest.mark.outage
@pytest.mark.proof
@pytest.mark.timeout(SOAK_SECONDS + 600, func_only=True)
@pytest.mark.asyncio(loop_scope="session")
async def test_i13_what_the_service_holds_stays_flat_through_fault_after_fault(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = await stage.ready()
    chance, began, pid = Random(1), time.monotonic(), scene.service.pid
    rounds: list[Round] = []
    while time.monotonic() - began < SOAK_SECONDS:
        row = ROWS[chance.choice(SOAKING)]
        assert await play(row, scene, len(rounds) + 1) == {}
        assert scene.service.pid == pid, f"the process ended in {row.id}, its round {len(rounds) + 1}"
        topics = await asyncio.to_thread(stage.kafka.sizes, f"{scene.namespace}-")
        rounds.append(round_of(row.id, time.monotonic() - began, scene.now, topics))
        with capsys.disabled():
            print(f"\n{rounds[-1]}", flush=True)
        if len(rounds) >= FEWEST:
            await asyncio.to_thread(page, rounds, SOAK_SECONDS)
    assert steady(rounds) == []
