"""What people read is a sentence that names who does what and why: sentences that told nobody anything stay away."""

from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.api.text.explain import render_explain
from rebalancer.cli.render.plan import render_plan
from rebalancer.cli.render.status import render_status
from rebalancer.domain.plan import Plan, Refusal, Unmet
from rebalancer.domain.readings import Work
from rebalancer.domain.words import counted, figure, listed, work_of
from rebalancer.planning.demand.demand import need_now, need_words
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool, an_override
from tests.cli.scene import STATUS
from tests.planning.outlooks import an_outlook
from tests.planning.story import Story, change_of, decision_of, refusal_of, unmet_of
from tests.planning.test_scenarios_shares import flat, steep


def in_eight_gpus(*held: tuple[str, int]) -> Story:
    """Model a lends all of its pool, b owns it and wants it back."""
    policy = a_policy(a_model("a", 0, entitlement=0), a_model("b", 0, entitlement=8), pools=(a_pool(gpus=8),))
    return Story(policy, a_snapshot(policy, dict(held), {"a": {"concurrency": 0.0}, "b": {"concurrency": 8.0}}))


def test_gpus_promised_beyond_a_budget_are_no_negative_number() -> None:
    policy = a_policy(a_model("a"), a_model("b", entitlement=2), pools=(a_pool(gpus=8),))
    loads = {"a": {"concurrency": 28.0}, "b": {"concurrency": 1000.0}}
    story = Story(policy, a_snapshot(policy, {"a": 7, "b": 1}, loads))
    story.target("a", replicas=95, by_others=True)
    story.override(an_override("floor", "a", 7))  # else it gives one of its seven, and what waits with it
    unmet = unmet_of(story.plan(), "b")
    assert unmet is not None
    assert unmet.why == (
        "a replica needs 1 GPU on one node of pool a100: none is free; none of the 8 GPUs in its budget is left, "
        "and 88 more are promised; lends 1 GPU to a: those come home as soon as that allows"
    )


def test_a_grant_waits_for_gpus_in_words_that_fit_behind_waits_for() -> None:
    story = in_eight_gpus(("a", 8))
    story.write(story.plan())
    plan = story.plan()
    (said,) = (step.said for step in decision_of(plan, "b").steps if step.stage == "shift")
    assert said == "2 replicas wait for GPUs on a100-1 that are not free yet"
    unmet = unmet_of(plan, "b")
    assert unmet is not None
    assert unmet.why == "it waits for GPUs on a100-1 that are not free yet; lends 6 GPUs to a: those come home"
    assert decision_of(plan, "b").why == f"is short of 2 replicas: {unmet.why}"


def test_a_refusal_that_moves_no_number_tells_none() -> None:
    assert str(Refusal("foreign", "chat", 12, 12, "argocd changed it")) == (
        "chat is left as it is: guard foreign, argocd changed it"
    )
    assert str(Refusal("plausible", "chat", 12, 13, "too much", until=NOW)) == (
        "chat does not get 1 replica more (12 -> 13): guard plausible, too much; not before 08:00:00"
    )


def test_a_plan_names_every_model_that_is_short_and_what_it_waits_for() -> None:
    rows = tuple(Unmet(name, 2, "budget", "no GPU is free", NOW) for name in ("a", "b"))
    assert render_plan(Plan(cycle=1, at=NOW, unmet=rows)).splitlines() == [
        "Nothing to change.",
        "* a is short of 2 replicas since 08:00:00: no GPU is free",
        "* b is short of 2 replicas since 08:00:00: no GPU is free",
        "0 changes; short: a 2, b 2",
    ]


def test_who_keeps_replicas_of_a_pool_that_shrank_is_told_that_it_shrank() -> None:
    policy = a_policy(a_model("b", 1, entitlement=16), pools=(a_pool(gpus=16),))
    story = Story(policy, a_snapshot(policy, {"b": 15}, {"b": {"concurrency": 60.0}}))
    story.load("b", {"concurrency": 60.0}, Work(15.0, 15.0, 15.0, 15.0))
    (pool,) = policy.pools
    story.policy = policy.model_copy(update={"pools": (pool.model_copy(update={"gpu_limit": 4}),)})
    plan = story.turn()
    assert str(refusal_of(plan, "fleet", "b")).startswith("b keeps 10 replicas that would go (14 -> 4): guard fleet, ")
    shrank = "pool a100 shrank, it has 4 GPUs in its budget and 15 promised"
    assert refusal_of(plan, "fleet", "b").why.endswith(shrank)
    assert change_of(plan, "b").sentence == (
        "gives up 1 replica, since pool a100 has 4 GPUs in its budget and 15 promised; "
        "it has 15 replicas of work on 15 (15 -> 14)"
    )


def test_a_shift_names_both_models_with_their_work() -> None:
    story = in_eight_gpus(("a", 8))
    story.load("a", {"concurrency": 1.0}, Work(0.25, 0.246, 0.25, 0.25))
    story.load("b", {"concurrency": 8.0}, Work(2.0, 1.96, 2.0, 2.0))
    released = story.plan()
    assert change_of(released, "a").sentence == (
        "returns 2 borrowed replicas to b: b has 2 replicas of work on 0, a 0.25 on 8 (8 -> 6)"
    )
    story.write(released)
    story.settle()
    assert change_of(story.plan(), "b").sentence == (
        "gets 2 of its own replicas back from a on a100-1: it has 2 replicas of work on 0; its votes ask for 2 replicas"
        " (0 -> 2)"
    )


def test_what_is_its_owners_is_returned_also_where_worth_moves_it() -> None:
    # b is owed 1 of the 8 that it owns; the two more that it gets are room for bursts, which is a shift by worth.
    policy = a_policy(a_model("a", 0, entitlement=0), a_model("b", 0, entitlement=8), pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, {"a": 7, "b": 1}, {"a": {"concurrency": 0.0}, "b": {"concurrency": 4.0}}))
    story.plan()
    story.foresee("a", flat(0, 8), level=0.0)
    story.foresee("b", steep(0, 8), level=1.0)
    plan = story.plan()
    assert change_of(plan, "a").kind == "release"
    assert change_of(plan, "a").sentence.startswith("returns ")
    assert " gives " not in change_of(plan, "a").sentence
    assert decision_of(plan, "a").why.startswith("returns ")


def test_replicas_on_gpus_that_nobody_owns_are_in_use_and_not_borrowed() -> None:
    b = a_model("b", pools=("a100", "spot"), entitlement=2)
    policy = a_policy(b, pools=(a_pool(gpus=2), an_elastic_pool(gpus=8)))
    loads = {"b": {"concurrency": 16.0}}
    story = Story(policy, a_snapshot(policy, {"b": {"a100": 2, "spot": 2}}, loads, nodes={"spot": 1}))
    plan = story.plan()
    assert (decision_of(plan, "b").borrowed, decision_of(plan, "b").unowned) == (2, 2)
    said = render_explain(plan, story.snapshot, "b")
    assert "; 2 replicas in use on GPUs that nobody owns" in said
    assert "borrows" not in said


@pytest.mark.parametrize(
    "closes",
    [{"schedulable": False}, {"ready": False, "ready_changed_at": NOW - 5.0}],
    ids=["cordoned", "not Ready"],
)
def test_gpus_of_a_node_that_receives_nothing_are_closed_and_not_free(closes: dict[str, Any]) -> None:
    policy = a_policy(a_model("b"), pools=(a_pool(gpus=16),))
    story = Story(policy, a_snapshot(policy, {"b": 3}, {"b": {"concurrency": 12.0}}, nodes={"a100": 2}))
    (before,) = story.plan().pools
    first, second = story.view("a100").nodes
    story.pool("a100", nodes=(first, replace(second, **closes)))
    (pool,) = story.plan().pools
    assert (before.closed, pool.closed) == (0, second.gpus)
    assert pool.free == before.free - second.gpus


def test_gpus_of_a_node_under_notice_are_closed_and_not_free() -> None:
    policy = a_policy(a_model("b"), pools=(a_pool(gpus=16),))
    story = Story(policy, a_snapshot(policy, {"b": 3}, {"b": {"concurrency": 12.0}}, nodes={"a100": 2}))
    story.notice("a100-2", 120.0)
    (pool,) = story.plan().pools
    assert pool.closed == 8
    status = render_status(replace(STATUS, plan=Plan(cycle=1, at=NOW, pools=(pool,))))
    assert f"closed 8  free {pool.free}" in status


@pytest.mark.parametrize(
    ("value", "said"),
    [(236.4, "236"), (34.1, "34"), (9.96, "10"), (4.25, "4.2"), (1.0, "1"), (0.246, "0.25"), (0.004, "0"), (0.0, "0")],
)
def test_a_number_for_people_has_two_figures_and_at_most_two_decimals(value: float, said: str) -> None:
    assert figure(value) == said


def test_one_is_singular() -> None:
    assert [counted(n, "replica") for n in (0, 1, 2)] == ["0 replicas", "1 replica", "2 replicas"]
    assert [work_of(n) for n in (0.5, 1.0, 1.04, 2.0)] == [
        "0.5 replicas of work",
        "1 replica of work",
        "1 replica of work",
        "2 replicas of work",
    ]
    assert [listed(each) for each in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_what_a_model_needs_is_said_with_the_level_that_it_is_of() -> None:
    work = Work(last_60s=0.25, slow=1.1)
    assert (
        need_words(work) == "the slow mean of its last 20 minutes, 1.1 replicas of work, needs 3, with room for bursts"
    )
    calm = an_outlook({1: 0.0}, 1, level=0.7)
    assert need_words(work, calm) == "its expected level, 0.7 replicas of work, needs 2, with room for bursts"
    busy = replace(work, last_60s=2.0)
    assert need_words(busy, calm) == "its last minute, 2 replicas of work, needs 5, with room for bursts"
    assert need_words(replace(busy, slow=None)) == need_words(busy, calm)
    assert need_words(Work()) == "what its work needs is unknown"
    for of in ((work, None), (work, calm), (busy, calm)):
        assert f"needs {need_now(*of)}," in need_words(*of)
