"""Quotas: nothing is asked for that the cluster would not let in, and who is short for that is told who holds it."""

from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.quota_view import Holder, QuotaDraw, QuotaView
from rebalancer.planning.actions.moves import judge_moves
from rebalancer.planning.actions.node_plan import NodePlan
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.allocation.roles import Roles
from rebalancer.planning.allocation.unit import Unit
from rebalancer.planning.guards.release import Tally
from rebalancer.planning.planner import weigh
from rebalancer.planning.shares.caps import Caps
from rebalancer.planning.shares.quotas import QuotaRoom
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.outlooks import an_outlook
from tests.planning.story import Story, moves, unmet_of
from tests.planning.test_scenarios_guards import a_donor_and_a_needy

THOUSAND = 1000
KEY = "requests.nvidia.com/gpu"
TRAIN = Holder("Job", "serving", "train", 2 * THOUSAND, NOW + 3600.0)
STEEP = {count: 50.0 * (16 - count) for count in range(17)}  # every replica saves 50 late requests


def a_quota(hard: int, used: int, *models: str, pool: str = "a100", **fields: object) -> QuotaView:
    """One GPU of it for a replica of each of the models."""
    draws = tuple(QuotaDraw(model, pool, THOUSAND) for model in models)
    view = QuotaView("ResourceQuota", "serving", "gpus", KEY, hard * THOUSAND, used * THOUSAND, draws)
    return replace(view, **fields)


def a_story(held: dict[str, int], *quotas: QuotaView, gpus: int = 8, **fields: object) -> Story:
    """A fixed pool of 8 GPUs, and every model gains from all of them."""
    models = [a_model(name, 0, **fields) for name in held]
    policy = a_policy(*models, pools=(a_pool(gpus=gpus),))
    story = Story(policy, a_snapshot(policy, held, {name: {"concurrency": 64.0} for name in held}))
    for model in models:
        outlook = an_outlook(STEEP, held[model.id], model, level=10.0, base=10.0, shifted=10.0)
        story.look_ahead(model.id, outlook)
    story.snapshot = replace(story.snapshot, quotas=quotas)
    return story


def test_no_more_is_asked_for_than_the_quota_takes() -> None:
    assert moves(a_story({"b": 2}).plan()) == {"b": (2, 8)}
    assert moves(a_story({"b": 2}, a_quota(5, 2, "b")).plan()) == {"b": (2, 5)}


def test_a_full_quota_is_told_with_used_and_hard_and_who_holds_it() -> None:
    story = a_story({"b": 2}, a_quota(4, 4, "b", holders=(TRAIN, Holder("Deployment", "serving", "b", 2 * THOUSAND))))
    plan = story.plan()
    assert plan.empty
    unmet = unmet_of(plan, "b")
    assert unmet is not None
    assert unmet.constraint == "quota"
    assert unmet.why.startswith(f"ResourceQuota serving/gpus has 4 of 4 {KEY} used by job serving/train 2 until ")
    assert "deployment serving/b 2" in unmet.why
    assert "a replica takes 1" in unmet.why


def test_grants_of_one_plan_are_counted_against_it_together() -> None:
    plan = a_story({"a": 1, "b": 1}, a_quota(5, 2, "a", "b")).plan()
    assert sum(to - was for was, to in moves(plan).values()) == 3
    told = [unmet_of(plan, name) for name in ("a", "b")]
    assert [one.constraint for one in told if one is not None] == ["quota", "quota"]


def test_gpus_that_a_quota_keeps_from_two_go_to_a_third() -> None:
    """Of 12 GPUs the quota of a and b takes 4; both may have them by worth, and neither has all."""
    found = moves(a_story({"a": 1, "b": 1, "c": 1}, a_quota(4, 2, "a", "b"), gpus=12).plan())
    assert found["c"] == (1, 8)


def test_a_free_gpu_is_not_granted_before_what_frees_the_quota_has_gone() -> None:
    story = a_story({"b": 2}, a_quota(2, 2, "b"))
    scene = weigh(story.snapshot, story.policy, Memory()).scene
    (target,) = scene.models["b"].targets
    found = Allocation(Roles.of(scene), units=[Unit(target, "demand", "free", ("a100-1",))])
    moved = judge_moves(scene, found, NodePlan(Caps(scene), QuotaRoom(scene), found.roles), Tally.of(scene))
    assert moved.coming == {}
    assert moved.waiting["b"][0].startswith("room in a quota: ResourceQuota serving/gpus has 2 of 2")


def test_what_one_may_not_ask_for_another_gets() -> None:
    assert moves(a_story({"a": 1, "b": 1}, a_quota(1, 1, "a"), priority=100).plan()) == {"b": (1, 7)}


def test_what_was_asked_for_and_is_no_pod_yet_is_counted() -> None:
    """B asks for 4 and 2 of its pods are there: of the 4 that are left the two others take theirs first."""
    story = a_story({"b": 2}, a_quota(6, 2, "b"))
    story.target("b", replicas=4)
    assert moves(story.plan()) == {"b": (4, 6)}


def test_asked_for_beyond_it_is_short_of_the_quota_not_on_its_way() -> None:
    story = a_story({"b": 2}, a_quota(2, 2, "b"), max_replicas=4)
    story.target("b", replicas=4)
    unmet = unmet_of(story.plan(), "b")
    assert unmet is not None
    assert unmet.constraint == "quota"


def test_a_release_frees_it_once_its_pod_has_gone() -> None:
    """The pool is full, and so is the quota of the two: a gives b what it does not need."""
    story = a_donor_and_a_needy()
    held = sum(story.replicas(name) for name in ("a", "b"))
    story.snapshot = replace(story.snapshot, quotas=(a_quota(held, held, "a", "b"),))
    plan = story.plan()
    assert set(moves(plan)) == {"a"}
    story.write(plan)
    story.settle()
    assert "b" not in moves(story.plan()), "the quota has not noticed yet"
    gone = held - sum(story.replicas(name) for name in ("a", "b"))
    story.snapshot = replace(story.snapshot, quotas=(a_quota(held, held - gone, "a", "b"),))
    was, to = moves(story.plan())["b"]
    assert to - was == gone > 0


def test_nobody_gives_for_who_could_not_come_in() -> None:
    story = a_donor_and_a_needy()
    held = story.replicas("b")
    assert moves(story.plan()) != {}
    story = a_donor_and_a_needy()
    story.snapshot = replace(story.snapshot, quotas=(a_quota(held, held, "b"),))
    assert moves(story.plan()) == {}


def test_no_node_is_bought_for_pods_that_would_not_come_in() -> None:
    pools = (a_pool(gpus=4), an_elastic_pool(gpus=32, gpus_per_node=8))
    policy = a_policy(a_model("b", 0, pools=("a100", "spot")), pools=pools)
    story = Story(
        policy, a_snapshot(policy, {"b": {"a100": 4, "spot": 0}}, {"b": {"concurrency": 64.0}}, nodes={"spot": 0})
    )
    outlook = an_outlook(STEEP, 4, policy.models[0], level=10.0, base=10.0, shifted=10.0)
    story.look_ahead("b", outlook)
    quota = a_quota(6, 4, "b")
    both = tuple(QuotaDraw("b", pool, THOUSAND) for pool in ("a100", "spot"))
    story.snapshot = replace(story.snapshot, quotas=(replace(quota, draws=both),))
    assert moves(story.plan()) == {"b": (0, 2)}


def test_a_rule_that_refuses_its_pods_is_told_in_its_words() -> None:
    rule = QuotaView(
        "LimitRange",
        "serving",
        "small",
        "b",
        draws=(QuotaDraw("b", "a100", 0),),
        refuses="allows a container at most 4 GPUs",
    )
    plan = a_story({"b": 2}, rule).plan()
    assert plan.empty
    unmet = unmet_of(plan, "b")
    assert unmet is not None
    assert (unmet.constraint, unmet.why) == ("quota", "LimitRange serving/small allows a container at most 4 GPUs")


def test_pods_at_kueues_gate_are_counted_before_its_status_has_them() -> None:
    """B has 2 admitted and 1 gated, the queue's status the 2: of the 3 that are left one is asked for already."""
    story = a_story({"b": 3}, a_quota(5, 2, "b", kind="ClusterQueue", namespace="", name="research"))
    assert moves(story.plan()) == {"b": (3, 6)}
    story = a_story({"b": 3}, a_quota(5, 2, "b", kind="ClusterQueue", namespace="", name="research"))
    target = story.of("b")
    pods = (replace(target.pods[0], node=None, phase="pending", gated=True), *target.pods[1:])
    story.target("b", pods=pods)
    assert moves(story.plan()) == {"b": (3, 5)}
