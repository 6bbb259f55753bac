"""Replicas that wait and fit nowhere hold a promise and no GPU: a floor that fits an idle GPU is not kept from it."""

from msgspec.structs import replace

from tests.builders import a_model, a_node, a_pod, a_policy, a_pool, a_snapshot, an_autoscaler, an_override
from tests.planning.story import Story, moves, unmet_of

LABELS = {"pool": "a100"}


def a_story(waiting: int = 3, busy: float = 5.0) -> Story:
    """Model b serves with its floor of two replicas of two GPUs; more wait, since somebody else raised its number.

    One GPU is idle, and a has none of its floor of one. Of the third replica, b is the owner.
    """
    models = (a_model("a", 1, entitlement=1), a_model("b", 2, entitlement=3, gpus_per_replica=2))
    policy = a_policy(*models, pools=(a_pool(gpus=7),))
    load = {"a": {"concurrency": 4.0}, "b": {"concurrency": 4.0 * busy}}
    story = Story(policy, a_snapshot(policy, {"a": 0, "b": 2}, load, {"a": 1.0, "b": busy}))
    story.pool("a100", nodes=(a_node("a100-1", 4, labels=LABELS), a_node("a100-2", 1, labels=LABELS)))
    pods = tuple(replace(pod, node="a100-1") for pod in story.of("b").pods)
    pods += tuple(a_pod(f"w{n}", None, phase="pending") for n in range(waiting))
    number = 2 + waiting
    owner = an_autoscaler(number, number)
    story.target("b", None, replicas=number, autoscaler=owner, by_others=True, gpus_per_pod=2, pods=pods)
    return story


def serve(story: Story, model: str) -> list[str]:
    return sorted(pod.uid for pod in story.of(model).pods if pod.phase == "ready")


def test_a_floor_gets_the_idle_gpu_that_is_promised_to_replicas_that_fit_nowhere() -> None:
    story = a_story()
    before = serve(story, "b")
    assert [moves(plan) for plan in story.turns(6) if moves(plan)] == [{"b": (5, 2)}, {"a": (0, 1)}]
    assert len(serve(story, "a")) == 1
    assert serve(story, "b") == before, "nobody who serves goes for it"
    assert unmet_of(story.plans[-1], "a") is None


def test_a_replica_that_was_bound_meanwhile_stays() -> None:
    # Between the plan and the write the scheduler has bound one of those that wait: a fifth and a sixth GPU came.
    story = a_story(waiting=1)
    plan = story.plan()
    assert moves(plan) == {"b": (3, 2)}
    nodes = (a_node("a100-1", 6, labels=LABELS), a_node("a100-2", 1, labels=LABELS))
    story.pool("a100", nodes=nodes)
    story.kubernetes()
    assert all(pod.node == "a100-1" for pod in story.of("b").pods)
    assert moves(story.plan()) == {"a": (0, 1)}, "three of b are placed, and owned"


def test_who_is_pinned_keeps_what_waits() -> None:
    story = a_story(waiting=1)
    story.override(an_override("pin", "b", 3))
    assert all(moves(plan) == {} for plan in story.turns(6))


def test_what_waits_goes_to_no_model_that_has_its_floor() -> None:
    story = a_story(waiting=1)
    story.turns(6)
    assert moves(story.plan()) == {}
    story.load("a", {"concurrency": 40.0}, work=10.0)
    assert all("b" not in moves(plan) for plan in story.turns(6))
