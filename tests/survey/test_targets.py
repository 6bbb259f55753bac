"""What the traps make of the models of a policy: floors over several targets, their pods, the pools of their nodes."""

import pytest

from rebalancer.domain.policy import Policy
from rebalancer.survey.case import Case
from rebalancer.survey.finding import OK
from rebalancer.survey.objects import Survey
from rebalancer.survey.traps.table import judged
from tests.builders import a_model, a_policy, a_pool, an_elastic_pool
from tests.survey.manifests import (
    Manifest,
    a_budget,
    a_deployment,
    a_gpu_node,
    a_node_pool,
    a_running_pod,
    a_scaled_object,
)


def said(trap: str, objects: list[Manifest], policy: Policy) -> list[str]:
    """What the doctor says of objects that are in the trap."""
    case = Case(Survey(tuple(objects)), policy)
    return [f"{each.about}: {each.said}" for each in judged(case) if each.trap == trap and each.state != OK]


TWO_TARGETS = a_policy(
    a_model("b", min_replicas=4, max_replicas=8, pools=("a100", "spot")), pools=(a_pool(), an_elastic_pool())
)


def scaled(name: str, least: int) -> list[Manifest]:
    """A target with its ScaledObject."""
    scaler = a_scaled_object(name=name, minReplicaCount=least, scaleTargetRef={"name": name})
    return [a_deployment(name, replicas=least), scaler]


@pytest.mark.parametrize(("home", "spot", "short"), [(4, 0, 0), (3, 1, 0), (0, 4, 0), (5, 5, 0), (2, 1, 1), (1, 1, 2)])
def test_the_targets_of_a_model_hold_its_floor_together(home: int, spot: int, short: int) -> None:
    expected = [
        f"scaledobject/serving/{name}: minReplicaCount {own} is below {own + short}, which its model's other targets "
        "leave of the policy's floor of 4: KEDA may go where the policy may not"
        for name, own in (("b", home), ("b-spot", spot))
    ]
    assert said("unsaid-minimum", [*scaled("b", home), *scaled("b-spot", spot)], TWO_TARGETS) == (
        expected if short else []
    )


def test_a_target_without_an_autoscaler_holds_of_the_floor_what_it_has() -> None:
    assert said("unsaid-minimum", [a_deployment(replicas=4), *scaled("b-spot", 0)], TWO_TARGETS) == []
    assert said("unsaid-minimum", [a_deployment(replicas=3), *scaled("b-spot", 0)], TWO_TARGETS)


def test_a_budget_blocks_the_target_that_has_as_few_as_its_models_others_allow() -> None:
    budget = a_budget("b-spot", "b-spot", minAvailable=1)
    assert said("blocking-budget", [*scaled("b", 4), *scaled("b-spot", 1), budget], TWO_TARGETS)
    assert said("blocking-budget", [*scaled("b", 2), *scaled("b-spot", 2), budget], TWO_TARGETS) == []


def test_shares_of_gpus_are_as_they_should_be_in_a_pool_that_counts_them() -> None:
    node = a_gpu_node(
        {"pool": "a100", "nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    )
    soft, hard = (a_policy(a_model("b"), pools=(a_pool(isolation=each),)) for each in ("soft", "hard"))
    elsewhere = a_policy(a_model("b"), pools=(a_pool(isolation="soft", node_labels={"pool": "h100"}),))
    assert said("shared-gpus", [node], soft) == []
    beside = a_pool(name="slices", resource="nvidia.com/mig-1g.10gb"), a_pool(isolation="soft")
    assert said("shared-gpus", [node], a_policy(a_model("b"), pools=beside)) == []
    for policy in (hard, elsewhere):
        (told,) = said("shared-gpus", [node], policy)
        assert "each of its GPUs is offered 4 times" in told


def test_pods_that_are_over_stand_in_nobodys_pool() -> None:
    policy, elsewhere = a_policy(a_model("b")), a_gpu_node({"pool": "old"})
    for phase, told in (("Running", 1), ("Pending", 1), ("Failed", 0), ("Succeeded", 0)):
        pod = a_running_pod() | {"status": {"phase": phase}}
        assert len(said("outside-pool", [a_deployment(), elsewhere, pod], policy)) == told


def test_without_a_hook_no_grace_is_too_short_for_it() -> None:
    at_once = {"terminationGracePeriodSeconds": 0}
    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}
    assert said("grace-within-prestop", [a_deployment(pod=at_once)], a_policy()) == []
    assert said("grace-within-prestop", [a_deployment(pod=at_once, container=hook)], a_policy())


ONLY_A100 = a_policy(a_model("b"), pools=(a_pool(), a_pool("h100")))
LOOSE: Manifest = {"nodeSelector": {}}


def a_node(name: str, labels: dict[str, str], *taints: Manifest, gpus: int = 8) -> Manifest:
    node = a_gpu_node(labels, gpus)
    return node | {"metadata": node["metadata"] | {"name": name}, "spec": {"taints": list(taints)}}


@pytest.mark.parametrize(
    ("h100", "bound"),
    [
        (a_node("h1", {"pool": "h100"}), "another pool's nodes, such as h1"),
        (a_node("h1", {"pool": "h100"}, {"key": "nvidia.com/gpu", "effect": "NoSchedule"}), "such as h1"),
        (a_node("h1", {"pool": "h100"}, {"key": "h100", "effect": "NoSchedule"}), ""),
        (a_node("h1", {"pool": "h100"}, gpus=0), ""),
        (a_node("c1", {"pool": "cpu"}, gpus=0), "they may land on nodes of pool h100"),
    ],
)
def test_pods_are_bound_to_their_pool_where_no_other_node_takes_them(h100: Manifest, bound: str) -> None:
    ours = a_node("a1", {"pool": "a100"})
    told = said("unpinned", [ours, h100, a_deployment(pod=LOOSE)], ONLY_A100)
    assert (bound in told[0]) if bound else (told == [])
    assert said("unpinned", [ours, h100, a_deployment()], ONLY_A100) == []


def test_what_binds_pods_may_be_another_label_than_the_pool_s() -> None:
    nodes = [a_node(name, {"pool": name, "gpu": name}) for name in ("a100", "h100")]
    assert said("unpinned", [*nodes, a_deployment(pod={"nodeSelector": {"gpu": "a100"}})], ONLY_A100) == []
    assert said("unpinned", [*nodes, a_deployment(pod={"nodeSelector": {"gpu": "h100"}})], ONLY_A100) != []


def test_a_toleration_that_only_the_standing_pods_have_lets_them_land_elsewhere() -> None:
    taint = {"key": "h100", "effect": "NoSchedule"}
    objects = [a_node("a1", {"pool": "a100"}), a_node("h1", {"pool": "h100"}, taint), a_deployment(pod=LOOSE)]
    standing = a_running_pod("a1")
    standing["spec"]["tolerations"] = [{"key": "h100", "operator": "Exists"}]
    assert said("unpinned", [*objects, a_running_pod("a1")], ONLY_A100) == []
    assert said("unpinned", [*objects, standing], ONLY_A100) != []


def test_a_start_that_the_policy_does_not_tell_is_not_said_to_be_told_by_it() -> None:
    (told,) = said("consolidation", [a_node_pool(consolidateAfter="30s")], a_policy(a_model("b"), pools=(a_pool(),)))
    assert "(assumed; the policy has no model there)" in told
