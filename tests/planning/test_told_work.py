"""The explanation says how offered work is known, why no better, and what a replica is taken to carry."""

from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Step
from rebalancer.domain.readings import Carries, Work
from rebalancer.planning import plan
from tests.builders import a_load, a_policy, a_snapshot

COUNTED = Work(2.0, 2.5, 2.0, 2.0, "arrivals", 1.0)


def told(work: Work, carries: Carries | None = None, in_flight: float | None = 4.0) -> Step:
    """The step `work` of model b; `in_flight`: None while no sample tells."""
    policy = a_policy()
    load = a_load("b", {} if in_flight is None else {"concurrency": in_flight}, work, carries=carries)
    snapshot = a_snapshot(policy, {"a": 1, "b": 2})
    snapshot = replace(snapshot, loads=tuple(load if each.model == "b" else each for each in snapshot.loads))
    (model,) = (each for each in plan(snapshot, policy, Memory()).plan.models if each.model == "b")
    (step,) = (each for each in model.steps if each.stage == "work")
    return step


def test_the_path_is_told_with_its_resolution_and_what_a_better_one_lacks() -> None:
    work = Work(2.0, 2.5, 2.0, 2.0, "concurrency", 5.0, "nobody counts tokens")
    assert told(work).said == "2.5 replicas of work in the last minute, by concurrency every 5 s (nobody counts tokens)"


def test_the_best_path_lacks_nothing() -> None:
    step = told(Work(2.0, 2.5, 2.0, 2.0, "arrivals", 1.0))
    assert step.said == "2.5 replicas of work in the last minute, by arrivals every 1 s"
    assert step.numbers == {"source": "arrivals", "resolutionSeconds": 1.0, "work": 2.5}


def test_nothing_told_is_unknown() -> None:
    assert told(Work(), in_flight=None).said == "unknown: no sample tells what is asked of the model"


def test_work_that_samples_show_for_too_short_a_time_is_not_said_to_be_shown_by_none() -> None:
    brief = "unknown: seen for less than half of the last minute"
    assert told(Work()).said == brief
    work = Work(slow=2.0, source="concurrency", resolution_seconds=5.0, why_not_better="nobody counts tokens")
    assert told(work).said == f"{brief}, by concurrency every 5 s (nobody counts tokens)"


def test_what_a_replica_carries_is_told_beside_the_policys_figure() -> None:
    step = told(COUNTED, Carries(prior=4.0, learnt=5.5, readings=340, low=5.0, high=6.0))
    carried = "a replica carries about 5.5 requests (5 to 6 by 340 readings"
    assert step.said.endswith(f"; {carried}; the policy says 4, yet more was carried)")
    assert (step.numbers["carries"], step.numbers["carriesLow"], step.numbers["carriesHigh"]) == (5.5, 5.0, 6.0)


def test_a_figure_above_all_that_is_likely_is_told_why_it_is_not_believed() -> None:
    said = told(COUNTED, Carries(prior=7.0, learnt=5.5, readings=340, low=5.0, high=6.0)).said
    assert said.endswith("; the policy says 7, yet it was full, or broke the SLO, with fewer)")
    said = told(COUNTED, Carries(prior=5.9, learnt=5.5, readings=340, low=5.0, high=6.0)).said
    assert said.endswith("; the policy says 5.9)")


def test_what_nobody_has_seen_break_is_told_as_at_least() -> None:
    said = told(COUNTED, Carries(prior=None, learnt=5.5, readings=12, low=5.0)).said
    assert said.endswith("; a replica carries about 5.5 requests (5 or more by 12 readings; the policy says nothing)")


def test_before_anything_was_seen_it_is_the_policys_word() -> None:
    assert told(COUNTED, Carries(prior=4.0, learnt=4.0, readings=0)).said.endswith(
        "; a replica is taken to carry 4 requests: the policy says 4"
    )


def test_a_cache_that_holds_less_than_the_policy_says_is_told() -> None:
    said = told(COUNTED, Carries(prior=128.0, learnt=8.0, readings=0, cached=8.0)).said
    assert said.endswith("; a replica is taken to carry 8 requests: the policy says 128, but its cache holds 8")


def test_work_that_nobody_can_tell_yet_says_why() -> None:
    why = "what a replica carries is not learnt yet"
    assert told(Work(why_not_better=why)).said == (
        f"unknown: {why}: it takes one full replica, or ten minutes at work within the SLO "
        "(without a queue where none is set); to set it now: signals.concurrency.perReplica"
    )
