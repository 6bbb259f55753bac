"""What clients ask of the embedded API happens in the simulated cluster, and what happens there shows in the API."""

import msgspec
import pytest
from msgspec.structs import replace

from rebalancer.domain.cluster import ClusterObject, Node
from rebalancer.domain.cluster import Pod as SeenPod
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects import SHAPES, value_of
from rebalancer.sandbox.manifests import manifest
from rebalancer.world import World, WorldPod
from rebalancer.world.values import value
from tests.e2e.stages import DEPLOYMENTS, NODECLAIMS, NODEPOOLS, PODS, Cluster, a_world

A = WorkloadRef("serving", "Deployment", "a")


def pods_of(world: World, model: str) -> list[WorldPod]:
    return [pod for pod in world.pods.values() if pod.owner.model == model]


async def test_everything_there_is_shows_in_the_api(cluster: Cluster) -> None:
    for path, count in ((PODS, 6), (DEPLOYMENTS, 3), ("/api/v1/nodes", 2), (NODEPOOLS, 1), (NODECLAIMS, 1)):
        assert len((await cluster.get(path))["items"]) == count
    a = await cluster.get(f"{DEPLOYMENTS}/a")
    assert (a["spec"]["replicas"], a["status"]["readyReplicas"], a["status"]["updatedReplicas"]) == (2, 2, 2)


def test_the_service_reads_the_objects_as_the_values_that_the_world_gives_itself() -> None:
    """Two ways to the same values: through the API's JSON, and without an API."""
    world = a_world()
    world.scale(A, 3)
    world.interrupt(next(iter(world.node_claims)), world.now + 120)
    world.delete_pod(*pods_of(world, "b")[0].key)
    world.advance(world.now + 3.5)
    changes = world.take_changes()
    sources = set()
    for thing, _ in changes:
        source, wanted = value(thing, version=0)
        sources.add(source)
        encoded = msgspec.json.encode(manifest(thing).whole)
        seen = value_of(source, msgspec.json.decode(encoded, type=SHAPES[source].wire))
        assert rounded(seen) == rounded(wanted)
    assert sources == {"nodes", "pods", "deployments", "nodepools", "nodeclaims"}


def rounded(seen: object) -> object:
    """Whole seconds, as Kubernetes writes them; without what only the API adds."""
    assert isinstance(seen, ClusterObject)
    instants = ("ready_changed_at", "ready_at", "created_at", "deleting_at")
    known = {name: getattr(seen, name, None) for name in instants}
    whole = {name: float(int(at)) for name, at in known.items() if at is not None}
    extra: dict[str, object] = {}
    if isinstance(seen, Node):
        extra["labels"] = {name: text for name, text in seen.labels.items() if name != "kubernetes.io/hostname"}
    elif isinstance(seen, SeenPod):
        extra["labels"] = ()  # the world finds a target's pods by their owner
        extra["image"] = ""  # nor does it know what is pulled
    if hasattr(seen, "budgets"):
        extra["budgets"] = None
    return replace(seen, resource_version="", **whole, **extra)


async def test_a_scale_write_moves_replicas_in_the_world(cluster: Cluster) -> None:
    await cluster.scale("a", 1)
    cluster.step(10)
    assert len(pods_of(cluster.world, "a")) == 1
    assert len((await cluster.get(PODS))["items"]) == 5
    assert (await cluster.get(f"{DEPLOYMENTS}/a"))["status"]["replicas"] == 1


async def test_a_pod_that_ends_is_marked_first_and_gone_when_it_is(cluster: Cluster) -> None:
    await cluster.scale("a", 1)
    cluster.step(1)
    marked = [pod for pod in (await cluster.get(PODS))["items"] if "deletionTimestamp" in pod["metadata"]]
    assert len(marked) == 1
    cluster.step(4)
    assert len((await cluster.get(PODS))["items"]) == 5


async def test_the_deletion_cost_written_on_a_pod_chooses_the_victim(cluster: Cluster) -> None:
    chosen = sorted(pod.name for pod in pods_of(cluster.world, "b"))[1]
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1000"}}}
    await cluster.request("PATCH", f"{PODS}/{chosen}", cost)
    await cluster.scale("b", 1)
    cluster.step(10)
    assert chosen not in {pod.name for pod in pods_of(cluster.world, "b")}


@pytest.mark.parametrize("how", ["evicted", "deleted"])
async def test_a_pod_that_a_client_takes_away_ends_and_is_replaced(cluster: Cluster, how: str) -> None:
    name = pods_of(cluster.world, "a")[0].name
    if how == "evicted":
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "serving"}}
        await cluster.request("POST", f"{PODS}/{name}/eviction", body, headers={})
    else:
        await cluster.request("DELETE", f"{PODS}/{name}", headers={})
    cluster.step(10)
    names = {pod.name for pod in pods_of(cluster.world, "a")}
    assert name not in names
    assert len(names) == 2
    assert name not in {pod["metadata"]["name"] for pod in (await cluster.get(PODS))["items"]}


async def test_a_limit_written_on_a_nodepool_lets_nodes_come_and_its_use_shows(cluster: Cluster) -> None:
    await cluster.scale("c", 4)
    cluster.step(60)
    assert len(cluster.world.node_claims) == 1
    await cluster.request("PATCH", f"{NODEPOOLS}/spot", {"spec": {"limits": {"nvidia.com/gpu": "4"}}})
    cluster.step(60)
    assert len(cluster.world.node_claims) == 2
    assert (await cluster.get(f"{NODEPOOLS}/spot"))["status"]["resources"] == {"nvidia.com/gpu": "4"}


async def test_a_limit_taken_away_is_no_limit(cluster: Cluster) -> None:
    await cluster.request("PATCH", f"{NODEPOOLS}/spot", {"spec": {"limits": None}})
    cluster.step()
    assert cluster.world.node_pools["spot"].limit is None


async def test_a_nodeclaim_deleted_through_the_api_is_drained_before_it_goes(cluster: Cluster) -> None:
    (name,) = cluster.world.node_claims
    await cluster.request("DELETE", f"{NODECLAIMS}/{name}", headers={})
    cluster.step(1)
    taints = (await cluster.get(f"/api/v1/nodes/{name}"))["spec"]["taints"]
    assert [taint["key"] for taint in taints] == ["karpenter.sh/disrupted"]
    cluster.step(10)
    assert name not in {claim["metadata"]["name"] for claim in (await cluster.get(NODECLAIMS))["items"]}
    assert name not in cluster.world.nodes


async def test_no_pod_lands_on_a_node_that_is_cordoned_until_it_is_uncordoned(cluster: Cluster) -> None:
    await cluster.request("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    await cluster.scale("a", 1)
    cluster.step(10)
    await cluster.scale("a", 2)
    cluster.step(10)
    (node,) = [one for one in (await cluster.get("/api/v1/nodes"))["items"] if one["metadata"]["name"] == "n1"]
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["node.kubernetes.io/unschedulable"]
    assert sorted(pod.node is None for pod in pods_of(cluster.world, "a")) == [False, True]
    await cluster.request("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": None}})
    cluster.step(10)
    assert (await cluster.get("/api/v1/nodes/n1"))["spec"]["taints"] == []
    assert all(pod.node is not None for pod in pods_of(cluster.world, "a"))


async def test_what_others_wrote_stays_when_the_world_shows_its_news(cluster: Cluster) -> None:
    note = {"metadata": {"annotations": {"note": "ours"}}}
    for path in (f"{DEPLOYMENTS}/a", f"{NODEPOOLS}/spot", f"{PODS}/{pods_of(cluster.world, 'a')[0].name}"):
        await cluster.request("PATCH", path, note)
    await cluster.scale("a", 3)
    await cluster.scale("c", 3)
    cluster.world.scale(A, 1)  # the world has news of its own before it hears of the write
    cluster.puppet.show()
    assert (await cluster.get(f"{DEPLOYMENTS}/a"))["spec"]["replicas"] == 3
    cluster.step(60)
    assert len(pods_of(cluster.world, "a")) == 3
    for path in (f"{DEPLOYMENTS}/a", f"{NODEPOOLS}/spot"):
        assert (await cluster.get(path))["metadata"]["annotations"]["note"] == "ours"


async def test_a_deployment_says_which_generation_is_obeyed(cluster: Cluster) -> None:
    assert (await cluster.get(f"{DEPLOYMENTS}/a"))["status"]["observedGeneration"] == 1
    await cluster.scale("a", 3)
    cluster.puppet.show()  # before it is obeyed
    waiting = await cluster.get(f"{DEPLOYMENTS}/a")
    assert (waiting["metadata"]["generation"], waiting["status"]["observedGeneration"]) == (2, 1)
    cluster.step()
    assert (await cluster.get(f"{DEPLOYMENTS}/a"))["status"]["observedGeneration"] == 2
    paused = {"spec": {"paused": True}}  # changes nothing in the world
    await cluster.request("PATCH", f"{DEPLOYMENTS}/a", paused)
    cluster.step()
    assert (await cluster.get(f"{DEPLOYMENTS}/a"))["status"]["observedGeneration"] == 3


async def test_a_deployment_says_whether_it_is_available_for_kubectl_wait(cluster: Cluster) -> None:
    async def available() -> str:
        (condition,) = (await cluster.get(f"{DEPLOYMENTS}/a"))["status"]["conditions"]
        assert condition["type"] == "Available"
        return str(condition["status"])

    assert await available() == "True"
    await cluster.scale("a", 3)
    cluster.step()
    assert await available() == "False"
    await cluster.scale("b", 1)  # which makes room
    cluster.step(60)
    assert await available() == "True"
