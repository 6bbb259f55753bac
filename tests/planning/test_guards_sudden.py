"""Guard sudden: work that falls at once in most models is an outage, unless somebody who would notice rises.

`make mutants` breaks it and shifts each of its limits by one; these tests must then fail.
"""

from msgspec.structs import replace

from rebalancer.domain.memory import Outage, Rose
from rebalancer.domain.readings import Work
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_override
from tests.planning.doubts import a_fleet, offered, told_by
from tests.planning.story import Story, decision_of, moves, refusal_of, refused


def outage_of(story: Story, source: str = "") -> Outage | None:
    """The one of `source` that is believed."""
    return next((one for one in story.memory.outages if one.source == source and one.against is None), None)


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
        numbers = {"fell": 3, "of": 4, "drop": 0.5, "window_seconds": 120.0, "had": 4.0, "source": None}
        assert refusal.numbers == numbers
        assert refusal.why == (
            "m0, m1 and m2 lost 50% or more of their work within 120 s (3 of the 4 models with work) and nobody rose, "
            "which looks like an outage in front of them and not like calm; this one has 2 of 4 replicas of work left "
            "and keeps what it has until more than 2 are back"
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
            plans = story.turns(6, 20.0)
            assert any(moves(plan) for plan in plans) is not outage
            said = "no outage: m3 rose meanwhile" in str(decision_of(plans[0], "m0").steps)
            assert said is not outage

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

    def test_the_models_of_one_dead_gateway_are_held_though_they_are_few_and_others_rise(self) -> None:
        # Of six models two fall: no outage in front of all. Who goes by another gateway speaks for neither.
        story = a_fleet(6)
        told_by(story, "engines", "west", m0=("east", "engines"), m1=("east", "engines"))
        story.turn(30.0)
        self.falls(story, "m0", "m1", to=0.0)
        self.rises(story, "m5", 6.0, 4.0)
        self.falls(story, "m4", to=2.1)
        plans = story.turns(6, 20.0)
        outage = outage_of(story, "east")
        assert outage is not None
        assert [one.model for one in outage.silent] == ["m0", "m1"]
        assert [one.source for one in story.memory.outages] == ["east"]
        assert {model for plan in plans for model in moves(plan)} >= {"m4"}
        assert not {model for plan in plans for model in moves(plan)} & {"m0", "m1"}
        assert refusal_of(plans[-1], "sudden", "m0").why == (
            "m0 and m1 lost 50% or more of their work within 120 s (2 of the 2 models with work that east tells of) "
            "and nobody rose, which looks like an outage in front of them and not like calm; models that others tell "
            "of say nothing about east; this one has 0 of 4 replicas of work left and keeps what it has until more "
            "than 2 are back"
        )

    def test_a_producer_that_reports_zeros_is_not_believed_because_a_model_that_another_tells_of_rises(self) -> None:
        for of_m3, outage in (("zeros", False), ("other", True)):
            story = a_fleet()
            told_by(story, "zeros", m3=(of_m3,))
            story.turn(30.0)
            self.falls(story, "m0", "m1", "m2", to=0.0)
            self.rises(story, "m3", 6.0, 4.0)
            plans = story.turns(6, 20.0)
            assert outage_of(story) is None
            assert (outage_of(story, "zeros") is not None) is outage
            assert any("m0" in moves(plan) for plan in plans) is not outage

    def test_who_rises_among_those_that_a_producer_tells_of_speaks_for_it(self) -> None:
        story = a_fleet(6)
        told_by(story, "east", m4=("west",), m5=("west",))
        story.turn(30.0)
        self.falls(story, "m0", "m1", "m2", to=0.0)
        self.rises(story, "m3", 6.0, 4.0)
        story.turn()
        assert {one.source: one.against for one in story.memory.outages} == {"east": Rose("m3", 6.0, 4.0)}
        assert outage_of(story, "east") is None
        assert any("m0" in moves(plan) for plan in story.turns(6, 20.0))

    def test_a_producer_of_one_model_says_nothing_about_what_is_in_front_of_it(self) -> None:
        story = a_fleet()
        told_by(story, "west", m0=("east",))
        story.turn(30.0)
        self.falls(story, "m0", to=0.0)
        story.turn()
        assert story.memory.outages == ()

    def test_an_outage_of_a_gateway_that_has_told_of_nobody_since_a_start_lasts(self) -> None:
        story = a_fleet()
        told_by(story, "east", m2=("west",), m3=("west",))
        story.turn(30.0)
        self.falls(story, "m0", "m1", to=0.0)
        story.turn()
        told_by(story)
        assert not {model for plan in story.turns(6, 20.0) for model in moves(plan)} & {"m0", "m1"}
        assert outage_of(story, "east") is not None
        self.falls(story, "m0", to=4.0)
        story.turn()
        assert "no outage" not in str(decision_of(story.plans[-1], "m1").steps)

    def test_two_outages_at_a_time_end_each_for_itself(self) -> None:
        story = a_fleet(6)
        told_by(story, "east", m2=("west",), m3=("west",), m4=(), m5=())
        story.turn(30.0)
        self.falls(story, "m0", "m1", to=0.0)
        east = story.snapshot.at
        story.turns(2)
        self.falls(story, "m2", "m3", to=0.0)
        self.rises(story, "m5", 6.0, 4.0)  # else all of them would be one outage in front of all
        west = story.snapshot.at
        story.turns(2)
        ends = {source: outage.until for source in ("east", "west") if (outage := outage_of(story, source))}
        assert ends == {"east": east + 900.0, "west": west + 900.0}
        story.wait(east + 900.0 - story.snapshot.at)
        assert "m0" in moves(story.turn())
        assert outage_of(story, "east") is None
        assert ("sudden", "m2") in refused(story.plans[-1])

    def test_who_spoke_against_it_is_told_as_long_as_an_outage_would_have_held_or_until_the_work_is_back(self) -> None:
        story = a_fleet()
        story.turn(30.0)
        self.falls(story, "m0", "m1", "m2", to=0.0)
        self.rises(story, "m3", 8.0, 4.0)
        began = story.snapshot.at
        why = (
            "m0, m1 and m2 lost 50% or more of their work within 120 s (3 of the 4 models with work) at 08:00:30, "
            "which is no outage: m3 rose meanwhile from a mean of 4 to 8 replicas of work"
        )
        for plan in story.turns(2, 20.0):  # the fall is still seen 20 s later, and is the same one
            assert [step.said for step in decision_of(plan, "m0").steps if step.stage == "outage"] == [why]
        self.falls(story, "m1", to=4.0)
        plan = story.turn(0.0)
        told = {model for model in ("m0", "m1", "m2") if "no outage" in str(decision_of(plan, model).steps)}
        assert told == {"m0", "m2"}
        story.wait(began + 900.0 - story.snapshot.at)
        assert "no outage" not in str(decision_of(story.turn(), "m0").steps)

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
