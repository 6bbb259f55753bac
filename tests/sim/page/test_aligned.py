"""A page of two policies goes by the names of models, whatever order and number of them each policy has."""

import numpy as np

from rebalancer.sim.contest.outcome import ContestRun, outcome
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.page.aligned import aligned
from rebalancer.sim.page.figures import figures
from rebalancer.sim.page.html import page
from rebalancer.sim.peers.static import Static
from rebalancer.sim.scenario import Scenario, ScenarioModel

SECONDS = 1200
FIRST = {"busy": 3, "calm": 1}


def a_run(called: str, owned: dict[str, int]) -> ContestRun:
    """`busy` has 4 replicas of work, `calm` half a one."""
    work = {"busy": np.full(SECONDS, 4.0), "calm": np.full(SECONDS, 0.5)}
    models = tuple(
        ScenarioModel(name, work.get(name, np.zeros(SECONDS)), work.get(name, np.zeros(SECONDS)), first=replicas)
        for name, replicas in owned.items()
    )
    record = play(Scenario("made", "0", models, (8,), SECONDS), Static(), called)
    return ContestRun(record, outcome(record, called, list(owned.values())), list(owned.values()))


def numbers(*runs: ContestRun) -> list[list[list[str]]]:
    return [list(map(list, figure.numbers)) for figure in figures(aligned(runs))[1]]


def test_another_order_of_models_says_the_same() -> None:
    first, same = a_run("old", FIRST), a_run("new", FIRST)
    turned = a_run("new", dict(reversed(FIRST.items())))
    assert numbers(first, turned) == numbers(first, same)
    captions = [figure.caption for figure in figures(aligned((first, turned)))[1]]
    assert any("new, most Ready replicas: busy 3 at 0:00, calm 1 at 0:00." in each for each in captions)


def test_a_model_that_one_policy_has_not_has_no_replicas_there() -> None:
    fewer, more = a_run("old", FIRST), a_run("new", {"third": 2, **FIRST})
    for runs, empty in (((fewer, more), "old"), ((more, fewer), "old")):
        text = page("made", [], [["", "old", "new"]], runs)
        assert f"third, {empty}" in text
        _, replicas, *_ = figures(aligned(runs))[1]
        heads, row, *_ = replicas.numbers
        assert dict(zip(heads, row, strict=True)) | {"from": ""} == {
            "from": "", "busy, old": "3.0", "busy, new": "3.0", "calm, old": "1.0", "calm, new": "1.0",
            "third, old": "0.0", "third, new": "2.0",
        }  # fmt: skip
