"""How long starts take, by what was there."""

from msgspec.structs import replace

from rebalancer.domain.arithmetic import ready_by
from rebalancer.domain.cluster import Node, Pod
from rebalancer.domain.dual_pods import Requester
from rebalancer.domain.snapshot import ModelView
from rebalancer.domain.starts import StartView
from rebalancer.state.checkpoint import ModelPast
from rebalancer.state.cluster import ClusterState
from tests.builders import NOW
from tests.state.objects import a_cluster_node, a_pending_pod, a_state, a_workload, changed, feed

IMAGE = "docker.io/vllm/vllm-openai:v0.11"
OLD, NEW = NOW - 9000.0, NOW - 30.0


def a_node(created_at: float | None = OLD, images: tuple[str, ...] = (IMAGE, "other:1")) -> Node:
    return a_cluster_node(created_at=created_at, images=images)


def started(state: ClusterState, name: str, seconds: float, placed_after: float | None = 0.0) -> None:
    """A pod made at NOW - 60: without a node, then with one while its image is fetched, then Ready."""
    pod = a_pending_pod(name, image=IMAGE)
    placed_at = None if placed_after is None else pod.created_at + placed_after
    placed = replace(pod, resource_version="2", node="n1", placed_at=placed_at)
    ready = replace(placed, resource_version="3", phase="Running", ready=True, ready_at=pod.created_at + seconds)
    feed(state, changed(pod), changed(placed), changed(ready))


def view(state: ClusterState) -> ModelView:
    (found,) = (model for model in state.peek(NOW).models if model.id == "b")
    return found


def kinds(node: Node) -> list[str]:
    state = a_state(None, a_workload(), node)
    started(state, "b-1", 40.0)
    return [start.kind for start in view(state).starts]


def test_a_start_is_told_by_whether_node_and_image_were_there_when_the_pod_came() -> None:
    assert kinds(a_node()) == ["image"]
    assert kinds(a_node(images=("other:1",))) == ["pull"]
    assert kinds(a_node(NEW, images=())) == ["node"]
    assert kinds(a_node(NEW, images=("other:1",))) == ["node"]
    assert kinds(a_node(NEW)) == ["node-image"]
    assert kinds(a_node(images=())) == ["unknown"]  # a kubelet that lists no images does not say that there are none
    assert kinds(a_node(None)) == ["unknown"]


def test_an_image_that_came_while_the_pod_waited_for_it_was_not_there() -> None:
    state = a_state(None, a_workload(), a_node(images=("other:1",)))
    pod = a_pending_pod("b-1", image=IMAGE)
    placed = replace(pod, resource_version="2", node="n1")
    feed(state, changed(pod), changed(placed), changed(replace(a_node(), resource_version="2")))
    feed(state, changed(replace(placed, resource_version="3", ready=True, ready_at=NOW)))
    assert [start.kind for start in view(state).starts] == ["pull"]


def test_of_a_pod_that_ran_before_we_looked_nobody_knows_whether_its_image_was_there() -> None:
    running = replace(a_pending_pod("b-1", image=IMAGE), node="n1", phase="Running")
    state = a_state(None, a_workload(), a_node(), running)
    feed(state, changed(replace(running, resource_version="2", ready=True, ready_at=NOW)))
    assert [start.kind for start in view(state).starts] == ["unknown"]


def test_a_pod_that_fails_its_probes_after_an_hour_of_service_does_not_start() -> None:
    placed_at = NOW - 3600.0
    failing = replace(
        a_pending_pod("b-1", image=IMAGE), node="n1", phase="Running", created_at=placed_at, placed_at=placed_at
    )
    for unready_at, starts in ((placed_at + 2.0, 1), (NOW - 20.0, 0)):  # loading since then, or ready in between
        state = a_state(None, a_workload(), a_node(), replace(failing, unready_at=unready_at))
        feed(state, changed(replace(failing, resource_version="2", ready=True, ready_at=NOW)))
        assert len(view(state).starts) == starts


def test_a_pod_that_failed_for_days_before_it_was_ready_is_no_start_of_days() -> None:
    state = a_state(None, a_workload(), a_node())
    for name, seconds in (("b-1", 40.0), ("b-2", 50.0), ("b-3", 3 * 86_400.0), ("b-4", 60.0)):
        started(state, name, seconds)
    (there,) = view(state).starts
    assert (there.count, there.slow_seconds) == (3, 60.0)


def test_each_kind_has_its_own_distribution() -> None:
    state = a_state(None, a_workload(), a_node())
    for n, seconds in enumerate((40.0,) * 8 + (55.0, 90.0)):
        started(state, f"b-{n}", seconds)
    feed(state, changed(replace(a_node(NEW), resource_version="2")))
    started(state, "b-x", 300.0, placed_after=240.0)
    assert view(state).starts == (
        StartView("a100", "image", 10, median_seconds=40.0, slow_seconds=55.0),
        StartView("a100", "node-image", 1, median_seconds=300.0, slow_seconds=300.0),
    )


def test_what_is_planned_with_leaves_out_the_wait_for_a_node() -> None:
    state = a_state(None, a_workload(), a_node(NEW))
    for n in range(3):
        started(state, f"b-{n}", 300.0, placed_after=240.0)
    assert (view(state).load_seconds, view(state).slow_load_seconds) == (60.0, 60.0)


def test_a_node_that_came_and_a_pod_that_nobody_dates_say_nothing_of_loading() -> None:
    state = a_state(None, a_workload(), a_node(NEW))
    for n in range(3):
        started(state, f"b-{n}", 300.0, placed_after=None)
    assert view(state).load_seconds is None
    assert [start.count for start in view(state).starts] == [3]


def test_starts_of_an_older_checkpoint_are_planned_with_and_are_of_no_pool() -> None:
    state = a_state(None, a_workload(), a_node())
    past = ModelPast.from_bytes(state.rings_bytes("b"))
    state.restore_rings("b", replace(past, load_seconds=(30.0, 50.0, 40.0)).to_bytes())
    assert (view(state).load_seconds, view(state).starts) == (40.0, ())


def test_what_the_last_cycle_before_ours_knew_stands_until_a_start_is_measured() -> None:
    state = a_state(None, a_workload(), a_node())
    for n in range(3):
        started(state, f"b-{n}", 40.0)
    fresh = a_state(None, a_workload(), a_node())
    fresh.resume(state.peek(NOW))
    assert view(fresh).starts == view(state).starts
    assert (view(fresh).load_seconds, view(fresh).slow_load_seconds) == (40.0, 40.0)
    started(fresh, "b-9", 70.0)
    assert [start.count for start in view(fresh).starts] == [1]


def test_a_loading_replica_is_due_one_load_after_it_got_its_node() -> None:
    waited = replace(a_pending_pod("b-1"), node="n1", placed_at=NOW - 10.0)
    state = a_state(None, a_workload(), a_node(), waited)
    (pod,) = view(state).targets[0].pods
    assert ready_by(pod, 40.0) == NOW + 30.0


def test_a_requester_that_has_ended_holds_its_gpus_until_it_is_gone() -> None:
    def ended(**fields: object) -> Pod:
        over = replace(a_pending_pod("b-1"), node="n1", phase="Failed")
        return replace(over, **fields)

    state = a_state(None, a_workload(), a_node(), ended(dual=Requester("l-1")))
    assert [pod.phase for pod in view(state).targets[0].pods] == ["terminating"]
    assert view(a_state(None, a_workload(), a_node(), ended())).targets[0].pods == ()
