"""Every day a few thousand steps of random histories; `python -m tests.machine` plays as many as one likes."""

import pytest

from tests.machine.__main__ import APART_EVERY, history_of, played
from tests.machine.histories import History, Played, Watch, a_history, play_apart
from tests.machine.shrink import shrunk, told
from tests.machine.twins import TWINS
from tests.machine.undone import NUMBERS, TRAFFIC, undo
from tests.machine.verdicts import Verdict
from tests.mutants.rules import RULES

pytestmark = pytest.mark.slow  # 15 s

# 19 ends with a replica of an elastic pool that goes as surplus and comes back each two minutes.
SEEDS = [*range(1, 19), 20, 21]
# Starts that learnt less from samples read again than who had heard them.
STARTS = [9001416, 9001836]
# Rules undone -> the seed of a short history that shows it.
UNDONE = {
    "allocatable takes 0 for known": 1,
    "notice counts too late": 1,
    "restart forgets who fought": 1,
    "standup forgets for ever": 1,
}
SEED_OF_MANY = 31
SEED_OF_A_FIGHT = 3


@pytest.mark.parametrize("seed", [*SEEDS, *STARTS])
def test_no_history_breaks_a_rule(seed: int) -> None:
    result = played(history_of(seed))
    assert result.verdict is None, f"python -m tests.machine --tell --seed {seed}: {result.verdict}"


@pytest.mark.parametrize("seed", [3, APART_EVERY])
def test_the_same_history_plays_the_same_way(seed: int) -> None:
    once, again = (played(history_of(seed)) for _ in range(2))
    assert (once.steps, once.met, once.counts) == (again.steps, again.met, again.counts)


def test_a_trouble_that_reaches_a_pool_that_shares_nothing_is_seen() -> None:
    names = [*NUMBERS["apart"][1], TRAFFIC]
    history = a_history(SEED_OF_A_FIGHT, apart=True, names=names)
    assert play_apart(history).verdict is None
    with pytest.MonkeyPatch.context() as patch:
        TWINS[0].apply(patch)
        verdict = play_apart(history).verdict
    assert verdict is not None
    assert verdict.rule == "e"


@pytest.mark.parametrize("rule", UNDONE)
def test_a_rule_that_is_undone_is_missed(rule: str) -> None:
    mutant = next(one for one in (*TWINS, *RULES) if str(one) == rule)
    found = undo(mutant, most_steps=50)
    assert (found.seed, found.verdict is not None) == (UNDONE[rule], True)


def test_a_history_is_cut_down_to_the_deeds_that_break_the_rule() -> None:
    history = a_history(SEED_OF_MANY)
    guilty = {history.deeds[3], history.deeds[-1]}

    def breaks(one: History) -> Played:
        return Played(verdict=Verdict("a", 0.0, "both together") if guilty <= set(one.deeds) else None)

    assert len(history.deeds) > 10
    assert set(shrunk(history, "a", played=breaks).deeds) == guilty


def test_a_history_is_told_as_it_is_played() -> None:
    def restarted(_history: History, _watch: Watch) -> Played:
        return Played(verdict=Verdict("r", 0.0, "it takes more"))

    assert told(a_history(SEED_OF_MANY), restarted)[-1] == "verdict: (r) it takes more"
