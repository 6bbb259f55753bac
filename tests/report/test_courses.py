"""A recorded day under two policies: both begin with what was recorded and get the same work."""

from collections import Counter

import pytest

from rebalancer.domain.policy import Policy, Pool
from rebalancer.report.courses import Courses, play_both, side_of
from rebalancer.report.days import ModelDay, RecordedDay
from rebalancer.sim.suite.names import Ours
from tests.builders import NOW, a_model, a_policy, a_pool, an_elastic_pool

SECONDS = 900
SIGNALS = {"concurrency": {"per_replica": 4.0}, "latency": True}


def a_ruling(most: int, gpus: int, name: str = "a") -> Policy:
    model = a_model(name, entitlement=2, max_replicas=most, signals=SIGNALS)
    return a_policy(model, pools=(a_pool(gpu_limit=gpus, price_per_gpu_hour=2.0),))


def a_day(policy: Policy, *, work: float, ready: int, nodes: tuple[int, ...]) -> RecordedDay:
    day = RecordedDay(int(NOW), policy, SECONDS, nodes=nodes, pool_gpus=Counter({policy.pools[0].name: sum(nodes)}))
    model = ModelDay(policy.models[0], ready, (1, 8))
    model.work[:SECONDS], model.requests[:SECONDS], model.ready[:SECONDS] = work, 4.0 * work, ready
    day.models[policy.models[0].id] = model
    return day


def played(day: RecordedDay, other: Policy) -> Courses:
    courses = Courses()
    play_both(day, other, courses, lambda _, __: None)
    return courses


def test_the_same_policy_takes_the_same_course() -> None:
    policy = a_ruling(most=4, gpus=4)
    courses = played(a_day(policy, work=3.5, ready=2, nodes=(4,)), policy)
    assert courses.before.late == courses.after.late
    assert courses.before.gpu_hours == courses.after.gpu_hours
    assert courses.before.late["a"] > 0.0
    assert courses.late_recorded > courses.before.late["a"]  # it is given replicas that were not recorded
    assert courses.requests == {"a": pytest.approx(14.0 * SECONDS)}
    assert courses.before.usd == pytest.approx(4 * 2.0 * SECONDS / 3600)


def test_both_begin_with_the_recorded_replicas() -> None:
    policy = a_ruling(most=4, gpus=4)
    late = [played(a_day(policy, work=3.5, ready=ready, nodes=(4,)), policy).after.late["a"] for ready in (2, 4)]
    assert late[0] > 0.0 == late[1]


def test_a_higher_limit_of_gpus_brings_as_many_more_than_were_recorded() -> None:
    recorded = a_ruling(most=8, gpus=4)
    day = a_day(recorded, work=5.0, ready=3, nodes=(3,))  # one of four GPUs was never there
    courses = played(day, a_ruling(most=8, gpus=8))
    assert courses.after.late["a"] < 0.5 * courses.before.late["a"]
    assert courses.before.usd == pytest.approx(3 * 2.0 * SECONDS / 3600)  # a limit of 4 is no fourth GPU
    assert courses.after.usd == pytest.approx(7 * 2.0 * SECONDS / 3600)
    assert courses.before.gpu_hours <= 3 * SECONDS / 3600 + 0.01
    assert 3 * SECONDS / 3600 < courses.after.gpu_hours <= 7 * SECONDS / 3600


def test_a_model_that_is_in_one_policy_only_counts_in_neither() -> None:
    recorded = a_ruling(most=4, gpus=4)
    courses = played(a_day(recorded, work=3.5, ready=2, nodes=(4,)), a_ruling(most=4, gpus=4, name="b"))
    assert (courses.before.late, courses.after.late, courses.requests, courses.late_recorded) == ({}, {}, {}, 0.0)


def test_what_a_model_did_before_it_was_renamed_or_retired_that_day_counts_under_its_name() -> None:
    ruling = a_ruling(most=4, gpus=4)
    renamed = a_policy(ruling.models[0].model_copy(update={"id": "z"}), pools=ruling.pools)  # the workload is the same
    noon = SECONDS // 2
    day = a_day(ruling, work=3.5, ready=2, nodes=(4,))
    day.earlier, day.policy = [(noon, ruling)], renamed
    day.models["z"] = a_day(renamed, work=3.5, ready=2, nodes=(4,)).models["z"]
    for other, name in ((renamed, "z"), (ruling, "a")):
        courses = played(day, other)
        assert courses.requests == {name: pytest.approx(14.0 * SECONDS)}
        assert courses.before.late == courses.after.late
        assert (list(courses.after.late), courses.seconds) == ([name], SECONDS)
    day.policy = a_ruling(most=4, gpus=4, name="b")
    courses = played(day, ruling)
    assert courses.requests == {"a": pytest.approx(14.0 * noon)}
    assert courses.before.late == courses.after.late


def test_another_figure_of_what_a_replica_carries_changes_no_engine() -> None:
    recorded = a_ruling(most=4, gpus=4)
    day = a_day(recorded, work=3.5, ready=2, nodes=(4,))
    doubled = a_policy(a_model("a", signals={"concurrency": {"per_replica": 8.0}}), pools=recorded.pools)
    assert side_of(Ours("scale"), doubled, day, day.models, "proposed").slots == {"a": 5}


def test_a_proposed_pool_without_a_price_is_not_free() -> None:
    policy = a_ruling(most=4, gpus=4)
    bare = policy.model_copy(update={"pools": (a_pool(gpu_limit=4),)})
    courses = played(a_day(policy, work=3.5, ready=2, nodes=(4,)), bare)
    assert courses.before.usd is not None
    assert (courses.after.usd, courses.unpriced) == (None, {"a100"})


def test_of_primary_pools_the_gpus_that_were_there_are_paid_beside_an_elastic_pool_too() -> None:
    own, spot = a_pool(gpus=8, price_per_gpu_hour=2.0), an_elastic_pool("spot", gpus=8, price_per_gpu_hour=1.0)
    recorded = a_policy(a_model("a", signals=SIGNALS), pools=(own, spot))
    day = a_day(recorded, work=1.0, ready=2, nodes=(4, 8))
    day.pool_gpus = Counter({own.name: 4, "spot": 8})

    def owned(own: Pool, spot: Pool) -> int | None:
        policy, more = recorded.model_copy(update={"pools": (own, spot)}), max(0, own.gpu_limit - 8)
        price = side_of(Ours("scale"), policy, day, day.models, "proposed", more_gpus=more).paid
        return None if price is None else price.gpus

    assert owned(own, spot) == 4
    assert owned(own.model_copy(update={"name": "called-otherwise"}), spot) == 4
    assert owned(own.model_copy(update={"gpu_limit": 10}), spot) == 4 + 2
    assert owned(own, spot.model_copy(update={"kind": "primary"})) == 4 + 8
