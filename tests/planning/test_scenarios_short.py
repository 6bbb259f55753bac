"""Who is short: requests are late or will be. Who would merely use more, and who is kept from it, are told apart.

b holds 2 replicas and looks ahead at a level of 2.0: with room for bursts it needs 5. A request is 0.1 replica-seconds,
so 2.0 x 150 / 0.1 = 3,000 come until the horizon (150 s): more than 30 late ones are more than 1 %. 9 are in flight, 4
on a replica: its votes ask for 3. A replica was seen full with 4.
"""

import pytest
from msgspec.structs import replace

from rebalancer.domain.plan import Plan
from rebalancer.domain.readings import Carries, Work
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_override
from tests.planning.outlooks import an_outlook
from tests.planning.story import Story, decision_of, unmet_of

FULL = Carries(prior=4.0, learnt=4.0, readings=12, low=3.8, high=4.2)
LATE = "2 replicas of work on 2, about {} of 3000 requests late in the next 150 s"


def a_story(late_with_2: float, gpus: int = 2, latency: float | None = None, in_flight: float = 9.0) -> Story:
    """`late_with_2`: requests late until the horizon with the 2 replicas that b holds; with 5 none would be."""
    slo = {"slo": {"latency_seconds": 2.0}, "signals": {"concurrency": {"per_replica": 4.0}, "latency": True}}
    policy = a_policy(a_model("b", 1, entitlement=2, **slo), pools=(a_pool(gpus=gpus),))
    readings = {"concurrency": in_flight} | ({} if latency is None else {"latency": latency})
    story = Story(policy, a_snapshot(policy, {"b": 2}, {"b": readings}, {"b": 2.0}))
    return looking_ahead(carrying(story, FULL), late_with_2)


def carrying(story: Story, carries: Carries | None, **load: object) -> Story:
    """`carries`: what is known of one replica of b; `load`: more that its metrics say."""
    known = (replace(one, carries=carries, **load) if one.model == "b" else one for one in story.snapshot.loads)
    story.snapshot = replace(story.snapshot, loads=tuple(known))
    return story


def looking_ahead(story: Story, late_with_2: float) -> Story:
    late = {count: max(0.0, late_with_2 * (5 - count) / 3) for count in range(1, 9)}
    story.look_ahead("b", an_outlook(late, story.replicas("b"), level=2.0, base=2.0, shifted=2.0, work_of_one=0.1))
    return story


def short(plan: Plan) -> tuple[int, int]:
    """Replicas that b is short of, and those that it would merely use."""
    row = unmet_of(plan, "b")
    return 0 if row is None else row.replicas, decision_of(plan, "b").headroom


@pytest.mark.parametrize(("late", "found"), [(29.0, (0, 3)), (31.0, (3, 0))])
def test_short_begins_where_one_request_in_a_hundred_will_be_late(late: float, found: tuple[int, int]) -> None:
    assert short(a_story(late).plan()) == found


def test_a_model_at_ease_is_not_short_by_the_surges_of_its_past() -> None:
    # 8 in flight at 4 per replica ask for the 2 that it has: only the mean over its past sees late ones.
    assert short(a_story(140.0, latency=0.1, in_flight=8.0).plan()) == (0, 3)


class TestEbb:
    """b holds 2 replicas and expects 5.6 of work, of a surge: 6,000 of 8,400 requests to come would be late."""

    def after_a_surge(self, work: Work, latency: float | None = 0.1, in_flight: float = 4.0, **expected: float) -> Plan:
        story = a_story(0.0, latency=latency, in_flight=in_flight)
        late = {count: 1200.0 * max(0, 7 - count) for count in range(1, 9)}
        outlook = an_outlook(late, 2, level=5.6, base=5.6, shifted=5.6, work_of_one=0.1)
        story.look_ahead("b", replace(outlook, **expected))
        return carrying(story, FULL, work=work).plan()

    def test_what_arrives_now_counts_once_the_surge_is_over(self) -> None:
        found, headroom = short(self.after_a_surge(Work(short=1.2, last_60s=1.2, long=4.0, slow=4.0)))
        assert (found, headroom > 0) == (0, True)

    def test_the_last_minute_tells_of_what_is_over(self) -> None:
        plan = self.after_a_surge(Work(short=1.2, last_60s=4.0, long=4.0, slow=4.0))
        assert short(plan)[0] == 0
        assert decision_of(plan, "b").why.startswith("has 1.2 replicas of work on 2; would use")

    def test_a_surge_that_is_still_on_is_short_while_latency_is_fine(self) -> None:
        assert short(self.after_a_surge(Work(short=4.0, last_60s=4.0, long=4.0, slow=4.0)))[0] > 0

    def test_a_rise_under_way_is_short_though_little_arrives_yet(self) -> None:
        work = Work(short=1.4, last_60s=1.2, long=1.2, slow=1.2)
        assert short(self.after_a_surge(work, level=1.2, base=1.2, shift=0.9, shifted=6.0))[0] > 0

    def test_the_end_of_a_rise_is_none(self) -> None:
        work = Work(short=1.2, last_60s=1.9, long=1.9, slow=1.9)
        assert short(self.after_a_surge(work, level=1.2, base=1.2, shift=0.9, shifted=6.0))[0] == 0

    def test_without_latency_votes_tell_what_still_waits(self) -> None:
        # 9 in flight, 4 on a replica: votes ask for 3.
        work = Work(short=1.2, last_60s=1.2, long=4.0, slow=4.0)
        assert short(self.after_a_surge(work, latency=None, in_flight=9.0))[0] > 0

    def test_who_is_in_time_stays_so_while_its_queue_is_worked_off(self) -> None:
        work = Work(short=1.2, last_60s=3.0, long=4.0, slow=4.0)
        assert short(self.after_a_surge(work, latency=1.9, in_flight=12.0))[0] == 0


def test_latency_over_the_slo_is_short_whatever_is_expected() -> None:
    assert short(a_story(20.0, latency=2.1).plan()) == (3, 0)


def test_latency_within_the_slo_does_not_speak_for_the_next_start() -> None:
    assert short(a_story(90.0, latency=0.1).plan()) == (3, 0)


class TestNobodyHasSeenAFullReplica:
    """The policy says 4, 4.5 on each replica are in time: it carries 4.5 at least, and nobody knows how many more.

    What votes and the look-ahead say in replicas rests on that figure alone.
    """

    UNBOUNDED = Carries(prior=4.0, learnt=4.2, readings=12, low=3.0)

    @pytest.mark.parametrize("carries", [UNBOUNDED, None])
    def test_who_is_in_time_is_not_called_short_by_a_figure_that_this_contradicts(
        self, carries: Carries | None
    ) -> None:
        plan = carrying(a_story(90.0, latency=0.1), carries).plan()
        assert short(plan) == (0, 3)
        assert decision_of(plan, "b").why.endswith("would use 3 more, and is within its SLO with 2 (0.1 s of 2 s)")

    def test_nor_an_owner_whose_votes_for_its_own_do_not_count_yet(self) -> None:
        # b owns 3 and lends one: 2 are enough for its level, 9 in flight ask for 3, which counts after 20 s.
        slo = {"slo": {"latency_seconds": 2.0}, "signals": {"concurrency": {"per_replica": 4.0}, "latency": True}}
        models = a_model("a", 0, entitlement=0), a_model("b", 1, entitlement=3, **slo)
        policy = a_policy(*models, pools=(a_pool(gpus=3),))
        readings = {"a": {"concurrency": 4.0}, "b": {"concurrency": 9.0, "latency": 0.1}}
        story = Story(policy, a_snapshot(policy, {"a": 1, "b": 2}, readings))
        story.foresee("a", {1: 0.0}, level=1.0)
        story.foresee("b", {1: 90.0, 2: 90.0, 3: 0.0}, level=0.4)
        plan = carrying(story, self.UNBOUNDED, work=Work(short=1.9, last_60s=1.2, long=0.4, slow=1.2)).plan()
        assert short(plan)[0] == 0
        assert "lacks 1 replica: its votes ask for 3 of the 3 that it owns" in decision_of(plan, "b").why

    def test_who_is_late_is_short(self) -> None:
        assert short(carrying(a_story(90.0, latency=2.1), self.UNBOUNDED).plan()) == (3, 0)

    def test_latency_says_nothing_of_replicas_that_go(self) -> None:
        story = carrying(a_story(90.0, latency=0.1), self.UNBOUNDED)
        story.notice("a100-1")
        assert short(story.plan()) == (5, 0)


def test_who_has_all_that_it_is_to_have_says_that_its_requests_are_late() -> None:
    story = a_story(0.0, latency=2.1)
    story.look_ahead("b", an_outlook(dict.fromkeys(range(1, 9), 0.0), 2, level=1.0, base=1.0, shifted=1.0))
    plan = story.plan()
    assert short(plan) == (0, 0)
    assert decision_of(plan, "b").why == "has 2 replicas of work on 2; its requests are late: 2.1 s, its SLO 2 s"


def test_who_is_in_time_says_what_it_would_use_and_with_what_it_is_fine() -> None:
    said = decision_of(a_story(20.0, latency=0.1).plan(), "b").why
    assert said == "has 2 replicas of work on 2; would use 3 more, and is within its SLO with 2 (0.1 s of 2 s)"


def test_who_is_short_says_how_late_it_is() -> None:
    row = unmet_of(a_story(90.0, latency=2.6).plan(), "b")
    assert row is not None
    assert row.lateness == f"{LATE.format(90)}; latency is 2.6 s, its SLO 2 s"


def test_without_a_look_ahead_and_without_latency_votes_say_who_is_short() -> None:
    # 12 in flight at 4 per replica ask for 3; a cooldown that keeps the demand higher calls nobody short.
    policy = a_policy(a_model("b", 1, entitlement=2), pools=(a_pool(gpus=2),))
    story = Story(policy, a_snapshot(policy, {"b": 2}, {"b": {"concurrency": 20.0}}))
    story.turns(2)
    assert short(story.plan()) == (3, 0)
    story.load("b", {"concurrency": 8.0})
    assert short(story.plan()) == (0, 3)


class TestOverride:
    """b holds 5 and needs 5; a person caps or pins it at 2."""

    def capped(self, late: float, kind: str = "cap") -> Story:
        story = a_story(late, gpus=16)
        story.turns(3)
        assert story.replicas("b") == 5
        story.override(an_override(kind, "b", 2))
        looking_ahead(story, late).turns(2)
        assert story.replicas("b") == 2
        return story

    @pytest.mark.parametrize("kind", ["cap", "pin"])
    def test_it_hides_no_need(self, kind: str) -> None:
        row = unmet_of(self.capped(140.0, kind).plan(), "b")
        assert row is not None
        assert (row.replicas, row.constraint) == (3, "override")
        assert row.why == f"{kind} 2 by override {kind}-b keeps it at 2"

    def test_it_says_what_it_costs_while_it_stands(self) -> None:
        (state,) = self.capped(140.0).plan().overrides
        assert state.message == (
            "b went from 5 to 2 replicas; in force since 08:00:30; without this override b would have 3 replicas more; "
            "as it is: " + LATE.format(140)
        )

    def test_one_that_makes_nobody_late_costs_nothing(self) -> None:
        plan = self.capped(20.0).plan()
        assert short(plan) == (0, 3)
        assert "keeps" not in plan.overrides[0].message


def test_an_owner_that_is_short_while_it_lends_says_why() -> None:
    # b owns all 8 GPUs and is owed 2 of them: a gains more from the other 6 than b does.
    models = a_model("a", 0, entitlement=0, priority=400), a_model("b", 1, entitlement=8)
    policy = a_policy(*models, pools=(a_pool(gpus=8),))
    readings = {"a": {"concurrency": 40.0}, "b": {"concurrency": 9.0}}
    story = Story(policy, a_snapshot(policy, {"a": 6, "b": 2}, readings, {"a": 10.0, "b": 2.0}))
    story.foresee("a", {count: 90.0 * (12 - count) for count in range(1, 13)}, level=10.0)
    story.foresee("b", {count: 30.0 * 2.0 ** (2 - count) for count in range(1, 9)}, level=2.0)
    row = unmet_of(story.plan(), "b")
    assert row is not None
    assert row.why == (
        "its share of a100 is 2 replicas, since the other GPUs there keep more requests from being late elsewhere; "
        "lends 6 GPUs to a: its work and its votes claim 2 of its own by now; its votes ask for 3 of the 8 that it "
        "owns since 08:00:00, which counts from 08:00:20 on"
    )


@pytest.mark.parametrize(("latency", "replicas"), [(1.9, 0), (2.1, 3)])
def test_who_is_late_with_all_that_its_policy_allows_is_short_of_what_votes_ask_for(
    latency: float, replicas: int
) -> None:
    # 17 are in flight, 4 on a replica: votes ask for 5. maxReplicas is 2, and both serve.
    slo = {"slo": {"latency_seconds": 2.0}, "signals": {"concurrency": {"per_replica": 4.0}, "latency": True}}
    policy = a_policy(a_model("b", 1, max_replicas=2, entitlement=2, **slo), pools=(a_pool(gpus=8),))
    readings = {"concurrency": 17.0, "latency": latency}
    plan = Story(policy, a_snapshot(policy, {"b": 2}, {"b": readings}, {"b": 2.0})).plan()
    row = unmet_of(plan, "b")
    assert (0 if row is None else row.replicas) == replicas
    if row is not None:
        assert (row.constraint, row.why) == ("maximum", "its policy allows 2 replicas at most (maxReplicas)")
    assert plan.changes == ()
