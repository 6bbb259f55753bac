"""A last replica that nobody needs: its autoscaler may end it and bring it back, where its people let it sleep."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.owners import claims
from rebalancer.domain.readings import NOT_LEARNT, Work
from rebalancer.domain.snapshot import AutoscalerView
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_autoscaler, an_override
from tests.planning.story import Story, change_of, decision_of, moves, unmet_of

HPA = "HorizontalPodAutoscaler"


def taken_over(own_minimum: int | None, minimum: int = 1, maximum: int = 1, **overrides: object) -> AutoscalerView:
    """An autoscaler that we have written to, whose people had left it at `own_minimum` to 10."""
    return an_autoscaler(minimum, maximum, originals=Originals(own_minimum, 10), **overrides)


def a_story(owner: AutoscalerView, *, floor: int = 0, held: int = 1, need: float = 0.0, short: bool = False) -> Story:
    """4 GPUs: b, whose autoscaler is `owner`, owns one of them, a the others; `short`: a needs all four."""
    policy = a_policy(a_model("a", 1, entitlement=3), a_model("b", floor, entitlement=1), pools=(a_pool(gpus=4),))
    load = {"a": {"concurrency": 16.0 if short else 12.0}, "b": {"concurrency": 4.0 * need}}
    work = {"a": 4.0 if short else 3.0, "b": need}
    story = Story(policy, a_snapshot(policy, {"a": 3, "b": held}, load, work))
    story.target("b", autoscaler=owner)
    return story


def bounds(story: Story, pool: str | None = None) -> tuple[int, int]:
    """Minimum and maximum of b's autoscaler."""
    owner = story.of("b", pool).autoscaler
    assert owner is not None
    return owner.minimum, owner.maximum


def by_keda(story: Story, replicas: int) -> None:
    """KEDA ends what it may, or its trigger is active."""
    story.target("b", replicas=replicas)
    story.settle()


@pytest.mark.parametrize("kind", ["ScaledObject", HPA])
def test_a_last_replica_that_nobody_needs_may_go_and_the_maximum_is_never_under_1(kind: str) -> None:
    story = a_story(taken_over(0, kind=kind))
    plans = story.turns(4)
    assert bounds(story) == (0, 1)
    change = next(change for plan in plans for change in plan.changes if change.model == "b")
    assert (change.kind, change.replicas_to, change.minimum) == ("bounds", 1, 0)
    assert "nobody needs" in change.reason
    assert story.plan().empty, "and nothing more is written"
    (claim,) = claims(story.of("b"))
    assert (claim.refused, "to 0 replicas and back by its own metric" in claim.why) == (False, True)


@pytest.mark.parametrize(
    "owner",
    [
        taken_over(1),
        taken_over(None, kind=HPA),
        taken_over(1, kind=HPA),
        taken_over(0, idle=0),  # KEDA refuses a minimum that is not above the idleReplicaCount
    ],
)
def test_whose_people_keep_one_replica_keeps_it(owner: AutoscalerView) -> None:
    story = a_story(owner)
    story.turns(4)
    assert bounds(story) == (1, 1)


def test_a_scaled_object_without_a_minimum_has_one_of_0() -> None:
    story = a_story(taken_over(None))
    story.turns(4)
    assert bounds(story) == (0, 1)


@pytest.mark.parametrize("need", [0.5, 1.0])
def test_what_is_used_does_not_go_to_sleep(need: float) -> None:
    story = a_story(taken_over(0), need=need)
    story.turns(4)
    assert bounds(story) == (1, 1)


def test_a_floor_does_not_go_to_sleep() -> None:
    story = a_story(taken_over(0), floor=1)
    plans = story.turns(6)
    assert bounds(story) == (1, 1)
    assert [plan.refusals for plan in plans] == [()] * 6, "nor is a guard asked each time"


def test_what_a_person_froze_does_not_go_to_sleep_and_is_woken_from_its_doze() -> None:
    for owner in (taken_over(0), taken_over(0, 0, 1)):
        story = a_story(owner)
        story.override(an_override("freeze"))
        story.turns(4)
        assert bounds(story) == (1, 1)


def test_what_nobody_sees_does_not_go_to_sleep() -> None:
    story = a_story(taken_over(0))
    story.load("b", {})
    story.turns(4)
    assert bounds(story) == (1, 1)


def test_unseen_from_now_on_it_is_woken_from_its_doze() -> None:
    story = a_story(taken_over(0, 0, 1))
    story.load("b", {})
    story.turns(2)
    assert bounds(story) == (1, 1)


def test_a_role_of_a_couple_does_not_go_to_sleep() -> None:
    a = a_model("a", 0, entitlement=2, ratio={"to": "b", "min": 0.5, "max": 1.0})
    policy = a_policy(a, a_model("b", 0, entitlement=2), pools=(a_pool(gpus=4),))
    load = {name: {"concurrency": 0.0} for name in ("a", "b")}
    story = Story(policy, a_snapshot(policy, {"a": 1, "b": 1}, load, {"a": 0.0, "b": 0.0}))
    story.target("b", autoscaler=taken_over(0))
    story.turns(6)
    assert bounds(story) == (1, 1)


def test_several_replicas_are_never_left_to_a_minimum_of_0() -> None:
    # KEDA would end all three at once.
    policy = a_policy(a_model("b", 0, entitlement=4), pools=(a_pool(gpus=4),))
    story = Story(policy, a_snapshot(policy, {"b": 3}, {"b": {"concurrency": 0.0}}, {"b": 0.0}))
    story.target("b", autoscaler=taken_over(0, 3, 3))
    story.turns(6)
    assert bounds(story)[0] > 0


def test_of_two_targets_one_stays_where_one_is_needed() -> None:
    b = a_model("b", 1, pools=("a100", "h100"), entitlement=2)
    policy = a_policy(b, pools=(a_pool(gpus=1), a_pool("h100", gpus=1)))
    world = a_snapshot(policy, {"b": {"a100": 1, "h100": 1}}, {"b": {"concurrency": 0.0}}, {"b": 0.0})
    story = Story(policy, world)
    for pool in ("a100", "h100"):
        story.target("b", pool, autoscaler=taken_over(0))
    story.turns(6)
    assert {pool: bounds(story, pool)[0] for pool in ("a100", "h100")} == {"a100": 1, "h100": 0}


class TestAwake:
    def test_what_sleeps_is_lent_and_comes_home_when_its_trigger_wakes_it(self) -> None:
        story = a_story(taken_over(0), short=True)
        story.turns(5)
        by_keda(story, 0)
        story.turns(3)
        assert (story.replicas("a"), story.replicas("b"), bounds(story)) == (4, 0, (0, 1))
        by_keda(story, 1)
        story.load("b", {"concurrency": 4.0}, 1.0)
        story.turns(6)
        assert (story.replicas("a"), story.replicas("b"), bounds(story)) == (3, 1, (1, 1))

    def test_woken_without_need_it_is_left_to_its_trigger(self) -> None:
        story = a_story(taken_over(0, 0, 1), held=0)
        by_keda(story, 1)
        story.turns(4)
        assert bounds(story) == (0, 1)

    def test_a_need_that_we_see_wakes_it_by_its_minimum(self) -> None:
        story = a_story(taken_over(0, 0, 1), held=0)
        world = story.snapshot
        story.snapshot = replace(world, overrides=(an_override("pin", value=1),))
        change = change_of(story.plan(), "b")
        assert (change.kind, change.replicas_from, change.replicas_to, change.minimum) == ("grant", 0, 1, 1)

    def test_who_has_requests_and_no_share_is_woken_once_and_stays_awake(self) -> None:
        # Two replicas keep nobody from being late and more do not fit, so none is its share; what idles is granted.
        policy = a_policy(a_model("b", 0, gpus_per_replica=2), pools=(a_pool(gpus=2),))
        story = Story(policy, a_snapshot(policy, {"b": 0}, {"b": {"concurrency": 1.2}}, {"b": 0.3}))
        story.target("b", autoscaler=taken_over(0, 0, 1))
        story.foresee("b", {0: 45.0, 1: 45.0, 2: 45.0, 3: 0.0}, level=0.3)
        assert [moves(plan) for plan in story.turns(4)] == [{"b": (0, 1)}, {}, {}, {}]
        assert bounds(story) == (1, 1)

    def test_at_rest_at_0_nothing_is_written(self) -> None:
        story = a_story(taken_over(0, 0, 1), held=0)
        assert [moves(plan) for plan in story.turns(4)] == [{}] * 4
        assert bounds(story) == (0, 1)


class TestFirst:
    """A Deployment of no replica, without an autoscaler: nobody but us starts the first one."""

    def a_story(self, signal: str, requests: float, gpus: int = 4) -> Story:
        """Model b has no replica; its only `signal` is read off replicas, or learnt from them."""
        signals = {"queue": {"high": 5}, "concurrency": {}, "latency": True}
        b = a_model("b", 0, entitlement=0, signals={signal: signals[signal]}, slo={"latency_seconds": 2.0})
        policy = a_policy(b, pools=(a_pool(gpus=gpus),))
        load = {"queue": requests, "concurrency": requests}
        story = Story(policy, a_snapshot(policy, {"b": 0}, {"b": load}))
        story.load("b", load, Work(why_not_better=NOT_LEARNT))
        return story

    @pytest.mark.parametrize("signal", ["queue", "concurrency", "latency"])
    def test_requests_that_wait_where_nobody_serves_are_given_one_replica(self, signal: str) -> None:
        story = self.a_story(signal, requests=200.0)
        plan = story.plan()
        assert moves(plan) == {"b": (0, 1)}
        assert any("it has requests and no replica" in step.said for step in decision_of(plan, "b").steps)
        story.write(plan)
        story.kubernetes()  # it loads
        assert story.plan().empty

    def test_whatever_was_foreseen_when_it_was_last_measured(self) -> None:
        story = self.a_story("queue", requests=3.0)
        story.foresee("b", {0: 0.0, 1: 0.0}, level=0.0)
        assert moves(story.plan()) == {"b": (0, 1)}

    def test_whom_nobody_asks_is_given_none(self) -> None:
        assert self.a_story("queue", requests=0.0).plan().empty

    def test_where_there_is_no_gpu_it_is_told(self) -> None:
        unmet = unmet_of(self.a_story("queue", requests=3.0, gpus=0).plan(), "b")
        assert unmet is not None
        assert (unmet.replicas, unmet.constraint) == (1, "budget")
