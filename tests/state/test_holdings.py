"""What each model holds, as its targets, autoscalers and pods show it."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.cluster import Toleration
from rebalancer.domain.events import Event
from rebalancer.domain.snapshot import AutoscalerView, ModelView, PodView, TargetView
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy, a_pool, a_target, an_elastic_pool
from tests.state.objects import (
    GPU,
    a_cluster_node,
    a_pending_pod,
    a_ready_pod,
    a_scaled_object,
    a_state,
    a_workload,
    an_hpa,
    changed,
    feed,
    gone,
    listed,
    ref,
)


def model_of(state: ClusterState, model: str = "b", now: float = NOW) -> ModelView:
    return next(view for view in state.peek(now).models if view.id == model)


def target_of(state: ClusterState, now: float = NOW) -> TargetView:
    return model_of(state, now=now).targets[0]


def owner_of(state: ClusterState) -> AutoscalerView | None:
    return target_of(state).autoscaler


# --- targets and pods


def test_models_and_targets_are_in_order_and_missing_ones_are_told() -> None:
    policy = a_policy(a_model("z"), a_model("b", pools=("spot", "a100")), pools=(a_pool(), an_elastic_pool()))
    models = a_state(policy, a_workload("b", 2)).peek(NOW).models
    assert [model.id for model in models] == ["b", "z"]
    assert [(target.pool, target.name, target.missing) for target in models[0].targets] == [
        ("a100", "b-a100", True),
        ("spot", "b", False),
    ]


def test_a_target_shows_what_the_deployment_says() -> None:
    workload = a_workload("b", 3, resource_version="17", gpus={GPU: 4, "other/x": 1}, node_selector={"pool": "a100"},
                          grace_seconds=90, rolling=True)  # fmt: skip
    added = (Toleration(GPU, "Exists", "", "NoSchedule"),)
    assert target_of(a_state(None, workload)) == a_target(
        "b", 3, resource_version="17", gpus_per_pod=4, grace_seconds=90, rolling=True, pods=(),
        tolerations=added, guessed=added,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "phase", "since"),
    [
        ({"node": None, "ready": False, "ready_at": None}, "pending", NOW - 600),
        ({"ready": False, "ready_at": None}, "loading", NOW - 600),
        ({}, "ready", NOW - 540),
        ({"deleting_at": NOW + 20, "grace_seconds": 30}, "terminating", NOW - 10),
        ({"deleting_at": NOW + 20, "ready": False}, "terminating", NOW - 10),
    ],
)
def test_a_pod_is_in_one_phase(fields: dict[str, object], phase: str, since: float) -> None:
    pod = replace(a_ready_pod("b-1", deletion_cost=-5), **fields)
    state = a_state(None, a_workload(), pod)
    assert target_of(state).pods == (PodView("uid-b-1", "b-1", pod.node, phase, since, NOW - 600, -5),)


def test_a_ready_pod_whose_node_is_not_listed_is_lost_until_the_node_is_there() -> None:
    pods = [a_ready_pod("b-1", node="n1"), a_ready_pod("b-2", node="n2"), a_pending_pod("b-3", node="n1")]
    state = a_state(None, a_workload("b", 3), a_cluster_node("n1"), a_cluster_node("n2", "other pool"), *pods)
    assert phases(state) == {"b-1": "ready", "b-2": "ready", "b-3": "loading"}
    feed(state, gone(a_cluster_node("n1")))
    assert phases(state) == {"b-1": "lost", "b-2": "ready", "b-3": "loading"}
    assert target_of(state).pods[0].since == NOW - 540
    feed(state, changed(a_cluster_node("n1", uid="uid-reborn")))
    assert phases(state) == {"b-1": "ready", "b-2": "ready", "b-3": "loading"}
    feed(state, listed("nodes"))
    assert phases(state) == {"b-1": "lost", "b-2": "lost", "b-3": "loading"}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_lists_may_come_in_any_order_and_before_that_of_nodes_no_pod_is_lost(order: tuple[int, ...]) -> None:
    pods = listed("pods", a_ready_pod("b-1", node="n1"), a_ready_pod("b-2", node="n2"))
    events = listed("nodes", a_cluster_node("n1")), pods, listed("deployments", a_workload("b", 2))
    state = ClusterState(a_policy(), started_at=NOW)
    assert phases(feed(state, pods, events[2])) == {"b-1": "ready", "b-2": "ready"}
    fresh = feed(ClusterState(a_policy(), started_at=NOW), *(events[n] for n in order))
    assert phases(fresh) == {"b-1": "ready", "b-2": "lost"}


def test_a_pod_ahead_of_its_node_serves_once_the_node_is_seen() -> None:
    state = feed(a_state(None, a_workload("b", 1)), changed(a_ready_pod("b-9", node="n9")))
    assert phases(state) == {"b-9": "lost"}
    assert phases(feed(state, changed(a_cluster_node("n9")))) == {"b-9": "ready"}


def phases(state: ClusterState) -> dict[str, str]:
    return {pod.name: pod.phase for pod in target_of(state).pods}


@pytest.mark.parametrize(("phase", "begun"), [("Pending", False), ("Running", True)])
def test_a_pod_has_begun_once_its_containers_run(phase: str, begun: bool) -> None:  # noqa: FBT001  a value of the table
    state = a_state(None, a_workload(), a_ready_pod("b-1", phase=phase, ready=False, ready_at=None))
    assert [(pod.phase, pod.begun) for pod in target_of(state).pods] == [("loading", begun)]


def test_finished_pods_are_none_and_the_others_are_in_order_of_their_uids() -> None:
    pods = [a_ready_pod("b-2"), a_ready_pod("b-1"), a_ready_pod("b-3", phase="Failed"), a_ready_pod("x", workload=None)]
    assert [pod.name for pod in target_of(a_state(None, a_workload(), *pods)).pods] == ["b-1", "b-2"]


def test_versions_have_no_longest_one() -> None:
    state = a_state(None, a_workload(), a_ready_pod("b-1", resource_version="1" + "0" * 5000))
    feed(state, changed(a_ready_pod("b-1", resource_version="9" * 5000, ready=False)))
    assert state.counters()["older-object"] == 1


def test_a_pod_never_goes_back_to_an_older_version_but_a_relist_is_the_truth() -> None:
    state = a_state(None, a_workload(), a_ready_pod("b-1", resource_version="10"))
    older = a_ready_pod("b-1", resource_version="9", ready=False)
    feed(state, changed(older))
    assert target_of(state).pods[0].phase == "ready"
    assert state.counters()["older-object"] == 1
    feed(state, listed("pods", older))
    assert target_of(state).pods[0].phase == "loading"


def test_what_a_relist_does_not_name_is_gone() -> None:
    state = a_state(None, a_workload(), a_ready_pod("b-1"), a_ready_pod("b-2"))
    feed(state, listed("pods", a_ready_pod("b-2")), listed("deployments"))
    assert target_of(state).missing
    feed(state, changed(a_workload()))
    assert [pod.name for pod in target_of(state).pods] == ["b-2"]


def test_the_end_of_an_old_pod_does_not_remove_a_new_one_of_the_same_name() -> None:
    state = a_state(None, a_workload(), a_ready_pod("b-0"))
    reborn = a_ready_pod("b-0", uid="uid-reborn", resource_version="20")
    feed(state, changed(reborn), gone(a_ready_pod("b-0")))
    assert [pod.uid for pod in target_of(state).pods] == ["uid-reborn"]


# --- autoscalers


def test_a_scaled_object_owns_the_target_and_its_hpa_shows_what_is_in_effect() -> None:
    hpa = an_hpa("keda-hpa-b", bounds=(1, 9), owner_scaled_object="b")
    state = a_state(None, a_workload(), a_scaled_object(bounds=(2, 5), resource_version="8"), hpa)
    assert owner_of(state) == AutoscalerView(
        "ScaledObject", "b", "uid-so-b", "8", 2, 5, 1, 9, paused=False, originals=Originals(1, 4)
    )
    feed(state, changed(replace(hpa, resource_version="2", minimum=2, maximum=5)))
    owner = owner_of(state)
    assert owner is not None
    assert (owner.effective_minimum, owner.effective_maximum) == (2, 5)


def test_bounds_that_are_not_set_are_kedas() -> None:
    owner = owner_of(a_state(None, a_workload(), a_scaled_object(bounds=(None, None), hpa_name=None)))
    assert owner is not None
    assert (owner.minimum, owner.maximum, owner.effective_minimum, owner.effective_maximum) == (0, 100, 0, 100)


def test_before_keda_names_its_hpa_the_owner_reference_does() -> None:
    hpa = an_hpa("custom", bounds=(1, 9), owner_scaled_object="b")
    owner = owner_of(a_state(None, a_workload(), a_scaled_object(hpa_name=None), hpa))
    assert owner is not None
    assert owner.effective_maximum == 9


def test_a_bare_hpa_owns_its_target() -> None:
    owner = owner_of(a_state(None, a_workload(), an_hpa("b", bounds=(2, 7))))
    assert owner == AutoscalerView("HorizontalPodAutoscaler", "b", "uid-hpa-b", "1", 2, 7, 2, 7)


def test_an_hpa_that_outlives_its_scaled_object_still_owns_the_target() -> None:
    scaled, hpa = a_scaled_object(), an_hpa("keda-hpa-b", bounds=(1, 9), owner_scaled_object="b")
    state = feed(a_state(None, a_workload(), scaled, hpa), gone(scaled))
    owner = owner_of(state)
    assert owner is not None
    assert (owner.kind, owner.maximum) == ("HorizontalPodAutoscaler", 9)


def test_somebody_elses_autoscaler_is_not_ours() -> None:
    assert owner_of(a_state(None, a_workload(), an_hpa("x", target="other"))) is None


# --- what we asked for


def test_a_write_counts_until_the_watch_shows_it() -> None:
    state = a_state(None, a_workload("b", 2))
    state.note_write("b", ref(), 5, NOW)
    assert target_of(state).unconfirmed_replicas == 5
    feed(state, changed(a_workload("b", 2, resource_version="2")))
    assert target_of(state).unconfirmed_replicas == 5
    feed(state, changed(a_workload("b", 5, resource_version="3")))
    assert (target_of(state).replicas, target_of(state).unconfirmed_replicas) == (5, None)
    feed(state, changed(a_workload("b", 2, resource_version="4")))
    assert target_of(state).unconfirmed_replicas is None


def test_a_write_in_whose_place_another_number_is_shown_is_forgotten_after_ten_seconds() -> None:
    state = a_state(None, a_workload("b", 2))
    state.note_write("b", ref(), 5, NOW)
    feed(state, changed(a_workload("b", 3, resource_version="2")))
    assert target_of(state, NOW + 9.9).unconfirmed_replicas == 5
    assert target_of(state, NOW + 10).unconfirmed_replicas is None


def test_a_write_of_which_a_silent_watch_says_nothing_counts_until_it_has_listed_everything_anew() -> None:
    state = a_state(None, a_workload("b", 2))
    state.note_write("b", ref(), 5, NOW)
    assert target_of(state, NOW + 89.9).unconfirmed_replicas == 5
    assert target_of(state, NOW + 90).unconfirmed_replicas is None


def test_what_the_replicas_are_says_nothing_against_a_write_of_bounds() -> None:
    state = a_state(None, a_workload("b", 9), a_scaled_object(bounds=(1, 9)))
    state.note_write("b", ref(), 5, NOW)
    feed(state, changed(a_workload("b", 8, resource_version="2")))
    assert target_of(state, NOW + 10).unconfirmed_replicas == 5


def test_a_write_of_bounds_is_shown_by_the_autoscaler_not_by_the_replicas() -> None:
    state = a_state(None, a_workload("b", 5), a_scaled_object(bounds=(1, 9)))
    state.note_write("b", ref(), 5, NOW)
    assert target_of(state).unconfirmed_replicas == 5
    feed(state, changed(a_scaled_object(bounds=(1, 5), resource_version="2")))
    assert target_of(state).unconfirmed_replicas is None


def test_a_write_of_what_is_there_already_is_not_under_way() -> None:
    state = a_state(None, a_workload("b", 2))
    state.note_write("b", ref(), 2, NOW)
    assert target_of(state).unconfirmed_replicas is None


def test_a_write_for_a_target_that_left_the_policy_is_ignored() -> None:
    state = a_state(None, a_workload("b", 2))
    state.note_write("b", ref("x"), 5, NOW)
    state.note_write("a", ref("b"), 5, NOW)
    assert target_of(state).unconfirmed_replicas is None


# --- how long a replica takes


def became_ready(name: str, seconds: float) -> tuple[Event, Event]:
    pod = a_pending_pod(name)
    return changed(pod), changed(
        replace(pod, resource_version="2", node="n1", ready=True, ready_at=pod.created_at + seconds)
    )


def test_load_times_are_the_middle_and_the_slow_one_of_the_starts_that_were_watched() -> None:
    state = a_state(None, a_workload(), a_cluster_node(), a_ready_pod("b-0"))
    for n, seconds in enumerate((40.0, 200.0, 50.0)):
        assert model_of(state).load_seconds is None  # two starts say less than the policy's figure
        feed(state, *became_ready(f"b-{n + 1}", seconds))
    assert (model_of(state).load_seconds, model_of(state).slow_load_seconds) == (50.0, 200.0)


def test_only_the_first_time_a_pod_becomes_ready_is_a_start() -> None:
    state = a_state(None, a_workload(), a_cluster_node())
    feed(state, *became_ready("b-1", 40.0))
    flapping = a_ready_pod("b-1", node="n1", created_at=NOW - 60.0)
    feed(state, changed(replace(flapping, resource_version="3", ready=False, ready_at=None)))
    feed(state, changed(replace(flapping, resource_version="4", ready=True, ready_at=NOW + 9000)))
    assert [(start.count, start.slow_seconds) for start in model_of(state).starts] == [(1, 40.0)]


def test_the_last_twenty_starts_count() -> None:
    state = a_state(None, a_workload(), a_cluster_node())
    for n in range(30):
        feed(state, *became_ready(f"b-{n}", 1000.0 if n < 15 else 20.0))
    assert model_of(state).load_seconds == 20.0


def test_a_target_says_the_most_gpus_that_one_of_its_pods_requests() -> None:
    pods = (a_ready_pod("b-1", gpus={GPU: 1}), a_ready_pod("b-2", gpus={GPU: 4, "other/x": 9}))
    assert target_of(a_state(None, a_workload(), *pods)).running_gpus == 4
    assert target_of(a_state(None, a_workload())).running_gpus is None


def test_a_number_is_somebody_elses_where_they_wrote_what_is_in_force() -> None:
    ours = Originals(1, 10)
    for objects, by_others in (
        ((a_workload("b", 3),), False),
        ((a_workload("b", 3, writer="kubectl"),), True),
        ((a_workload("b", 3), a_scaled_object(originals=ours, writers=("", ""))), False),
        ((a_workload("b", 3), a_scaled_object(originals=ours, writers=("", "helm"))), True),
        ((a_workload("b", 3), a_scaled_object(originals=ours, writers=("helm", ""))), False),
        ((a_workload("b", 3, writer="kube-controller-manager"), a_scaled_object(originals=ours)), False),
        ((a_workload("b", 3), an_hpa(originals=ours, writers=("", "argocd"))), True),
    ):
        assert target_of(a_state(None, *objects)).by_others is by_others, objects
