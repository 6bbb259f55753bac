"""Nodes that nobody else drains: cordoned at the notice, emptied in time, by numbers where these end the right ones."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.people import WriteStop
from rebalancer.domain.plan import DrainChange, Plan
from rebalancer.domain.snapshot import Place, Shape
from tests.builders import a_model, a_notice, a_policy, a_pool, a_snapshot, an_override
from tests.planning.story import Story, moves, refusal_of, refused


def a_story(gpus: int = 16, *, drain: bool = True, allowed: bool = True) -> Story:
    """Model b keeps 4 replicas busy on a100-1, its floor is 2; a100-2 has what there is beyond 8 GPUs, all free."""
    policy = a_policy(a_model("b", 2, entitlement=4), pools=(a_pool(gpus=gpus, drain=drain),))
    story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}))
    story.snapshot = replace(story.snapshot, drains_nodes=allowed)
    story.plan()
    return story


def numbered(story: Story) -> None:
    """Model b is a StatefulSet from now on: a decrease ends the highest number, which runs on a100-1 no longer."""
    target = story.of("b")
    pods = tuple(replace(pod, place=Place(number)) for number, pod in enumerate(target.pods))
    story.target("b", kind="StatefulSet", pods=pods, shape=Shape("apps/v1/statefulsets", "ordinal"))


def done(plan: Plan) -> list[tuple[str, str]]:
    """What the plan does to nodes and pods."""
    return [(change.kind, change.pod or change.node) for change in plan.drains]


def the(plan: Plan, kind: str) -> DrainChange:
    """The first drain change of that kind."""
    return next(change for change in plan.drains if change.kind == kind)


def schedulable(story: Story, *, on: bool) -> None:
    """Node a100-1 is uncordoned by hand, or cordoned: whatever marks it carries stay."""
    nodes = story.view("a100").nodes
    story.pool("a100", nodes=tuple(replace(one, schedulable=on) if one.name == "a100-1" else one for one in nodes))


class TestCordon:
    def test_a_node_under_notice_is_cordoned_once(self) -> None:
        story = a_story()
        story.notice("a100-1", 120.0)
        plan = story.plan()
        assert done(plan) == [("cordon", "a100-1")]
        assert str(plan.drains[0]).startswith("node/a100-1 is cordoned: under notice (spot-interruption, ")
        story.write(plan)
        assert done(story.plan()) == []

    def test_what_we_cordoned_is_uncordoned_when_its_notice_is_over_and_nothing_else_is(self) -> None:
        story = a_story()
        story.notice("a100-1", 120.0)
        story.write(story.plan())
        nodes = tuple(
            replace(node, schedulable=False) if node.name == "a100-2" else node for node in story.view("a100").nodes
        )
        story.pool("a100", nodes=nodes)  # a person cordoned that one
        story.snapshot = replace(story.snapshot, notices=())
        assert done(story.plan()) == [("uncordon", "a100-1")]

    def test_what_we_cordoned_for_a_fault_is_uncordoned_when_that_is_not_believed(self) -> None:
        story = a_story()
        story.notice("a100-1", 3600.0, kind="fault", confidence="likely")
        story.write(story.plan())
        (notice,) = story.snapshot.notices
        story.snapshot = replace(story.snapshot, notices=(replace(notice, doubted="3 of 4 nodes are called faulty"),))
        plan = story.plan()
        assert done(plan) == [("uncordon", "a100-1")]
        assert str(plan.drains[0]).endswith("its notice is not believed: 3 of 4 nodes are called faulty")
        story.write(plan)
        assert done(story.plan()) == []

    @pytest.mark.parametrize("uncordoned", [False, True], ids=["as we left it", "a person uncordoned it"])
    def test_a_cordon_does_not_outlast_what_it_was_made_for_though_another_notice_stands(
        self, *, uncordoned: bool
    ) -> None:
        story = a_story()
        at = story.snapshot.at
        for left, why in (
            (a_notice("a100-1", kind="scheduled-change", doomed_at=at + 86_400.0), "has not come to its time"),
            (a_notice("a100-1", kind="rebalance", confidence="possible"), "is merely possible"),
        ):
            story.notice("a100-1", 0.0, kind="fault", confidence="likely")
            story.write(story.plan())
            schedulable(story, on=uncordoned)
            story.snapshot = replace(story.snapshot, notices=(left,))  # the fault is over
            plan = story.plan()
            assert done(plan) == [("uncordon", "a100-1")]
            assert why in plan.drains[0].reason
            story.write(plan)
            assert done(story.plan()) == []
        schedulable(story, on=False)  # by hand: it is no cordon of ours
        assert done(story.plan()) == []

    def test_what_a_person_uncordoned_stays_so(self) -> None:
        story = a_story()
        story.notice("a100-1", 120.0)
        story.write(story.plan())
        schedulable(story, on=True)
        assert done(story.plan()) == []
        (notice,) = story.snapshot.notices
        story.snapshot = replace(story.snapshot, notices=(replace(notice, doubted="3 of 4 nodes are called faulty"),))
        assert done(story.plan()) == []

    def test_once_the_notice_is_over_the_mark_of_such_a_node_goes_and_a_persons_cordon_is_theirs(self) -> None:
        story = a_story()
        story.notice("a100-1", 120.0)
        story.write(story.plan())
        schedulable(story, on=True)
        story.snapshot = replace(story.snapshot, notices=())
        plan = story.plan()
        assert done(plan) == [("uncordon", "a100-1")]
        assert str(plan.drains[0]).endswith("its notice is over; of our cordon only the mark was left")
        story.write(plan)
        schedulable(story, on=False)  # a month later, by hand
        assert done(story.plan()) == []
        schedulable(story, on=True)
        story.notice("a100-1", 120.0)
        assert done(story.plan()) == [("cordon", "a100-1")]

    def test_nothing_is_done_to_nodes_that_somebody_else_drains_or_that_may_stay(self) -> None:
        for notice in (
            {"karpenter": True},
            {"voluntary": True},
            {"kind": "rebalance", "confidence": "possible"},
            {"kind": "gone"},
        ):
            story = a_story()
            story.notice("a100-1", 120.0, **notice)
            assert done(story.plan()) == [], notice

    def test_nor_to_nodes_of_karpenter_nor_without_the_policys_word_nor_without_the_right(self) -> None:
        owned = a_story()
        owned.pool("a100", nodes=tuple(replace(node, node_pool="np") for node in owned.view("a100").nodes))
        for story in (owned, a_story(drain=False), a_story(allowed=False)):
            story.notice("a100-1", 120.0)
            story.wait(110.0)
            assert done(story.plan()) == []

    def test_a_maintenance_days_ahead_waits_for_its_time(self) -> None:
        story = a_story()
        story.notice("a100-1", 7200.0, kind="scheduled-change", doomed_at=story.snapshot.at + 6000.0)
        assert done(story.plan()) == []
        story.wait(6000.0)
        assert done(story.plan()) == [("cordon", "a100-1")]


class TestLadder:
    """A notice of 120 s and a grace of 30 s: they serve until 70 s, and are deleted from 100 s on."""

    def test_numbers_end_them_20_s_earlier_than_without(self) -> None:
        for drain, seconds in ((True, 70.0), (False, 90.0)):
            story = a_story(drain=drain)
            story.notice("a100-1", 120.0)
            story.turn(seconds - 1.0)
            assert moves(story.plan()) == {}
            story.wait(1.0)
            plan = story.plan()
            assert moves(plan) == {"b": (8, 4)}
            assert done(plan) == []

    def test_what_the_floor_keeps_is_evicted_in_time_and_deleted_at_the_end(self) -> None:
        story = a_story(gpus=8)  # no room for replacements: two go by number, two are the floor
        story.notice("a100-1", 120.0)
        story.write(story.plan())
        story.wait(69.0)
        assert done(story.plan()) == []
        story.wait(1.0)
        plan = story.plan()
        assert moves(plan) == {"b": (4, 2)}
        assert ("floor", "b") in refused(plan)
        evicted = [change for change in plan.drains if change.kind == "evict"]
        assert len(evicted) == 2
        assert not {change.uid for change in evicted} & {uid for one in plan.changes for uid in one.victims}
        assert evicted[0].grace_seconds is None
        assert evicted[0].reason == (
            "a100-1 goes in 50 s (spot-interruption) and its grace is 30 s; nothing replaces it yet"
        )
        story.wait(30.0)  # the disruption budget has said no all the while
        plan = story.plan()
        assert {change.kind for change in plan.drains} == {"delete"}
        assert the(plan, "delete").grace_seconds == 20
        story.wait(20.0)  # the machine is late, and so was its notice
        assert {change.kind for change in story.plan().drains} == {"evict"}
        story.wait(61.0)  # later still: nobody knows that it goes, and these are what is left of a floor
        assert story.plan().drains == ()

    def test_a_short_notice_is_acted_on_at_once_with_the_grace_there_is(self) -> None:
        story = a_story(gpus=8)
        story.notice("a100-1", 30.0)
        assert {change.kind for change in story.plan().drains} == {"cordon", "evict"}
        story.wait(12.0)
        assert the(story.plan(), "delete").grace_seconds == 18

    def test_numbered_replicas_are_evicted_since_no_number_ends_just_them(self) -> None:
        story = a_story()
        numbered(story)
        story.notice("a100-1", 120.0)
        story.turn(69.0)
        assert done(story.plan()) == []
        story.wait(1.0)
        plan = story.plan()
        assert [kind for kind, _ in done(plan)] == ["evict"] * 4
        assert "its replacement is Ready" in the(plan, "evict").reason
        assert refusal_of(plan, "marks", "b").why.endswith("b-3 is not it; it is evicted before its node goes")
        story.write(plan)
        assert done(story.plan()) == []  # they are on their way

    def test_of_a_persons_drain_they_serve_until_their_replacements_do_and_none_is_deleted(self) -> None:
        story = a_story()
        numbered(story)
        story.notice("a100-1", 0.0, kind="drain")
        story.write(story.plan())
        story.kubernetes()  # replacements load
        assert done(story.plan()) == []
        story.settle()
        story.wait(5.0)
        assert [kind for kind, _ in done(story.plan())] == ["evict"] * 4

    @pytest.mark.parametrize("kind", ["drain", "fault"])
    def test_surplus_that_nothing_replaces_goes_once_as_many_as_are_needed_are_ready_elsewhere(self, kind: str) -> None:
        story = a_story()
        story.load("b", {"concurrency": 3.0}, 2.0)  # 2 of the 4 are surplus, which numbers could not end
        story.turns(20)
        numbered(story)
        story.notice("a100-1", 0.0, kind=kind, confidence="likely" if kind == "fault" else "certain")
        story.write(story.plan())
        story.kubernetes()  # 2 replacements load
        assert moves(story.plans[-1]) == {"b": (4, 6)}
        assert done(story.plan()) == []
        story.settle()
        story.wait(5.0)
        plan = story.plan()
        assert [kind for kind, _ in done(plan)] == ["evict"] * 4
        assert sorted(change.floor for change in plan.drains) == [0, 0, 2, 2]
        assert refusal_of(plan, "marks", "b").why.endswith(
            "and b-3 is not it; it is evicted once as many as are needed are Ready elsewhere"
        )
        surplus = next(change for change in plan.drains if change.floor)
        assert surplus.reason.endswith("its grace is 30 s; as many as are needed are Ready elsewhere")
        story.write(plan)
        story.turns(10)
        assert {(pod.node, pod.phase) for pod in story.of("b").pods} == {("a100-2", "ready")}

    def test_of_a_paused_model_nothing_is_evicted(self) -> None:
        story = a_story(gpus=8)
        story.override(an_override("pause", "b"))
        story.notice("a100-1", 120.0)
        story.wait(75.0)
        assert [kind for kind, _ in done(story.plan())] == ["cordon"]

    def test_under_a_write_stop_nothing_is_done_and_that_is_told(self) -> None:
        story = a_story()
        stop = WriteStop(name="s", uid="u", resource_version="1", created_at=story.snapshot.at)
        story.snapshot = replace(story.snapshot, write_stop=stop)
        story.notice("a100-1", 120.0)
        plan = story.plan()
        assert (plan.drains, ("stop", "node/a100-1") in refused(plan)) == ((), True)


def test_a_node_that_vanishes_early_leaves_no_drain_behind() -> None:
    story = a_story(gpus=8)
    story.notice("a100-1", 120.0)
    story.write(story.plan())
    story.wait(90.0)
    story.lose("a100-1")
    story.snapshot = replace(story.snapshot, notices=())
    assert done(story.plan()) == []
