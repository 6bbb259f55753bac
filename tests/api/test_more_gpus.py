"""Would more GPUs help, and which: the answer by the outlook, by the last hour played again, by what binds."""

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.api.pages.more_gpus import MoreGpus, more_gpus
from rebalancer.api.ports.day import FIGURES, FINE_FIGURES, FINE_STEPS, NO_DAY, STEPS, Day
from rebalancer.api.ports.page_data import PageData
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import Plan, Step, Unmet
from rebalancer.domain.policy import Policy
from rebalancer.planning.guards.guards import GUARDS
from tests.api.scenes import PAGE_DATA
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.cli.scene import PLAN
from tests.planning.outlooks import an_outlook

NAN = float("nan")
DECISION = replace(PLAN.models[0], model="b", demand=5, allocation=5, granted=2, ready=2, loading=0, doomed=0)
LATE = {1: 300.0, 2: 200.0, 3: 80.0, 4: 20.0, 5: 0.0, 6: 0.0, 7: 0.0}


def a_two_gpu_policy(most: int = 10) -> Policy:
    model = a_model("b", gpus_per_replica=2, max_replicas=most, slo={"latency_seconds": 4.0})
    return a_policy(model, pools=(a_pool(gpus=8), an_elastic_pool(price_per_gpu_hour=1.4)))


def the_answer(constraint: str = "", most: int = 10, loading: int = 0, day: Day = NO_DAY) -> MoreGpus:
    """Model b with 2 replicas of 2 GPUs each, short for `constraint` where there is one."""
    policy = a_two_gpu_policy(most)
    snapshot = a_snapshot(policy, {"b": 2}, {"b": {"concurrency": 12.0}}, {"b": 3.0})
    outlook = an_outlook(LATE, 2, level=3.0, shifted=3.0)
    snapshot = replace(snapshot, loads=tuple(replace(load, outlook=outlook) for load in snapshot.loads))
    decision = DECISION if not loading else replace(DECISION, ready=2 - loading, loading=loading)
    unmet = (Unmet("b", 3, constraint, "the GPUs are all in use", NOW),) if constraint else ()
    plan = Plan(cycle=1, at=NOW, models=(decision,), unmet=unmet)
    status = replace(PAGE_DATA.status, at=NOW, plan=plan)
    data = PageData(PAGE_DATA.epoch, status, snapshot, policy)
    return more_gpus(data, plan, policy.models[0], decision, day)


def an_hour(
    work: float, ready: float, busy: range = range(0), *, late: float = NAN, over: range = range(0), told: bool = False
) -> Day:
    """The last hour with that work, and 4 replicas of work in the minutes `busy`.

    `late`: requests a minute that were late in each minute; `over`: minutes in which the p95 was over the SLO, and
    `told` whether anybody tells it.
    """
    minutes, ring = np.full(STEPS, -1, dtype=np.int64), np.full((STEPS, len(FIGURES)), np.nan, dtype=np.float32)
    tens = np.full(FINE_STEPS, -1, dtype=np.int64)
    fine = np.full((FINE_STEPS, len(FINE_FIGURES)), np.nan, dtype=np.float32)
    first = int(NOW // 60) - 60
    for minute in range(60):
        minutes[(first + minute) % STEPS] = first + minute
        ring[(first + minute) % STEPS, FIGURES.index("late_per_minute")] = late
        for ten in range((first + minute) * 6, (first + minute + 1) * 6):
            tens[ten % FINE_STEPS] = ten
            fine[ten % FINE_STEPS] = 4.0 if minute in busy else work, ready, float(minute in over) if told else NAN
    return Day(minutes, {"b": ring}, {}, tens, {"b": fine})


def test_who_is_late_for_want_of_gpus_is_told_how_many_fewer_would_be_with_how_many_more() -> None:
    answer = the_answer("budget")
    assert (answer.helps, answer.why) == (True, "the GPUs are all in use")
    assert [(row.gpus, row.replicas, row.late_soon) for row in answer.with_more] == [
        (0, 0, 200.0),
        (2, 1, 80.0),
        (4, 2, 20.0),
        (8, 4, 0.0),
    ]
    assert answer.lines[:2] == (
        "b: would more GPUs help? yes: the GPUs are all in use",
        "now    late of 450 requests in the next 150 s: 200 as it is, 80 with 2 GPUs more, 20 with 4, none with 8",
    )


@pytest.mark.parametrize("guard", GUARDS)
def test_who_waits_for_what_a_guard_keeps_with_another_model_would_be_helped_by_gpus_of_its_own(guard: str) -> None:
    answer = the_answer(guard)
    assert (answer.helps, answer.why) == (True, "others hold what it waits for: the GPUs are all in use")


def test_who_waits_for_nodes_that_nobody_brings_would_be_helped() -> None:
    assert the_answer("nodes").helps is True


@pytest.mark.parametrize(
    ("constraint", "most", "why"),
    [
        ("maximum", 2, "it has all that its maxReplicas of 2 allows: raise that first"),
        ("waiting", 10, "it is late for want of time, not of GPUs: 1 replica on the way"),
        ("quota", 10, "GPUs are not what it waits for: the GPUs are all in use"),
        ("", 10, "its requests are in time with the 2 replicas that it has"),
    ],
)
def test_where_something_else_binds_the_answer_is_no_and_says_what(constraint: str, most: int, why: str) -> None:
    answer = the_answer(constraint, most, loading=1 if constraint == "waiting" else 0)
    assert (answer.helps, answer.why) == (False, why)


@pytest.mark.parametrize(
    ("outlook", "helps", "why"),
    [
        (None, None, "no outlook is there yet: its work is unknown, or was not seen for long enough"),
        (
            replace(an_outlook(LATE, 2), deferred=True),
            False,
            "it is batch work, and nothing of it is late with what it has: no request waits",
        ),
        (
            replace(an_outlook(LATE, 2), by_minute=True),
            None,
            "its work is known by the minute alone, so nobody can count its late requests",
        ),
    ],
    ids=["unseen", "batch", "by the minute"],
)
def test_of_whom_nobody_counts_late_requests_the_answer_says_why_as_explain_does(
    outlook: Outlook | None, *, helps: bool | None, why: str
) -> None:
    policy = a_two_gpu_policy()
    snapshot = a_snapshot(policy, {"b": 2}, {"b": {"concurrency": 12.0}}, {"b": 3.0})
    snapshot = replace(snapshot, loads=tuple(replace(load, outlook=outlook) for load in snapshot.loads))
    decision = replace(DECISION, steps=(Step("deferral", "no request waits"),))
    plan = Plan(cycle=1, at=NOW, models=(decision,))
    data = PageData(PAGE_DATA.epoch, replace(PAGE_DATA.status, at=NOW, plan=plan), snapshot, policy)
    answer = more_gpus(data, plan, policy.models[0], decision, NO_DAY)
    assert (answer.helps, answer.why) == (helps, why)


def test_more_than_the_policy_allows_spares_nothing() -> None:
    assert [row.late_soon for row in the_answer("budget", most=3).with_more] == [200.0, 80.0, 80.0, 80.0]


def test_the_last_hour_is_played_again_with_more_replicas_all_the_while() -> None:
    calm = the_answer(day=an_hour(work=1.0, ready=2.0))
    assert [row.late_last_hour for row in calm.with_more] == [0.0, 0.0, 0.0, 0.0]
    busy = the_answer(day=an_hour(work=1.0, ready=2.0, busy=range(20, 30)))
    as_it_was, *more = [row.late_last_hour for row in busy.with_more]
    # 2 replicas of work too many for 10 minutes: 4 s of waiting are reached after 4 s, patience keeps it at 30 s,
    # and it takes 60 s to work that off. Nearly all of 10 x 60 x 4 are late, and what came while it was worked off.
    assert as_it_was == pytest.approx(2400.0, rel=0.05)
    assert more[0] == pytest.approx(2400.0, rel=0.05)  # three replicas are fewer than four of work, too
    assert more[1:] == [0.0, 0.0]
    assert (busy.helps, busy.why) == (True, "in the last hour they would have; now, with 2 replicas, it is in time")


def test_what_was_late_stands_beside_what_is_late_when_the_hour_is_played_again() -> None:
    answer = the_answer(day=an_hour(work=1.0, ready=2.0, busy=range(20, 30), late=40.0))
    assert answer.late_last_hour == pytest.approx(2400.0)
    (line,) = (line for line in answer.lines if line.startswith("hour"))
    played = "2436 as it is, 2391 with 2 GPUs more, none with 4, none with 8"
    assert line == f"hour   2400 came late in the last hour, by its p95; played again: {played}"


def test_nobody_is_late_again_in_minutes_in_which_the_latency_was_within_the_slo() -> None:
    """2.05 replicas of work on 2 for an hour: reckoned strictly the queue only grows, and nobody noticed one."""
    full = [row.late_last_hour for row in the_answer(day=an_hour(work=2.05, ready=2.0)).with_more]
    assert full[0] is not None
    assert full[0] > 2_000.0
    at_ease = the_answer(day=an_hour(work=2.05, ready=2.0, told=True))
    assert [row.late_last_hour for row in at_ease.with_more] == [0.0, 0.0, 0.0, 0.0]
    surge = the_answer(day=an_hour(work=2.05, ready=2.0, busy=range(20, 30), over=range(20, 30), told=True))
    assert surge.with_more[0].late_last_hour == pytest.approx(2400.0, rel=0.05)  # and none in the half hour after it


def test_at_its_most_now_the_hour_in_which_it_had_fewer_still_counts() -> None:
    before = the_answer(most=2, day=an_hour(0.5, 1.0, range(10, 20)))
    assert before.helps is True
    assert before.why.startswith("in the last hour, with fewer replicas at times, they would have; now it has all")
    assert [row.replicas for row in before.with_more] == [0, 0, 0, 0]
    assert before.with_more[0].late_last_hour != before.with_more[1].late_last_hour
    at_most_all_the_while = the_answer(most=2, day=an_hour(0.5, 2.0, range(10, 20)))
    assert at_most_all_the_while.helps is False
    assert at_most_all_the_while.why.endswith("maxReplicas of 2 allows, and its requests are in time")


def test_of_an_hour_of_which_little_is_known_nothing_is_said() -> None:
    answer = the_answer("budget")
    assert [row.late_last_hour for row in answer.with_more] == [None] * 4
    assert not any(line.startswith("hour") for line in answer.lines)


def test_each_pool_is_told_with_whether_a_replica_fits_there_and_its_price() -> None:
    own, spot = the_answer("budget").pools
    assert (own.pool, own.fits, own.usd_per_gpu_hour) == ("a100", True, None)
    assert (spot.pool, spot.fits, spot.why) == ("spot", False, "b has no target there (models.b.targets)")
    assert spot.usd_per_gpu_hour == 1.4


@pytest.mark.parametrize(
    ("limit", "groups", "how"),
    [
        (16, (), "needs more nodes"),
        (8, (), "needs more nodes and a higher gpuLimit (now 8)"),
        (16, ("eks-gpu",), "gpuLimit 16, so up to 8 more may come"),
    ],
)
def test_a_pool_says_what_it_takes_to_have_more_and_who_brings_it(
    limit: int, groups: tuple[str, ...], how: str
) -> None:
    pool = a_pool(gpus=limit, node_groups=groups)
    policy = a_policy(a_model("b", entitlement=0, gpus_per_replica=2), pools=(pool,))
    snapshot = a_snapshot(policy, {"b": 2}, {"b": {"concurrency": 12.0}}, {"b": 3.0}, {"a100": 1})
    plan = Plan(cycle=1, at=NOW, models=(DECISION,))
    data = PageData(PAGE_DATA.epoch, replace(PAGE_DATA.status, at=NOW, plan=plan), snapshot, policy)
    (fit,) = more_gpus(data, plan, policy.models[0], DECISION, NO_DAY).pools
    assert fit.why.endswith(f"in all, {how}")
