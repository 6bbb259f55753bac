import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.fluid.fast import play
from rebalancer.sim.peers.static import Static
from rebalancer.sim.score import recoveries, score, violations_by_block
from rebalancer.sim.suite.row import Row, best_peer, gap_closure, played, standing
from rebalancer.sim.suite.scenarios import s7


def row(controller: str, violation: float | None) -> Row:
    return Row("S2", "1", 32, 60, controller, None, None, 0, violation=violation)


def test_gap_closure_is_the_way_from_the_best_peer_to_foresight() -> None:
    rows = [row("ours", 0.02), row("hpa", 0.06), row("keda", 0.04), row("foresight", 0.01), row("static", 0.2)]

    assert gap_closure(rows[0], rows) == pytest.approx((0.04 - 0.02) / (0.04 - 0.01))
    assert best_peer(rows) == rows[2]
    assert [gap_closure(each, rows) for each in rows[1:]] == [None] * 4


def test_who_is_worse_than_the_best_peer_closes_less_than_nothing() -> None:
    rows = [row("ours", 0.05), row("keda", 0.04), row("foresight", 0.01)]

    assert gap_closure(rows[0], rows) == pytest.approx(-1 / 3)


@pytest.mark.parametrize("foresight", [0.04, 0.05, None])
def test_no_gap_to_close_is_told_as_none(foresight: float | None) -> None:
    rows = [row("ours", 0.02), row("keda", 0.04), row("foresight", foresight)]

    assert gap_closure(rows[0], rows) is None


def test_where_cost_decides_the_cheapest_within_one_percent_is_best() -> None:
    def buyer(controller: str, violation: float, usd: float) -> Row:
        return Row("S5", "1", 32, 60, controller, None, None, 0, violation=violation, cost_usd=usd)

    rows = [buyer("hpa", 0.001, 900.0), buyer("keda", 0.009, 700.0), buyer("kpa", 0.02, 100.0)]

    assert best_peer(rows) == rows[1]
    assert best_peer(rows[2:]) == rows[2]
    assert standing(rows[1]) < standing(rows[0]) < standing(rows[2])
    assert gap_closure(buyer("ours", 0.005, 500.0), [*rows, buyer("foresight", 0.0, 4000.0)]) is None


def test_a_limit_is_no_peer() -> None:
    assert best_peer([row("foresight", 0.01), row("bound", 0.0), row("ours", 0.02)]) is None


def test_a_row_has_the_columns_that_scripts_read() -> None:
    columns = (
        "scenario day gpus start_seconds controller actuation tuning seed world violation worst_model_violation "
        "lost_utility gpu_hours cost_usd starts_and_stops floor_breaches recover_p95_seconds lost_in_flight "
        "late_work_share plan_p99_ms gap_closure given"
    )

    assert list(msgspec.to_builtins(row("ours", None))) == columns.split()


def test_a_played_row_carries_the_numbers_of_its_record() -> None:
    record = play(s7(gpus=16, start_seconds=60), Static(), "static")

    result = played(row("static", None), record)

    assert result.row.violation == pytest.approx(
        record.late.sum() / sum(m.requests.sum() for m in record.scenario.models)
    )
    assert result.row.cost_usd is None  # no prices
    assert np.array_equal(result.block_array(), violations_by_block(record))
    assert result.block_array()[:, 0].sum() == pytest.approx(record.late.sum())


def test_a_surge_lasts_from_its_first_late_second_until_a_minute_without_one() -> None:
    late = np.zeros(1000, bool)
    late[110:130] = True
    late[185:190] = True  # 55 calm seconds before: the same surge
    late[260] = True  # 70 calm seconds before: not this surge's
    late[520:523] = True

    assert recoveries(late, (100, 500, 800)) == [80, 3, 0]


@given(st.lists(st.booleans(), min_size=400, max_size=400))
def test_no_surge_lasts_longer_than_until_the_next(late: list[bool]) -> None:
    taken = recoveries(np.array(late), (0, 100, 250))

    assert all(0 <= seconds <= most for seconds, most in zip(taken, (100, 150, 150), strict=True))
    assert (taken[0] == 0) == (not any(late[:100]))


def test_recovery_is_told_only_where_there_are_surges() -> None:
    record = play(s7(gpus=16, start_seconds=60), Static(), "static")

    assert (score(record).recover_p95_seconds or 0) > 500  # half of what arrives in a surge is too much for 8
    object.__setattr__(record.scenario, "surges", ())
    assert score(record).recover_p95_seconds is None
