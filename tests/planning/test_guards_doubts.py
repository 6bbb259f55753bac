"""Guards that doubt what signals say: agree (one of several), plausible (a jump).

`make mutants` breaks each guard and shifts each limit by one; the tests marked by its name must then fail.
"""

import pytest

from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_override
from tests.planning.doubts import a_jumping_model, an_outlook, says
from tests.planning.story import Story, decision_of, moves, refusal_of, refused, unmet_of

TWO = {"concurrency": {"per_replica": 4.0}, "utilisation": True}
THREE = {**TWO, "kv_cache": {"high": 0.8, "low": 0.3}}


def a_donor_of(signals: dict[str, object], entitlement: int = 1, **readings: float) -> Story:
    """A holds 7 and has little to do; b wants the whole pool, with a higher priority."""
    models = (
        a_model("a", 1, priority=1, signals=signals),
        a_model("b", 1, priority=1000, entitlement=entitlement),
    )
    policy = a_policy(*models, pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, {"a": 7, "b": 1}, {"a": readings, "b": {"concurrency": 32.0}}))
    story.turn()  # borrowing waits one planning period
    return story


class TestAgree:
    def test_one_usable_vote_of_two_takes_nothing(self) -> None:
        story = a_donor_of(TWO, concurrency=4.0)
        plan = story.plan()
        assert moves(plan) == {}
        refusal = refusal_of(plan, "agree", "a")
        assert refusal.numbers == {"usable": 1, "needed": 2, "configured": 2}
        assert refusal.why == "1 usable vote where 2 must agree: utilisation was never seen"
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "agree"

    def test_two_usable_votes_do_of_two_or_more(self) -> None:
        for signals in (TWO, THREE):
            story = a_donor_of(signals, concurrency=0.0, utilisation=0.01)
            story.turns(3, 20.0)
            assert story.replicas("a") == 1

    def test_the_only_one_does_where_one_is_configured(self) -> None:
        assert moves(a_donor_of({"concurrency": {"per_replica": 4.0}}, concurrency=28.0).plan()) == {"a": (7, 1)}

    def test_a_reclaim_passes_it(self) -> None:
        assert moves(a_donor_of(TWO, 7, concurrency=4.0).plans[0])["a"] == (7, 1)

    def test_a_person_and_a_drain_pass_it(self) -> None:
        story = a_donor_of(TWO, concurrency=28.0)
        story.load("b", {"concurrency": 4.0})
        story.override(an_override("cap", "a", 3))
        assert moves(story.plan()) == {"a": (7, 3)}
        story.override()
        story.notice("a100-1", karpenter=True)
        assert moves(story.plan())["a"] == (7, 1)


class TestPlausible:
    def test_a_jump_raises_nothing_until_three_samples_say_so(self) -> None:
        # Usual is 1 replica of work; 25 are beyond 20 of those. Samples come every 5 s.
        story = a_jumping_model()
        says(story, requests=100.0)
        plan = story.turn(5.0)
        assert moves(plan) == {}
        refusal = refusal_of(plan, "plausible", "b")
        assert (refusal.replicas_from, refusal.replicas_to) == (2, 25)
        assert refusal.numbers == {"work": 25.0, "limit": 20.0, "usual": 1.0, "samples": 1, "wanted": 3}
        assert refusal.until == plan.at - 1.0 + 10.0
        assert moves(story.turn(5.0)) == {}
        assert refusal_of(story.plans[-1], "plausible", "b").numbers["samples"] == 2
        assert moves(story.turn())["b"] == (2, 40)
        assert "plausible" not in {guard for guard, _ in refused(story.plans[-1])}

    def test_twenty_times_is_no_jump_and_a_replica_more_is(self) -> None:
        for requests, jumps in ((80.0, False), (81.0, True)):
            story = a_jumping_model()
            says(story, requests=requests)
            assert (("plausible", "b") in refused(story.plan())) is jumps

    def test_the_last_hours_median_is_the_measure_where_it_is_more_than_one_replica(self) -> None:
        for usual, jumps in ((1.2, True), (1.3, False), (0.1, True)):
            story = a_jumping_model(usual)
            says(story, requests=100.0, usual=usual)
            assert (("plausible", "b") in refused(story.plan())) is jumps

    def test_a_second_signal_that_asks_for_more_confirms_it_at_once(self) -> None:
        story = a_jumping_model(utilisation=True)
        says(story, requests=100.0, utilisation=0.5)  # between the watermarks: it says nothing
        assert ("plausible", "b") in refused(story.plan())
        says(story, requests=100.0, utilisation=0.9)
        assert moves(story.plan())["b"] == (2, 40)

    def test_samples_must_come_in_a_row(self) -> None:
        story = a_jumping_model()
        for requests in (100.0, 100.0, 8.0, 100.0, 100.0):
            says(story, requests=requests, wants=2)
            story.turn(5.0)
        assert refusal_of(story.plans[-1], "plausible", "b").numbers["samples"] == 2

    def test_one_bad_sample_in_the_means_leaves_the_decision_to_votes(self) -> None:
        # The sample is over, its trace in the level is not: 12 requests are 3 replicas, and 3 it gets.
        story = a_jumping_model()
        says(story, requests=12.0, level=500.0)
        story.turn()
        plan = story.turn()
        assert refusal_of(plan, "plausible", "b").numbers["samples"] == 0
        assert story.replicas("b") == 3
        assert decision_of(plan, "b").demand == 3

    def test_the_model_keeps_what_it_has_and_what_it_was_to_have(self) -> None:
        # Both have 4 of 8; the look-ahead would give all to b, whose work is said to be a thousand replicas.
        a, b = (a_model(name, 1, priority=priority) for name, priority in (("a", 1), ("b", 1000)))
        policy = a_policy(a, b, pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 4, "b": 4}))
        for name, requests in (("a", 16.0), ("b", 4000.0)):
            outlook = an_outlook(1.0, 1000.0 if name == "b" else 1.0, current=4)
            story.load(name, {"concurrency": requests}, outlook=outlook)
        plan = story.plan()
        assert moves(plan) == {}
        assert decision_of(plan, "b").allocation == 4
        assert unmet_of(plan, "b") is None

    def test_a_confirmed_jump_is_the_measure_of_the_next_for_an_hour(self) -> None:
        story = a_jumping_model()
        says(story, requests=100.0)
        story.turns(3, 5.0)
        says(story, requests=1200.0)
        story.wait(3500.0)
        assert ("plausible", "b") not in refused(story.plan())
        says(story, requests=2400.0)
        assert ("plausible", "b") in refused(story.plan())
        says(story, requests=1200.0)
        assert ("plausible", "b") not in refused(story.plan())
        story.wait(100.0)
        assert ("plausible", "b") in refused(story.plan())

    def test_a_confirmed_jump_stays_the_measure_though_a_plan_sees_no_fresh_samples(self) -> None:
        story = a_jumping_model()
        says(story, requests=100.0)
        story.turns(3, 5.0)
        story.load("b")
        story.turn(5.0)
        says(story, requests=200.0)
        assert ("plausible", "b") not in refused(story.plan())

    def test_a_model_of_which_no_hour_is_known_is_believed(self) -> None:
        story = a_jumping_model(usual=None)
        says(story, requests=100.0, usual=None)
        assert moves(story.plan())["b"] == (2, 40)

    @pytest.mark.parametrize(("kind", "value", "gets"), [("pin", 5, 5), ("floor", 6, 6)])
    def test_a_person_is_not_doubted(self, kind: str, value: int, gets: int) -> None:
        story = a_jumping_model()
        says(story, requests=4000.0)
        story.override(an_override(kind, "b", value))
        assert moves(story.plan())["b"] == (2, gets)
