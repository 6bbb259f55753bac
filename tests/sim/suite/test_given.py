"""What whoever decides is given: the same error for the product and for peers, and who cannot play with it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rebalancer.sim.controller import Seen
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.product import default_policy
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.suite.cases import SuiteCase, budgets, cases, family_cases, given_cases
from rebalancer.sim.suite.given import BY_FIGURE, EXACT, GIVEN, Given, Watching
from rebalancer.sim.suite.peers import BY_NAME, PEERS
from rebalancer.sim.suite.run import Field, Task, plan_tasks, players
from rebalancer.sim.suite.told import Gapped, metrics_of, policy_of, service_of
from rebalancer.sim.suite.tuning import Tuned, entrants, key
from rebalancer.sim.suite.worlds import Fluid

NOWHERE = Path("nowhere")
CASE = SuiteCase("S7", "generated", 24, 60)
GAPS = GIVEN["gaps"]


def stepping(at: int, seconds: int) -> Scenario:
    """Two models with three of twelve GPUs' work each; the first one's is eight at that second: beyond its part."""
    work = np.full((2, seconds), 3.0)
    work[0, at:] = 8.0
    models = tuple(ScenarioModel(name, of, of / 0.4, 6, start_seconds=30) for name, of in zip("ab", work, strict=True))
    return Scenario("S7", "stepping", models, (12,), seconds)


def test_the_same_scenarios_are_played_with_every_kind_of_figures_and_metrics() -> None:
    played = [(case.scenario, case.gpus, case.given.name) for case in given_cases()]

    assert {scenario for scenario, *_ in played} == {"S1b", "S2", "S4", "S7"}
    assert len(played) == len(set(played)) == 7 * 9
    exact = {(case.scenario, case.day, case.gpus, case.start_seconds, case.seeds) for case in cases()}
    told = {(case.scenario, case.day, case.gpus, case.start_seconds) for case in given_cases()}
    assert told <= {each[:4] for each in exact}  # beside each an exact row, of the same draws
    assert all((c.scenario, c.day, c.gpus, c.start_seconds, c.seeds) in exact for c in given_cases() if c.gpus < 32)


def test_a_wrong_figure_moves_the_targets_that_are_shares_of_it_and_no_others() -> None:
    half = GIVEN["x0.5"]

    assert half.tuning("work@0.7") == "work@0.35"
    assert GIVEN["x1.25"].tuning("concurrency@0.8") == "concurrency@1"
    assert half.tuning("kv-queue@0.7") == "kv-queue@0.7"
    assert half.tuning("gpu-util@0.7") == "gpu-util@0.7"
    assert half.tuning(None) is None
    assert GIVEN["lag60"].tuning("work@0.7") == "work@0.7"


def test_every_signal_of_a_figure_is_some_peers() -> None:
    assert {signal for peer in PEERS for signal in peer.signals} >= BY_FIGURE


def test_the_products_figure_is_off_by_the_same_factor_and_nothing_else_is() -> None:
    exact = default_policy(stepping(60, 120))

    wrong = policy_of(exact, GIVEN["x0.5"])

    figures = [model.signals.concurrency and model.signals.concurrency.per_replica for model in exact.models]
    assert [m.signals.concurrency and m.signals.concurrency.per_replica for m in wrong.models] == [32.0, 32.0]
    assert figures == [64.0, 64.0]
    assert policy_of(wrong, GIVEN["x2"]) == exact
    assert policy_of(exact, GIVEN["lag60"]) == exact


def test_metrics_are_as_late_and_as_seldom_as_is_given() -> None:
    assert metrics_of(EXACT) == metrics_of(GIVEN["x2"])
    assert metrics_of(GIVEN["lag60"]) == replace(metrics_of(EXACT), lag_seconds=60.0)
    assert metrics_of(GIVEN["scrape30"]) == replace(metrics_of(EXACT), scrape_seconds=30.0)


class Looking:
    """A peer that notes how old what it sees is."""

    every_seconds = 10

    def __init__(self) -> None:
        self.known: dict[int, int] = {}

    def decide(self, seen: Seen) -> Sequence[int]:
        self.known[seen.now] = seen.now - seen.delay_seconds
        return seen.desired


def known(given: Given) -> dict[int, int]:
    looking = Looking()
    play(stepping(60, 1300), Watching(looking, given), "looking")
    return looking.known


def test_peers_see_as_late_and_as_seldom_as_is_given() -> None:
    assert known(GIVEN["lag20"])[500] == 480
    assert [known(GIVEN["scrape30"])[now] for now in (480, 500, 510)] == [480, 480, 510]


def test_in_a_gap_peers_have_the_last_values_and_the_product_no_samples() -> None:
    seen = known(GAPS)
    shown = service_of(GAPS)(stepping(60, 1300).models[0], 0.0, 1300)
    assert isinstance(shown, Gapped)
    looks = {}
    for second in range(1300):
        shown.flow(float(second), float(second + 1), [])
        if second % 5 == 4:
            looks[second + 1] = len(shown.looks([]))

    assert [seen[now] for now in (1080, 1090, 1190, 1200)] == [1080, 1080, 1080, 1200]
    assert {at for at, count in looks.items() if not count} == set(range(1085, 1200, 5))


def test_a_surge_is_answered_later_by_who_hears_of_it_later() -> None:
    scenario = stepping(300, 480)

    def answered(given: Given) -> int:
        """The second in which the first model has more replicas than it began with, the last where it never has."""
        more = np.flatnonzero(Fluid(scenario, given).ours("scale", 0).record.ready[0] > 6)
        return int(more[0]) if len(more) else scenario.seconds

    soon, late = answered(EXACT), answered(GIVEN["lag60"])

    assert 330 <= soon < 420
    assert late >= soon + 30


def test_without_figures_who_needs_one_is_tuned_on_what_needs_none() -> None:
    absent = replace(CASE, given=GIVEN["absent"])

    signals = {peer.name: set(peer.signals) for peer in entrants(absent.budget, PEERS)}

    assert str(absent.budget) == "S7/24/60/absent"
    assert signals["keda"] == signals["hpa"] == {"gpu-util", "kv-queue"}
    assert not {"kpa", "ray-serve", "faro"} & signals.keys()
    assert {"static", "apa", "wva"} <= signals.keys()
    assert replace(CASE, given=GIVEN["x0.5"]).budget == CASE.budget  # peers are tuned on exact figures


def test_who_is_told_the_future_plays_only_where_figures_are_exact_on_a_scenario() -> None:
    assert {"faro", "foresight"} <= {peer.name for peer in players(CASE, PEERS)}
    for given in GIVEN.values():
        if given != EXACT:
            assert not {"faro", "foresight"} & {peer.name for peer in players(replace(CASE, given=given), PEERS)}
    of_family = {peer.name for peer in players(family_cases()[0], PEERS)}
    assert "foresight" in of_family  # the limit
    assert "faro" not in of_family


def test_the_product_plays_without_a_figure_too() -> None:
    absent = replace(CASE, given=GIVEN["absent"])

    planned = plan_tasks([absent], Field((BY_NAME["static"],), ("scale",)), {}, NOWHERE)

    assert [task.controller for task in planned.tasks] == ["static", "ours"]
    assert planned.warnings == ()


def test_a_row_says_what_was_given_and_is_kept_apart() -> None:
    found = {key(CASE.budget, BY_NAME["keda"]): Tuned("work@0.7", 0.0, 0.0, "", "", "")}
    wrong = replace(CASE, given=GIVEN["x0.5"])
    field = Field((BY_NAME["keda"],))

    exact, half = (plan_tasks([case], field, found, NOWHERE).tasks[0] for case in (CASE, wrong))

    assert (exact.row.given, half.row.given) == ("exact", "x0.5")
    assert exact.row.tuning == half.row.tuning == "work@0.7"
    assert exact.file("") != half.file("")


@pytest.mark.parametrize("controller", ["ours", "keda"])
def test_what_is_given_is_part_of_what_a_result_is_kept_by(controller: str) -> None:
    assert "rebalancer.sim.suite.given" in Task(CASE, controller, 0).modules


def test_no_budget_is_tuned_twice() -> None:
    names = [str(budget) for budget in budgets([*cases(), *given_cases(), *family_cases()])]

    assert len(names) == len(set(names))
