"""GPUs that a model has just given: its own pods that wait for a node do not take them before who is to have them."""

from msgspec.structs import replace

from rebalancer.domain.memory import Shift
from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.planning import cluster
from tests.planning.story import Story, moves


def a_story() -> Story:
    """Model a is busy with 16 GPUs on two nodes, and has given 3 of them to b, who owns them; they are not free yet.

    Nodes of 8 GPUs may come.
    """
    a, b = a_model("a", entitlement=5), a_model("b", 0, entitlement=3)
    policy = a_policy(a, b, pools=(a_pool(gpus=48, gpus_per_node=8, node_pools=("a100",)),))
    busy = {"a": {"concurrency": 64.0}, "b": {"concurrency": 0.0}}
    story = Story(policy, a_snapshot(policy, {"a": 16, "b": 0}, busy, nodes={"a100": 2}))
    story.turn()
    story.load("b", {"concurrency": 12.0})
    plan = story.plan()
    assert moves(plan) == {"a": (16, 13)}
    story.write(plan)
    story.kubernetes()
    story.wait(10.0)
    return story


class TestGiven:
    def test_a_donor_gets_no_node_grant_before_who_it_gave_to_is_granted_its_gpus(self) -> None:
        story = a_story()
        plan = story.plan()
        assert moves(plan) == {}
        (refusal,) = (each for each in plan.refusals if each.guard == "nodes")
        assert str(refusal) == (
            "a does not get 3 replicas more (13 -> 16): guard nodes, it gave GPUs to b, which are not free yet"
        )
        story.write(plan)
        story.snapshot = cluster.vanish(story.snapshot)
        story.wait(10.0)
        plan = story.plan()
        assert moves(plan) == {"b": (0, 3)}
        story.write(plan)
        story.kubernetes()
        story.wait(10.0)
        assert moves(story.plan()) == {"a": (13, 16)}  # onto a node that comes
        assert [pod.phase for pod in story.of("b").pods] == ["loading"] * 3

    def test_a_gift_of_several_replicas_is_given_once_though_their_pods_end_one_by_one(self) -> None:
        story = a_story()
        for _ in range(5):
            pods = story.of("a").pods
            ended = next((pod for pod in pods if pod.phase == "terminating"), None)
            story.target("a", pods=tuple(pod for pod in pods if pod is not ended))
            plan = story.plan()
            story.write(plan)
            story.kubernetes()
            story.wait(10.0)
        # The third replica of b has its node before a asks for another one.
        made = [moves(plan) for plan in story.plans[-5:]]
        assert made == [{"b": (0, 1)}, {"b": (1, 2)}, {"b": (2, 3)}, {"a": (13, 16)}, {}]

    def test_what_comes_under_notice_meanwhile_does_not_wait_for_that(self) -> None:
        story = a_story()
        story.notice("a100-2")
        story.write(story.plan())  # part of what was given goes with its node, so more is given on the other one
        story.kubernetes()
        story.wait(10.0)
        doomed = [pod for pod in story.of("a").pods if pod.node == "a100-2" and pod.phase == "ready"]
        assert doomed
        has = story.replicas("a")
        assert moves(story.plan()) == {"a": (has, has + len(doomed))}  # those alone, not what else it would use

    def test_once_the_gift_is_granted_a_node_is_asked_for_though_the_recipient_waits_for_more(self) -> None:
        # a gave 3 to b, which loads them, and waits for 3 that end on d for long; a is short of 7.
        a, b, d = a_model("a", entitlement=9), a_model("b", 0, entitlement=6), a_model("d", 1, entitlement=1)
        policy = a_policy(a, b, d, pools=(a_pool(gpus=64, gpus_per_node=8, node_pools=("a100",)),))
        busy = {"a": {"concurrency": 64.0}, "b": {"concurrency": 24.0}, "d": {"concurrency": 4.0}}
        story = Story(policy, a_snapshot(policy, {"a": 9, "b": 3, "d": 4}, busy, nodes={"a100": 2}))
        first, *others = story.of("d").pods
        story.target("d", replicas=1, pods=(first, *(replace(pod, phase="terminating") for pod in others)))
        story.target("b", pods=tuple(replace(pod, phase="loading") for pod in story.of("b").pods))
        at = story.snapshot.at
        gift = Shift("s0-b-a100", "a100", "b", ("a",), 3, opened_at=at - 30.0, released_at=at - 30.0)
        story.memory = replace(story.memory, shifts=(replace(gift, granted_at=at - 20.0),))
        for _ in range(6):
            story.write(story.plan())
            story.kubernetes()
            story.wait(10.0)
        assert next(moves(plan) for plan in story.plans if moves(plan)) == {"a": (9, 16)}
