"""Invariant I13 over time: rows of the catalogue one after the other on one process, and what it holds stays flat.

`REBALANCER_SOAK_SECONDS` says for how long; `make faults ARGS="--soak 3600"` sets it.
"""

import os
import statistics
import time
from random import Random

import pytest

from tests.faults.catalogue import ROWS
from tests.faults.conftest import Stage
from tests.faults.evidence import Vitals
from tests.faults.row import play

SOAK_SECONDS = float(os.environ.get("REBALANCER_SOAK_SECONDS", "600"))
# None of them ends the process, so that its figures are of one.
SOAKING = ("A01", "A02", "A03", "A04", "A05", "A08", "K07", "K08", "K10", "K15", "K16", "K18", "N06", "O02", "X02")
MORE_MIB, MORE_DESCRIPTORS = 30.0, 10


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
    vitals: list[Vitals] = []
    played = 0
    while time.monotonic() - began < SOAK_SECONDS:
        played += 1
        assert await play(ROWS[chance.choice(SOAKING)], scene, played) == {}
        vitals += scene.now.vitals
    assert scene.service.pid == pid, "it was not one process"
    early, late = _quarter(vitals, 1), _quarter(vitals, 3)
    first, last = (f"{each.resident_mib:.0f} MiB, {each.descriptors} descriptors" for each in (early, late))
    with capsys.disabled():
        print(f"\n{played} faults in {time.monotonic() - began:.0f} s: {first} early, {last} late")
    assert late.resident_mib <= early.resident_mib + MORE_MIB
    assert late.descriptors <= early.descriptors + MORE_DESCRIPTORS


def _quarter(vitals: list[Vitals], number: int) -> Vitals:
    """The median of each figure in a quarter of the looks; the first one is warming up."""
    size = len(vitals) // 4
    looks = vitals[number * size : (number + 1) * size]
    return Vitals(*(statistics.median(column) for column in zip(*looks, strict=True)))
