"""Every day a few deaths at side effects in virtual time; `python -m tests.machine.killed` plays all of them."""

import asyncio

import pytest

from rebalancer.app import effects
from rebalancer.obs.effects import effect
from tests.machine.__main__ import history_of
from tests.machine.killed import EFFECTS, Death, Killed, Life, play_killed, watched

SEED = 2


@pytest.mark.parametrize(
    "death",
    [
        Death("kube/update/scale", 1, "after"),
        Death("kube/patch/nodepools", 1, "after"),
        Death("kafka/decisions/intent", 2, "after"),
        Death("kafka/decisions/outcome", 1, "before"),
    ],
    ids=str,
)
def test_who_dies_at_an_effect_breaks_no_rule(death: Death) -> None:
    played, deaths = play_killed(history_of(SEED), death)
    assert played.verdict is None
    assert deaths > 0, "else nothing is shown"


def test_what_is_played_here_are_effects_of_the_service() -> None:
    assert effects.EFFECTS.keys() >= set(EFFECTS)


async def test_whatever_runs_beside_a_death_does_nothing_more() -> None:
    done: list[str] = []

    async def write(name: str) -> None:
        await asyncio.sleep(0)
        with effect(name, ""):
            done.append(name)

    with watched(Life("first", 1, "after")):
        results = await asyncio.gather(write("first"), write("second"), return_exceptions=True)
    assert done == ["first"]
    assert all(isinstance(result, Killed) for result in results)
