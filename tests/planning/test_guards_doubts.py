"""Guards that doubt what signals say: agree (one of several), sudden (most models at once), plausible (a jump).

`make mutants` breaks each guard and shifts each limit by one; the tests marked by its name must then fail.
"""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Outage
from rebalancer.domain.readings import Work
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_override
from tests.planning.doubts import a_fleet, a_jumping_model, an_outlook, offered, says
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


def outage_of(story: Story) -> Outage | None:
    return story.memory.outage


class TestAgree:
    def test_one_usable_vote_of_two_takes_nothing(self) -> None:
        story = a_donor_of(TWO, concurrency=4.0)
        plan = story.plan()
        assert moves(plan) == {}
        refusal = refusal_of(plan, "agree", "a")
        assert refusal.numbers == {"usable": 1, "needed": 2, "configured": 2}
        assert refusal.why == "1 of 2 usable votes: utilisation never-seen"
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


class TestSudden:
    def falls(self, story: Story, *models: str, to: float = 2.0) -> None:
        for model in models:
            offered(story, model, to)

    def test_nothing_is_taken_for_fifteen_minutes_after_most_models_lost_half_of_their_work_at_once(self) -> None:
        story = a_fleet()
        story.turn(30.0)
        self.falls(story, "m0", "m1", "m2")
        began = story.snapshot.at
        story.turn(40.0)  # votes must be lower for a while
        plan = story.turn(30.0)
        assert moves(plan) == {}
        refusal = refusal_of(plan, "sudden", "m0")
        assert refusal.numbers == {"fell": 3, "of": 4, "drop": 0.5, "window_seconds": 120.0, "had": 4.0}
        assert refusal.why == (
            "3 of 4 models with work lost 50% of it or more within 120 s, and nobody rose; "
            "this one has 2 of 4 replicas of work"
        )
        assert refusal.until == began + 900.0
        story.wait(began + 899.0 - story.snapshot.at)
        assert moves(story.turn(1.0)) == {}
        assert moves(story.turn()) != {}

    def test_half_of_the_models_is_not_most(self) -> None:
        story = a_fleet()
        story.turn(30.0)
        self.falls(story, "m0", "m1")
        story.turn(31.0)
        assert moves(story.turn()) != {}
        assert "sudden" not in {guard for guard, _ in refused(story.plans[-1])}

    def test_a_little_less_than_half_is_no_fall(self) -> None:
        story = a_fleet()
        story.turn(30.0)
        self.falls(story, "m0", "m1", "m2", "m3", to=2.001)
        story.turn()
        assert outage_of(story) is None

    def test_a_fall_that_takes_longer_than_two_minutes_is_calm(self) -> None:
        for seconds, outage in ((120.0, True), (121.0, False)):
            story = a_fleet()
            story.turn(seconds)
            self.falls(story, "m0", "m1", "m2", "m3")
            story.turn()
            assert (outage_of(story) is not None) is outage

    def test_step_by_step_within_two_minutes_is_seen_too(self) -> None:
        story = a_fleet()
        for work in (4.0, 3.5, 3.0, 2.5, 2.0):
            self.falls(story, "m0", "m1", "m2", "m3", to=work)
            story.turn(20.0)
        assert outage_of(story) is not None

    def test_models_with_next_to_no_work_do_not_count(self) -> None:
        # A minute of a few requests halves by chance: m0 and m1 alone have work, and both keep it.
        story = a_fleet()
        self.falls(story, "m2", "m3", to=0.4)
        story.turn(30.0)
        self.falls(story, "m2", "m3", to=0.0)
        story.turn()
        assert outage_of(story) is None
        self.falls(story, "m0", "m1")
        story.turn()
        outage = outage_of(story)
        assert outage is not None
        assert (outage.fell, outage.of) == (2, 2)

    def test_one_model_alone_is_no_outage(self) -> None:
        # What is in front of it cannot be told from its own calm.
        story = a_fleet()
        self.falls(story, "m1", "m2", "m3", to=0.0)
        story.turn(100.0)
        self.falls(story, "m0")
        story.turn()
        assert outage_of(story) is None

    def test_a_model_that_fell_so_by_itself_within_the_hour_says_nothing(self) -> None:
        for seconds, outage in ((3600.0, None), (3601.0, (3, 4))):
            story = a_fleet()
            story.turn(30.0)
            self.falls(story, "m0", "m1")
            alone = story.snapshot.at
            story.turn(200.0)
            self.falls(story, "m0", "m1", to=4.0)
            story.turn(200.0)
            assert outage_of(story) is None
            story.turn(alone + seconds - 60.0 - story.snapshot.at)
            self.falls(story, "m0", "m1", "m2", "m3", to=4.0)
            story.turn(60.0)
            self.falls(story, "m0", "m1", "m2")
            story.turn()
            found = outage_of(story)
            assert (found and (found.fell, found.of)) == outage

    def test_a_fall_in_an_outage_is_no_precedent(self) -> None:
        # The first of them is seen to fall a little before the others.
        story = a_fleet()
        for _ in range(2):
            self.falls(story, "m0", "m1", "m2", "m3", to=4.0)
            story.turns(20, 60.0)
            assert outage_of(story) is None
            self.falls(story, "m0")
            story.turn(20.0)
            self.falls(story, "m0", "m1", "m2")
            story.turn()
            outage = outage_of(story)
            assert outage is not None
            assert (outage.fell, outage.of) == (3, 4)

    def test_unknown_work_is_no_fall(self) -> None:
        story = a_fleet()
        story.turn(30.0)
        for name in ("m0", "m1", "m2", "m3"):
            story.load(name)
            story.snapshot = replace(
                story.snapshot, loads=tuple(replace(load, work=Work()) for load in story.snapshot.loads)
            )
        story.turn()
        assert outage_of(story) is None

    def test_only_a_further_fall_prolongs_it(self) -> None:
        story = a_fleet()
        story.turn(30.0)
        self.falls(story, "m0", "m1", "m2")
        began = story.snapshot.at
        story.turns(3)
        outage = outage_of(story)
        assert outage is not None
        assert outage.until == began + 900.0
        self.falls(story, "m0", "m1", "m2", to=0.9)
        again = story.snapshot.at
        story.turns(2)
        outage = outage_of(story)
        assert outage is not None
        assert outage.until == again + 900.0

    def rises(self, story: Story, model: str, to: float, slow: float) -> None:
        """Its last minute is offered `to`, its means of up to 20 minutes say `slow`."""
        story.load(model, {"concurrency": 4.0 * to}, Work(short=to, last_60s=to, long=slow, slow=slow))

    def test_who_gains_as_large_a_share_as_others_lost_speaks_against_it(self) -> None:
        for to, slow, outage in ((6.0, 4.0, False), (5.99, 4.0, True), (0.59, 0.1, True), (0.6, 0.1, False)):
            story = a_fleet()
            offered(story, "m3", slow)
            story.turn(30.0)
            self.falls(story, "m0", "m1", "m2", to=0.0)
            self.rises(story, "m3", to, slow)
            story.turn()
            assert (outage_of(story) is not None) is outage
            assert any(moves(plan) for plan in story.turns(6, 20.0)) is not outage

    def test_who_rises_later_ends_it(self) -> None:
        story = a_fleet()
        story.turn(30.0)
        self.falls(story, "m0", "m1", "m2", to=0.0)
        story.turns(6, 20.0)
        assert outage_of(story) is not None
        self.rises(story, "m3", 8.0, 4.0)
        assert "m0" in moves(story.turn())
        assert outage_of(story) is None

    def test_who_comes_back_is_no_riser_and_free_again_itself(self) -> None:
        # Half of four replicas of work and a little is not silence any more; its means still remember the outage.
        for to, free in ((2.0, False), (2.001, True)):
            story = a_fleet()
            story.turn(30.0)
            self.falls(story, "m0", "m1", "m2", to=0.0)
            story.turns(20)
            self.rises(story, "m0", to, 1.0)
            story.turns(6)
            assert outage_of(story) is not None
            said = refused(story.plans[-1])
            assert (("sudden", "m0") not in said) is free
            assert ("sudden", "m1") in said

    def test_who_did_not_fall_may_give(self) -> None:
        story = a_fleet()
        story.turn(30.0)
        self.falls(story, "m0", "m1", "m2", to=0.0)
        self.falls(story, "m3", to=2.1)
        plans = story.turns(8)
        assert outage_of(story) is not None
        assert {model for plan in plans for model in moves(plan)} == {"m3"}

    def test_who_falls_while_it_lasts_is_part_of_it_and_does_not_prolong_it(self) -> None:
        story = a_fleet()
        story.turn(30.0)
        self.falls(story, "m0", "m1", "m2", to=0.0)
        began = story.snapshot.at
        story.turns(20)
        self.falls(story, "m3", to=0.0)
        story.turns(10)
        outage = outage_of(story)
        assert outage is not None
        assert [one.model for one in outage.silent] == ["m0", "m1", "m2", "m3"]
        assert outage.until == began + 900.0
        assert ("sudden", "m3") in refused(story.plans[-1])

    def test_an_outage_that_names_nobody_concerns_everybody(self) -> None:
        # As a checkpoint of an older version has it.
        story = a_fleet()
        story.turn(30.0)
        story.memory = replace(story.memory, outage=Outage(story.snapshot.at, story.snapshot.at + 900.0, 3, 4))
        self.falls(story, "m0", to=2.1)
        story.turns(6, 20.0)
        assert refusal_of(story.plans[-1], "sudden", "m0").why.endswith("and nobody rose")

    def test_a_reclaim_a_person_and_a_drain_pass_it(self) -> None:
        def an_outage(entitlement: int = 1) -> Story:
            models = (a_model("a", 1, priority=1), a_model("b", 1, priority=1000, entitlement=entitlement))
            policy = a_policy(*models, pools=(a_pool(gpus=8),), guards={"sudden": {"least_models": 1}})
            story = Story(policy, a_snapshot(policy, {"a": 7, "b": 1}, {"a": {"concurrency": 28.0}}, {"a": 7.0}))
            story.turn()
            offered(story, "a", 0.0)
            story.load("b", {"concurrency": 32.0}, 8.0)
            return story

        shift = an_outage()
        shift.turn()
        assert moves(shift.plan()) == {}
        assert ("sudden", "a") in refused(shift.plans[-1])
        assert moves(an_outage(entitlement=7).plan()) == {"a": (7, 1)}
        person = an_outage()
        person.override(an_override("pin", "a", 3))
        assert moves(person.plan())["a"] == (7, 3)
        drain = an_outage()
        drain.notice("a100-1", karpenter=True)
        assert moves(drain.plan())["a"] == (7, 1)


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
