"""What is no mistake of the service, though it looks like one: the oracle is silent where nobody could do better."""

import pytest

from tests.machine.test_oracle import Bench, a_model


def _two_of_four_go_as_the_fourth_becomes_ready(bench: Bench) -> None:
    """Three of a's four serve and one loads. It is Ready by the write, that ends two of the others: two are left."""
    bench.world.scale(bench.ref("a"), 4)
    bench.live(5.0)
    for pod in bench.world.ready_pods("a")[:2]:
        bench.world.set_deletion_cost(*pod.key, -1)
    loading = next(pod for pod in bench.world.pods.values() if pod.owner.model == "a" and not pod.ready)
    loading.ready_at = bench.world.now
    bench.scale("a", 2)


def test_a_pod_that_became_ready_since_the_watches_came_holds_the_floor() -> None:
    bench = Bench(a_model("a", entitlement=3, level=1.0), a_model("b"))
    _two_of_four_go_as_the_fourth_becomes_ready(bench)
    assert bench.rules == ""


@pytest.mark.parametrize(("level", "rules"), [(2.0, ""), (3.5, "c")])
def test_a_pod_that_became_ready_since_the_watches_came_is_one_of_those_that_its_model_needs(
    level: float, rules: str
) -> None:
    # a owns two, and needs two, or three.
    bench = Bench(a_model("a", floor=1, entitlement=3, level=level), a_model("b"))
    a, b = bench.oracle.policy.models
    bench.oracle.policy = bench.oracle.policy.model_copy(
        update={"models": (a.model_copy(update={"entitlement": 2}), b)}
    )
    _two_of_four_go_as_the_fourth_becomes_ready(bench)
    bench.live(200.0)
    assert bench.rules == rules


def test_who_gives_while_a_pod_of_its_own_got_its_node_since_the_watches_came_is_not_robbed() -> None:
    # a owns three and needs them; a fourth was asked for, and one of the others goes, as of another target.
    bench = Bench(a_model("a", entitlement=3, level=5.0), a_model("b", entitlement=2, level=1.0))
    bench.world.scale(bench.ref("a"), 4)
    bench.world.advance(bench.world.now + 1.0)
    bench.oracle.taken(bench.world.deployments[bench.ref("a")], [*bench.world.ready_pods("a")[:1]], [])
    assert bench.rules == ""


@pytest.mark.parametrize(("gpus", "rules"), [(1, "b"), (2, "")])
def test_pods_of_a_rollout_that_fit_on_no_node_hold_nothing(gpus: int, rules: str) -> None:
    # One GPU is free. Where the rollout's new pod needs one, it is promised that; where it needs two, nobody is.
    bench = Bench(a_model("a", gpus=gpus, entitlement=4 // gpus), a_model("b", entitlement=3))
    bench.oracle.asked[bench.ref("a")] = 4 // gpus
    bench.world.faults.roll(bench.world.deployments[bench.ref("a")], broken=True)
    bench.world.scale(bench.ref("b"), 3)
    bench.world.advance(bench.world.now)
    bench.oracle.look()
    bench.scale("b", 4)
    assert bench.rules == rules


@pytest.mark.parametrize(("broken", "rules"), [(True, ""), (False, "d")])
def test_who_has_its_pods_on_nodes_and_a_template_that_hangs_is_short_of_nothing(*, broken: bool, rules: str) -> None:
    bench = Bench(a_model("a", level=3.0), a_model("b", level=0.5, entitlement=1))
    owner = bench.world.deployments[bench.ref("a")]
    owner.broken = broken
    for pod in bench.world.ready_pods("a"):
        bench.world.faults.stick(pod)
    bench.world.scale(bench.ref("b"), 4)
    bench.live(300.0)
    bench.oracle.judge_rest(120.0)
    assert bench.rules == rules


@pytest.mark.parametrize(("seconds_left", "rules"), [(115.0, ""), (125.0, "c")])
def test_who_gives_while_the_end_of_a_node_of_its_pool_is_as_near_as_may_have_been_learnt_is_not_robbed(
    seconds_left: float, rules: str
) -> None:
    # Starts of 20 s may look like 30; a grace of 30 s and a minute to act.
    bench = Bench(a_model("a", level=5.0), a_model("b", level=1.0, floor=1))
    bench.oracle.deadlines["x2"] = bench.world.now + seconds_left
    bench.oracle.look()
    bench.scale("a", 3)
    assert bench.rules == rules


@pytest.mark.parametrize(("seconds_left", "rules"), [(17.0, "a"), (8.0, "")])
def test_who_registers_under_a_name_whose_machine_was_taken_meanwhile_may_be_another(
    seconds_left: float, rules: str
) -> None:
    bench = Bench(a_model("a", entitlement=3, level=1.0), a_model("b", level=1.0, floor=3))  # b: one on x1, three on x2
    node = bench.world.nodes["x1"]
    bench.live(5.0)
    bench.oracle.deadlines["x1"] = bench.world.now + seconds_left
    bench.world.faults.remove(node)
    bench.live(10.0)
    bench.world.faults.register_again(node)
    bench.live(5.0)
    bench.scale("b", 3)
    assert bench.rules == rules


def test_of_who_is_on_a_node_under_notice_only_models_of_the_policy_need_time_to_load_elsewhere() -> None:
    # a, which takes 60 s, is in no policy any more: 115 s are enough for b and its 20 s.
    bench = Bench(a_model("a", entitlement=3, load_seconds=60.0), a_model("b", level=1.0, floor=2, entitlement=3))
    bench.oracle.deadlines["x1"] = bench.world.now + 115.0
    bench.oracle.policy = bench.oracle.policy.model_copy(update={"models": bench.oracle.policy.models[1:]})
    bench.oracle.look()
    bench.scale("b", 2)
    assert bench.rules == ""


@pytest.mark.parametrize(("back", "rules"), [(True, ""), (False, "c")])
def test_a_replica_given_while_a_node_was_silent_is_excused_once_that_is_back(*, back: bool, rules: str) -> None:
    # a serves on x1 with the four that it needs, owns two, and gives one while x2 is silent.
    bench = Bench(a_model("a", level=5.0), a_model("b", level=1.0))
    bench.live(30.0)
    a, b = bench.oracle.policy.models
    bench.oracle.policy = bench.oracle.policy.model_copy(
        update={"models": (a.model_copy(update={"entitlement": 2}), b)}
    )
    node = bench.world.nodes["x2"]
    bench.world.faults.silence(node)
    bench.live(60.0)
    bench.scale("a", 3)
    if back:
        bench.world.faults.heal(node)
    bench.live(200.0)
    assert bench.rules == rules


@pytest.mark.parametrize(("back", "rules"), [(True, ""), (False, "c")])
def test_an_owner_is_not_robbed_by_a_plan_of_before_a_node_was_back(*, back: bool, rules: str) -> None:
    # a serves on x1 with the four that it owns and needs; its write comes while x2 is back, or long after.
    bench = Bench(a_model("a", level=5.0), a_model("b", level=1.0))
    bench.live(30.0)
    node = bench.world.nodes["x2"]
    bench.world.faults.silence(node)
    bench.live(60.0)
    bench.world.faults.heal(node)
    bench.live(5.0 if back else 60.0)
    bench.scale("a", 3)
    assert bench.rules == rules


@pytest.mark.parametrize(("rolling", "rules"), [(True, ""), (False, "d")])
def test_nobody_owes_what_a_pod_of_a_rollout_would_take(*, rolling: bool, rules: str) -> None:
    # a owns four and has three, b owns one and has two, c's rollout waits for a GPU beside its three.
    bench = Bench(
        a_model("a", level=5.0, floor=3), a_model("b", floor=1, entitlement=1, level=0.5), a_model("c", floor=3)
    )
    for name, replicas in (("a", 3), ("b", 2), ("c", 3)):
        bench.world.scale(bench.ref(name), replicas)
    bench.live(300.0)
    if rolling:
        bench.world.faults.roll(bench.world.deployments[bench.ref("c")], broken=True)
    bench.live(30.0)
    bench.oracle.verdicts.clear()
    bench.oracle.judge_models(bench.oracle.policy)
    assert bench.rules == rules
