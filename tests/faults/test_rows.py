"""Each row of the fault catalogue on real parts; after each the invariants I1 to I16 by the audit log.

A seed chooses the moment of the injection, and whatever else the row leaves to chance. `make faults` plays all.
"""

import asyncio

import pytest

from tests.faults.catalogue import GROUP_OF, ROWS
from tests.faults.conftest import Stage
from tests.faults.row import play, told

SEEDS = (1, 2, 3)
ROW_SECONDS = 240.0


def _cases() -> list[object]:
    """One fast row of each group with one seed for every day, all others as proof."""
    return [
        pytest.param(
            identity,
            seed,
            id=f"{GROUP_OF[identity].name}-{identity}-seed{seed}",
            marks=() if row.fast and seed == SEEDS[0] else pytest.mark.proof,
        )
        for identity, row in ROWS.items()
        if row.deed is not None
        for seed in SEEDS
    ]


@pytest.mark.real
@pytest.mark.outage
@pytest.mark.timeout(ROW_SECONDS, func_only=True)
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("identity", "seed"), _cases())
async def test_whatever_fails_while_gpus_change_hands_every_invariant_holds(
    stage: Stage, identity: str, seed: int
) -> None:
    scene = await stage.ready()
    try:
        broken = await play(ROWS[identity], scene, seed)
    except BaseException:
        print(await asyncio.to_thread(scene.service.log_tail))
        await stage.struck()
        raise
    if broken:
        print(told(scene.now))
        await stage.struck()
    assert broken == {}
