"""Batch work by its deadline: it has what others leave idle, gives way at once, and is done in time.

b is batch and shares 8 GPUs with a, which is interactive. 400 requests of b wait, of one replica-second each, and no
more come; they are due an hour after they were first seen, at NOW. A start and 90 s are 150 s.
"""

import pytest
from msgspec.structs import replace

from rebalancer.domain.plan import Plan, Step
from rebalancer.domain.policy import Model
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.outlooks import HORIZON_SECONDS, an_outlook
from tests.planning.story import Story, decision_of, unmet_of

HOUR, WAITING = 3600.0, 400.0
DONE_BY = 0.75 * HOUR - HORIZON_SECONDS  # what is due takes three quarters of its time, less a start and 90 s


def a_story(held: dict[str, int], saves: float, level: float = 1.0, b: Model | None = None) -> Story:
    """Every replica saves a so many late requests; `level`: of a's work, which needs level + 1.5 roots of it."""
    policy = a_policy(a_model("a"), b or batch(), pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, held))
    wait_in(story, WAITING)
    of_a(story, saves, level)
    return story


def batch(**said: object) -> Model:
    return a_model("b", 0, workload_class="batch", **said)


def of_a(story: Story, saves: float, level: float = 1.0) -> None:
    story.load("a", {"concurrency": 4.0 * level}, work=level)
    story.foresee("a", {count: saves * (8 - count) for count in range(1, 9)}, level=level)


def wait_in(story: Story, requests: float, *, told: bool = True) -> None:
    """So many of b wait from now on; what is left of them at the horizon is what each count costs."""
    story.load("b", {"concurrency": requests} | ({"queue": requests} if told else {}))
    left = {count: max(0.0, requests - HORIZON_SECONDS * count) for count in range(9)}
    found = an_outlook(left, story.replicas("b"), story.policy.models[1], level=0.001, work_of_one=1.0)
    story.look_ahead("b", replace(found, deferred=True))


def at(story: Story, seconds: float) -> Plan:
    """The plan so many seconds after NOW, with everything as it was."""
    story.wait(NOW + seconds - story.snapshot.at)
    return story.plan()


def shares(plan: Plan) -> dict[str, int]:
    return {one.model: one.allocation for one in plan.models}


def step(plan: Plan) -> Step | None:
    return next((each for each in decision_of(plan, "b").steps if each.stage == "deferral"), None)


class TestDeadline:
    def test_it_has_at_once_what_nobody_else_gains_from(self) -> None:
        # 3 do 400 replica-seconds in 150 s; a fourth gains nothing.
        assert shares(a_story({"a": 8, "b": 0}, saves=0.0).plan())["b"] >= 3

    def test_work_that_has_just_come_gives_way(self) -> None:
        # b's first replicas do 150 requests each, which count a tenth: 15 < 50.
        assert shares(a_story({"a": 5, "b": 3}, saves=50.0).plan()) == {"a": 8, "b": 0}

    @pytest.mark.parametrize(("gone", "replicas"), [(0.1, 0), (0.45, 1)])
    def test_the_longer_it_has_waited_the_more_it_counts(self, gone: float, replicas: int) -> None:
        # 0.1 ** (1 - 0.47 / 0.5) = 0.87 of 150 requests are more than 50. One replica suffices by now: what a second
        # one would do counts a tenth.
        story = a_story({"a": 8, "b": 0}, saves=50.0)
        story.plan()
        at(story, gone * HOUR / 2)
        assert shares(at(story, gone * HOUR))["b"] == replicas

    @pytest.mark.parametrize(
        ("seconds", "replicas"),
        [(DONE_BY - WAITING - 2, 0), (DONE_BY - WAITING + 1, 2), (DONE_BY - 140, 3), (DONE_BY + 600, 3)],
    )
    def test_what_is_due_comes_before_what_others_gain(self, seconds: float, replicas: int) -> None:
        # They were seen a second before NOW. One replica would need 400 s, so two when less is left. a gains more from
        # each, but needs ceil(1 + 1.5) = 3 of the 8.
        story = a_story({"a": 8, "b": 0}, saves=10_000.0)
        story.plan()
        assert shares(at(story, seconds))["b"] == replicas

    def test_but_not_before_what_others_need(self) -> None:
        # 4.4 replicas of work need ceil(4.4 + 1.5 x 2.1) = 8.
        story = a_story({"a": 8, "b": 0}, saves=10_000.0, level=4.4)
        story.plan()
        plan = at(story, DONE_BY)
        assert shares(plan) == {"a": 8, "b": 0}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.replicas == 3

    def test_who_has_nothing_due_yet_is_not_short(self) -> None:
        assert unmet_of(a_story({"a": 8, "b": 0}, saves=50.0).plan(), "b") is None

    def test_it_gives_way_at_once(self) -> None:
        # Its work would keep 7 busy, of which the guard `shift` would let it give half; none of it is due.
        story = a_story({"a": 1, "b": 7}, saves=0.0)
        story.load("b", {"concurrency": 28.0, "queue": WAITING}, work=7.0)
        story.look_ahead(
            "b", replace(an_outlook(dict.fromkeys(range(9), 0.0), 7, story.policy.models[1]), deferred=True)
        )
        of_a(story, 50.0)
        plan = story.plan()
        assert {change.model: change.replicas_to for change in plan.changes} == {"b": 0}

    def test_who_was_served_meanwhile_leaves_others_who_are_new(self) -> None:
        story = a_story({"a": 8, "b": 0}, saves=10_000.0)
        story.plan()
        story.wait(DONE_BY - 60.0)
        wait_in(story, 0.0)
        story.plan()
        story.wait(60.0)
        wait_in(story, WAITING)
        assert shares(story.plan())["b"] == 0

    def test_what_is_due_within_a_start_counts_as_others_do(self) -> None:
        # 150 > 50: there is no time in which it could give way.
        story = a_story({"a": 8, "b": 0}, 50.0, b=batch(deferral={"deadline_seconds": float(HORIZON_SECONDS)}))
        assert shares(story.plan())["b"] >= 2
        assert step(story.plan()) is None

    def test_its_promise_is_its_deadline(self) -> None:
        story = a_story({"a": 8, "b": 0}, 50.0, b=batch(slo={"latency_seconds": float(HORIZON_SECONDS)}))
        assert shares(story.plan())["b"] >= 2

    def test_explained_with_its_instants(self) -> None:
        # NOW is 08:00; one replica has to begin 400 s and a start before 08:45.
        story = a_story({"a": 8, "b": 0}, saves=10_000.0)
        found = step(story.plan())
        assert found is not None
        assert found.said == (
            "400 requests are due by 08:59:59, and one replica that starts at 08:35:49 suffices; "
            "the oldest request counts 0.1 of its priority"
        )
        found = step(at(story, DONE_BY))
        assert found is not None
        assert found.said.startswith(
            "400 requests are due by 08:59:59: that takes 3 replicas now; the oldest request counts"
        )

    def test_explained_what_does_not_fit_beside_others(self) -> None:
        story = a_story({"a": 8, "b": 0}, saves=10_000.0, level=3.0)
        story.plan()
        found = step(at(story, DONE_BY))
        assert found is not None
        assert "that takes 3 replicas now, of which 2 fit beside what others need" in found.said

    def test_explained_when_nobody_waits(self) -> None:
        story = a_story({"a": 8, "b": 0}, saves=50.0)
        wait_in(story, 0.0)
        found = step(story.plan())
        assert found is not None
        assert found.said == "no request waits; one that comes counts 0.1 of its priority at first"


class TestTurnsInstead:
    def test_by_a_share_of_its_own(self) -> None:
        # A level of 4 needs 7: half of that in its turn.
        story = a_story({"a": 8, "b": 0}, 10_000.0, b=batch(deferral={"share": 0.5}))
        story.load("b", {"concurrency": 16.0, "queue": WAITING})
        story.look_ahead("b", an_outlook(dict.fromkeys(range(9), 0.0), 0, story.policy.models[1], level=4.0))
        story.plan()
        assert shares(at(story, 0.75 * HOUR - 1))["b"] == 0
        assert shares(at(story, 0.75 * HOUR))["b"] == 4

    def test_where_nobody_tells_how_many_wait(self) -> None:
        story = a_story({"a": 8, "b": 0}, saves=10_000.0)
        wait_in(story, WAITING, told=False)
        found = step(story.plan())
        assert found is not None
        assert "has its turn at 08:45:00" in found.said
