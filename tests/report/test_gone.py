"""Models and pools that come and go within the time of a report: what they cost, and whom it is charged to."""

import csv
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.domain.readings import TokenRate
from rebalancer.ledger.looks import look
from rebalancer.obs.ledger_reading import RecordedLook
from rebalancer.report.export import as_csv
from rebalancer.report.gathering import Gathered, gather
from rebalancer.report.prices import prices
from rebalancer.report.report import report
from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.report.test_recorded import keep

STEPS, STEP_SECONDS = 13, 600.0  # two hours, one of each policy
OLD, NEW = (
    a_policy(
        a_model(name, team=f"team-{name}", namespace=f"ns-{name}", pools=(pool,)),
        pools=(a_pool(pool, price_per_gpu_hour=usd),),
        plan_every_seconds=STEP_SECONDS,
    )
    for name, pool, usd in (("a", "a100", 2.0), ("b", "h100", 3.0))
)


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Gathered:
    """After an hour pool a100 and model a were dropped from the policy, and h100 and b came in their place."""
    folder: Path = tmp_path_factory.mktemp("moved")
    recorded = []
    for step in range(STEPS):
        policy = OLD if step < STEPS // 2 else NEW
        seen = a_snapshot(policy, {policy.models[0].id: 1}, at=3600.0 + STEP_SECONDS * step)
        loads = tuple(replace(load, tokens=TokenRate(90.0, 10.0)) for load in seen.loads)
        recorded.append(RecordedLook(look(replace(seen, loads=loads), policy), policy))
    keep(folder, recorded)
    return gather(folder, 86_400.0)


def test_a_pool_that_was_dropped_keeps_its_price_and_may_be_given_another(moved: Gathered) -> None:
    assert report(moved, {}).bill.usd == pytest.approx(8 * (2.0 + 3.0))
    assert report(moved, {"a100": 5.0}).bill.usd == pytest.approx(8 * (5.0 + 3.0))


def test_a_model_that_was_dropped_is_charged_to_the_team_of_the_last_policy_that_named_it(moved: Gathered) -> None:
    assert {row.name for row in report(moved, {}).bill.teams} == {"team-a", "team-b", ""}
    of = prices(moved.named, {}, set())
    rows = csv.DictReader(StringIO(as_csv(moved.books, moved.named, of, "lab")))
    assert {(row["model"], row["namespace"], row["team"]) for row in rows if row["model"]} == {
        ("a", "ns-a", "team-a"),
        ("b", "ns-b", "team-b"),
    }


def test_tokens_of_a_model_that_was_there_for_part_of_the_time_are_held_against_that_part(moved: Gathered) -> None:
    made = report(moved, {})
    assert {each.model: each.tokens for each in made.services} == {"a": 100.0 * 3600.0, "b": 100.0 * 3600.0}
    assert [each.usd_per_million_tokens for each in made.services] == [
        pytest.approx(1e6 * usd / 360_000) for usd in (2.0, 3.0)
    ]
