"""What bounds the pods that targets may ask for: whose rules count which pods, and who holds what is used."""

from msgspec import UNSET
from msgspec.structs import replace

from rebalancer.domain.cluster import Pod, Workload
from rebalancer.domain.jobs import Job
from rebalancer.domain.kueue import ClusterQueue, Cohort, FlavorQuota, LocalQueue, ResourceFlavor, Used
from rebalancer.domain.quota_view import Holder, PodRank, QuotaDraw, QuotaView
from rebalancer.domain.quotas import ContainerAsk, LimitRange, Limits, PodAsk, PriorityClass, ResourceQuota, Scope
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state import ClusterState
from tests.builders import NAMESPACE, NOW, a_model, a_policy, a_pool
from tests.state.objects import GPU, a_cluster_node, a_ready_pod, a_state, a_workload, changed, feed, listed

POLICY = a_policy(a_model("b"), pools=(a_pool(),))
KEY = f"requests.{GPU}"
TWO = ContainerAsk({GPU: 2000}, {GPU: 2000})


def a_target(*containers: ContainerAsk, priority_class: str = "", queue: str = "") -> Workload:
    return a_workload(ask=PodAsk(containers or (TWO,), priority_class, queue=queue))


def a_quota(hard: dict[str, int], used: dict[str, int] | None = None, *scopes: Scope) -> ResourceQuota:
    amounts = {key: amount * 1000 for key, amount in hard.items()}
    counted = {key: amount * 1000 for key, amount in (used or dict.fromkeys(hard, 0)).items()}
    return ResourceQuota(NAMESPACE, "gpus", "uid-gpus", "1", amounts, counted, scopes)


def quotas(state: ClusterState) -> list[QuotaView]:
    return list(state.peek(NOW).quotas)


def train(pod: str = "train-1") -> Pod:
    found = a_ready_pod(pod, None, gpus={GPU: 4})
    return replace(found, workload=WorkloadRef(NAMESPACE, "Job", "train-0"))


A_JOB = Job(NAMESPACE, "train-0", "uid-train-0", "1", NOW + 60.0, ("JobSet", "train"))


def test_a_quota_of_the_namespace_binds_its_targets_and_names_who_holds_it() -> None:
    state = a_state(
        POLICY, a_cluster_node(), a_target(), a_ready_pod(gpus={GPU: 2}), train(), A_JOB, a_quota({KEY: 8}, {KEY: 6})
    )
    (view,) = quotas(state)
    assert (view.kind, view.namespace, view.name, view.key) == ("ResourceQuota", NAMESPACE, "gpus", KEY)
    assert (view.hard, view.used, view.draws) == (8000, 6000, (QuotaDraw("b", "a100", 2000),))
    assert view.holders == (
        Holder("JobSet", NAMESPACE, "train", 4000, NOW + 60.0),
        Holder("Deployment", NAMESPACE, "b", 2000),
    )


def test_quotas_of_others_namespaces_and_of_what_no_pod_asks_for_bind_nobody() -> None:
    away = replace(a_quota({KEY: 0}), namespace="elsewhere")
    assert quotas(a_state(POLICY, a_target(), away, a_quota({"requests.example.com/x": 0, "services": 0}))) == []


def test_a_quota_counts_the_pods_of_its_scopes() -> None:
    high = Scope("PriorityClass", "In", ("high",))
    target = a_target(priority_class="high")
    assert len(quotas(a_state(POLICY, target, a_quota({KEY: 8}, None, high)))) == 1
    assert quotas(a_state(POLICY, a_target(), a_quota({KEY: 8}, None, high))) == []
    assert len(quotas(a_state(POLICY, a_target(), a_quota({KEY: 8}, None, Scope("NotTerminating"))))) == 1
    assert quotas(a_state(POLICY, a_target(), a_quota({KEY: 8}, None, Scope("Terminating")))) == []


def test_pods_without_a_class_are_of_the_default_one() -> None:
    state = a_state(POLICY, a_target(), a_quota({KEY: 8}, None, Scope("PriorityClass", "In", ("usual",))))
    assert quotas(state) == []
    feed(state, changed(PriorityClass("usual", "uid-usual", "1", default=True)))
    assert len(quotas(state)) == 1


def test_the_priority_class_of_a_target_s_pods_is_known_and_follows_the_class() -> None:
    high = PriorityClass("high", "uid-high", "1", 1000, preempts=False)
    state = a_state(POLICY, a_target(priority_class="high"), high)
    assert state.peek(NOW).ranks == (PodRank("b", "a100", "high", 1000, preempts=False),)
    feed(state, changed(replace(high, resource_version="2", value=0)))
    assert state.peek(NOW).ranks == ()
    feed(state, changed(replace(high, name="low", value=-7, default=True)), changed(a_target()))
    assert state.peek(NOW).ranks == (PodRank("b", "a100", "low", -7, preempts=False),)


def test_what_a_namespace_gives_containers_that_say_nothing_is_counted() -> None:
    row = Limits("Container", requests={"cpu": 1000}, limits={"cpu": 2000})
    limits = LimitRange(NAMESPACE, "usual", "uid-usual", "1", (row,))
    state = a_state(POLICY, a_target(TWO, TWO), a_quota({"requests.cpu": 8, "limits.cpu": 8}), limits)
    assert {view.key: view.draws[0].amount for view in quotas(state)} == {"limits.cpu": 4000, "requests.cpu": 2000}


def test_pods_that_say_nothing_of_what_a_quota_counts_are_refused_by_it() -> None:
    (view,) = quotas(a_state(POLICY, a_target(), a_quota({"requests.cpu": 8})))
    assert view.full
    assert view.refuses == "takes no pod with a container that says nothing of requests.cpu"


def test_pods_beyond_a_limit_range_are_refused_by_it() -> None:
    limits = LimitRange(NAMESPACE, "small", "uid-small", "1", (Limits("Container", most={GPU: 1000}),))
    (view,) = quotas(a_state(POLICY, a_target(), limits))
    assert str(view.text(0)) == (
        f"LimitRange {NAMESPACE}/small allows a container at most 1 {GPU}, and one of its template has a limit of 2"
    )


def test_a_quota_that_was_not_counted_yet_takes_nothing() -> None:
    (view,) = quotas(a_state(POLICY, a_target(), replace(a_quota({KEY: 8}), used={})))
    assert view.full
    assert "has not counted" in view.refuses


def test_all_pods_of_a_replica_are_drawn_together() -> None:
    target = a_workload(ask=PodAsk((TWO,)), pods=3, leader_ask=PodAsk((ContainerAsk({GPU: 1000}),)))
    (view,) = quotas(a_state(POLICY, target, a_quota({KEY: 8})))
    assert view.draws == (QuotaDraw("b", "a100", 5000),)


def test_a_change_of_its_use_is_seen_and_nothing_else_makes_another_value() -> None:
    state = a_state(POLICY, a_cluster_node(), a_target(), a_quota({KEY: 8}))
    first = state.peek(NOW).quotas
    feed(state, changed(a_cluster_node(resource_version="2", unschedulable=True)))
    assert state.peek(NOW).quotas is first
    feed(state, changed(replace(a_quota({KEY: 8}, {KEY: 8}), resource_version="2")))
    assert quotas(state)[0].full


class TestKueue:
    def test_a_queue_binds_whose_pods_name_it_by_flavors_of_their_nodes(self) -> None:
        queue = a_queue(FlavorQuota("a100", GPU, 4000), FlavorQuota("h100", GPU, 8000), used=3000)
        state = a_state(POLICY, a_target(queue="llms"), LOCAL, queue, *FLAVORS)
        (view,) = quotas(state)
        assert (view.kind, view.name, view.key, view.hard, view.used) == ("ClusterQueue", "research", GPU, 4000, 3000)
        assert view.draws == (QuotaDraw("b", "a100", 2000),)
        assert view.share == "its own are 4 of flavor a100"

    def test_it_may_have_what_others_lend_within_its_limits(self) -> None:
        ours = a_queue(FlavorQuota("a100", GPU, 4000, borrows=2000), used=3000, cohort="all")
        theirs = a_queue(FlavorQuota("a100", GPU, 8000, lends=5000), name="other", cohort="all")
        (view,) = quotas(a_state(POLICY, a_target(queue="llms"), LOCAL, ours, theirs, *FLAVORS))
        assert view.hard == 6000  # 4 of its own and 2 that it may borrow
        ours = replace(ours, quotas=(FlavorQuota("a100", GPU, 4000),))
        (view,) = quotas(a_state(POLICY, a_target(queue="llms"), LOCAL, ours, theirs, *FLAVORS))
        assert view.hard == 9000  # 4 of its own and 5 that are lent
        theirs = replace(theirs, used=(Used("a100", GPU, 8000),))
        (view,) = quotas(a_state(POLICY, a_target(queue="llms"), LOCAL, ours, theirs, *FLAVORS))
        assert view.hard == 4000

    def test_below_cohorts_that_name_each_other_in_a_circle_nothing_is_to_be_had(self) -> None:
        ours = a_queue(FlavorQuota("a100", GPU, 4000), cohort="a")
        theirs = a_queue(FlavorQuota("a100", GPU, 4000), name="other", cohort="b")
        for parents in ({"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}):
            cohorts = [Cohort(name, f"uid-{name}", "1", parent) for name, parent in parents.items()]
            (view,) = quotas(a_state(POLICY, a_target(queue="llms"), LOCAL, ours, theirs, *FLAVORS, *cohorts))
            assert (view.kind, view.hard) == ("ClusterQueue", 0)

    def test_what_others_borrowed_of_it_is_not_there_unless_it_takes_it_back(self) -> None:
        ours = a_queue(FlavorQuota("a100", GPU, 4000), cohort="all")
        theirs = a_queue(FlavorQuota("a100", GPU, 2000), name="other", cohort="all", used=5000)
        (view,) = quotas(a_state(POLICY, a_target(queue="llms"), LOCAL, ours, theirs, *FLAVORS))
        assert view.hard == 1000
        (view,) = quotas(a_state(POLICY, a_target(queue="llms"), LOCAL, replace(ours, reclaims=True), theirs, *FLAVORS))
        assert view.hard == 4000

    def test_a_queue_that_is_not_there_or_stopped_admits_nobody(self) -> None:
        (view,) = quotas(a_state(POLICY, a_target(queue="none"), LOCAL))
        assert view.text(0) == f"LocalQueue {NAMESPACE}/none does not exist; pods with that queue wait at a gate"
        (view,) = quotas(a_state(POLICY, a_target(queue="llms"), LOCAL, replace(a_queue(), stopped=True)))
        assert view.refuses.startswith("admits nothing: ClusterQueue research has a stopPolicy")

    def test_without_kueue_a_label_holds_nobody_back(self) -> None:
        state = ClusterState(POLICY, NOW)
        feed(state, listed("deployments", a_target(queue="llms")))
        assert quotas(state) == []


LOCAL = LocalQueue(NAMESPACE, "llms", "uid-llms", "1", "research")
FLAVORS = (
    ResourceFlavor("a100", "uid-a100", "1", {"pool": "a100"}),
    ResourceFlavor("h100", "uid-h100", "1", {"pool": "h100"}),
)


def a_queue(*quotas: FlavorQuota, name: str = "research", cohort: str = "", used: int = 0) -> ClusterQueue:
    return ClusterQueue(name, f"uid-{name}", "1", cohort, quotas, (Used("a100", GPU, used),) if used else ())


def test_a_wait_for_an_admission_is_no_part_of_a_start() -> None:
    state = a_state(POLICY, a_cluster_node(created_at=NOW - 400.0), a_target())
    for name in ("b-1", "b-2", "b-3"):
        new = a_ready_pod(name, created_at=NOW - 500.0, node=None, phase="Pending", ready=False, ready_at=None)
        feed(state, changed(replace(new, gates=("kueue.x-k8s.io/admission",))))
        (target,) = state.peek(NOW).models[0].targets
        assert target.pods[-1].gated is True
        placed = replace(new, resource_version="2", node="n1", placed_at=NOW - 70.0)
        feed(state, changed(placed), changed(replace(placed, resource_version="3", ready=True, ready_at=NOW)))
    (model,) = state.peek(NOW).models
    assert (model.load_seconds, [start.median_seconds for start in model.starts]) == (70.0, [70.0])
    assert model.targets[0].pods[0].gated is UNSET


def test_of_an_admitted_pod_whose_place_nobody_dates_nobody_knows_how_long_it_started() -> None:
    state = a_state(POLICY, a_cluster_node(created_at=NOW - 9000.0), a_target())
    new = a_ready_pod(created_at=NOW - 500.0, node=None, phase="Pending", ready=False, ready_at=None)
    feed(state, changed(replace(new, gates=("kueue.x-k8s.io/admission",))))
    feed(state, changed(a_ready_pod(created_at=NOW - 500.0, ready_at=NOW, resource_version="2")))
    assert state.peek(NOW).models[0].starts == ()


def test_who_holds_gpus_besides_the_models_is_named_with_its_end() -> None:
    state = a_state(
        POLICY, a_cluster_node(), a_target(), a_ready_pod(), train(), train("train-2"), A_JOB, a_ready_pod("x", None)
    )
    (pool,) = state.peek(NOW).pools
    assert pool.others == (Holder("JobSet", NAMESPACE, "train", 8, NOW + 60.0), Holder("Pod", NAMESPACE, "x", 1))
    feed(state, changed(replace(A_JOB, resource_version="2", ends_at=None)))
    (pool,) = state.peek(NOW).pools
    assert pool.others[0].ends_at is None
