"""Preemptible pods of no model: whose GPUs are room for a pool's replicas, and whose are not, and why."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.cluster import Pod, Workload
from rebalancer.domain.jobs import Job
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.quota_view import Holder
from rebalancer.domain.quotas import ContainerAsk, PodAsk, PriorityClass
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state import ClusterState
from tests.builders import NAMESPACE, NOW, a_model, a_policy, a_pool
from tests.state.objects import GPU, a_cluster_node, a_ready_pod, a_state, a_workload, changed, feed, gone

POLICY = a_policy(a_model("b"), pools=(a_pool(preemptible_priority_classes=("batch", "nightly")),))
A_JOB = Job(NAMESPACE, "train-0", "uid-train-0", "1", NOW + 60.0, ("JobSet", "train"))


def a_target(priority_class: str = "") -> Workload:
    return a_workload(ask=PodAsk((ContainerAsk({GPU: 1000}, {GPU: 1000}),), priority_class))


def a_job_pod(priority: int = -5, priority_class: str = "batch", gpus: int = 4) -> Pod:
    pod = a_ready_pod("train-1", None, gpus={GPU: gpus}, priority=priority, priority_class=priority_class)
    return replace(pod, workload=WorkloadRef(NAMESPACE, "Job", "train-0"))


def pool_of(state: ClusterState) -> PoolView:
    (view,) = state.peek(NOW).pools
    return view


def held(state: ClusterState) -> tuple[int, int]:
    """GPUs that pods of no model hold: preemptible ones, and those that they keep."""
    (node,) = pool_of(state).nodes
    return node.preemptible_gpus, node.unpreemptible_gpus


def test_what_pods_of_the_classes_hold_is_no_model_s_and_preemptible() -> None:
    other = a_ready_pod("other-1", None, priority=-5, priority_class="research")
    state = a_state(POLICY, a_cluster_node(), a_target(), a_job_pod(), A_JOB, other)
    assert held(state) == (4, 1)
    view = pool_of(state)
    assert view.preemptible == (Holder("JobSet", NAMESPACE, "train", 4, NOW + 60.0),)
    assert [each.name for each in view.others] == ["other-1"]
    assert view.not_preemptible == ""
    feed(state, gone(a_job_pod()))
    assert held(state) == (0, 1)
    assert pool_of(state).preemptible == ()


def test_who_holds_them_is_followed_where_no_count_changes() -> None:
    state = a_state(POLICY, a_cluster_node(), a_target(), a_job_pod(), A_JOB)
    assert pool_of(state).preemptible[0].name == "train"
    other = a_ready_pod("other-1", None, gpus={GPU: 4}, priority=-5, priority_class="nightly")
    feed(state, gone(a_job_pod()), changed(other))
    assert pool_of(state).preemptible == (Holder("Pod", NAMESPACE, "other-1", 4),)


def test_a_job_that_is_known_later_than_its_pods_names_them_all_the_same() -> None:
    state = a_state(POLICY, a_cluster_node(), a_target(), a_job_pod())
    assert pool_of(state).preemptible == (Holder("Job", NAMESPACE, "train-0", 4),)
    feed(state, changed(A_JOB))
    assert pool_of(state).preemptible == (Holder("JobSet", NAMESPACE, "train", 4, NOW + 60.0),)


def test_without_the_policy_s_word_they_are_holders_as_any_others() -> None:
    policy = a_policy(a_model("b"), pools=(a_pool(),))
    assert held(a_state(policy, a_cluster_node(), a_target(), a_job_pod())) == (0, 4)


def test_a_pod_that_has_ended_holds_nothing() -> None:
    assert held(a_state(POLICY, a_cluster_node(), a_target(), replace(a_job_pod(), phase="Succeeded"))) == (0, 0)


@pytest.mark.parametrize("priority", [0, 7])
def test_who_does_not_rank_below_the_model_s_pods_is_kept_and_the_pool_says_so(priority: int) -> None:
    state = a_state(POLICY, a_cluster_node(), a_target(), a_job_pod(priority))
    assert held(state) == (0, 4)
    of = "pods of PriorityClass batch are not preempted"
    assert pool_of(state).not_preemptible == f"{of}: their priority, {priority}, is not below that of model b's pods, 0"


def test_who_has_longer_than_two_minutes_to_end_is_kept_and_the_pool_says_so() -> None:
    slow = replace(a_job_pod(), grace_seconds=121)
    state = a_state(POLICY, a_cluster_node(), a_target(), slow)
    assert held(state) == (0, 4)
    assert pool_of(state).not_preemptible.endswith("they have 121 s to end, and a replica waits for 120 s at most")
    feed(state, changed(replace(slow, grace_seconds=120)))
    assert held(state) == (4, 0)


def test_the_model_s_class_raises_what_it_preempts_and_its_change_is_followed() -> None:
    serving = PriorityClass("serving", "uid-serving", "1", 1000)
    state = a_state(POLICY, a_cluster_node(), a_target("serving"), a_job_pod(7), serving)
    assert held(state) == (4, 0)
    feed(state, changed(replace(serving, resource_version="2", value=7)))
    assert held(state) == (0, 4)


def test_nobody_is_preempted_where_a_target_has_no_template_that_says_its_class() -> None:
    policy = a_policy(a_model("a"), a_model("b"), pools=(a_pool(preemptible_priority_classes=("batch",)),))
    state = a_state(policy, a_cluster_node(), a_target(), a_workload("a", templated=False), a_job_pod())
    assert held(state) == (0, 4)
    assert "pods of model a preempt nobody, or their PriorityClass is unknown" in pool_of(state).not_preemptible


@pytest.mark.parametrize(
    "known",
    [(PriorityClass("serving", "uid-serving", "1", 1000, preempts=False),), ()],
    ids=["never", "unknown"],
)
def test_nobody_is_preempted_for_pods_that_never_do_or_whose_class_is_unknown(
    known: tuple[PriorityClass, ...],
) -> None:
    state = a_state(POLICY, a_cluster_node(), a_target("serving"), a_job_pod(), *known)
    assert held(state) == (0, 4)
    assert "pods of model b preempt nobody, or their PriorityClass is unknown" in pool_of(state).not_preemptible


def test_every_model_of_the_pool_must_outrank_them() -> None:
    policy = a_policy(a_model("a"), a_model("b"), pools=(a_pool(preemptible_priority_classes=("batch",)),))
    low = PriorityClass("low", "uid-low", "1", -9)
    state = a_state(policy, a_cluster_node(), a_target(), a_workload("a", ask=a_target("low").ask), low, a_job_pod())
    assert held(state) == (0, 4)
    assert "is not below that of model a's pods, -9" in pool_of(state).not_preemptible


def test_nobody_is_preempted_before_a_target_of_the_pool_is_there() -> None:
    state = a_state(POLICY, a_cluster_node(), a_job_pod())
    assert held(state) == (0, 4)
    feed(state, changed(a_target()))
    assert held(state) == (4, 0)
