"""Everything goes back as it was, found by what is on the objects themselves."""

import msgspec

from rebalancer.act.hand_back import hand_back
from rebalancer.act.originals import ANNOTATION as ORIGINALS
from rebalancer.sandbox.api import Obj
from rebalancer.sandbox.api.resources import HPAS, NODEPOOLS, PODS, SCALEDOBJECTS, ServedResource
from tests.act.rig import GPU, OURS, Rig, change, hpa, node_pool, node_pool_change, pod, scaled_object
from tests.builders import NAMESPACE, a_model, a_policy, a_pool, a_snapshot, an_autoscaler, an_elastic_pool

COST = "controller.kubernetes.io/pod-deletion-cost"
SAVED = {"annotations": {"rebalancer.io/originals": '{"min":2,"max":9,"by":"rebalancer/rebalancer"}'}}
UNNAMED = {"annotations": {"rebalancer.io/originals": '{"min":2,"max":9}'}}
THEIRS = {"annotations": {"rebalancer.io/originals": '{"min":2,"max":9,"by":"search/rebalancer"}'}}
KEDA = [{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "b", "uid": "uid-so-b"}]


def stored(rig: Rig, resource: ServedResource, name: str) -> bytes:
    """An object's spec and annotations, as JSON."""
    obj = rig.object(resource, name)
    return msgspec.json.encode([obj["spec"], obj["metadata"].get("annotations") or {}], order="sorted")


def pool_with(by: str) -> Obj:
    """NodePool spot, whose limit was 4."""
    obj = node_pool(limits={GPU: "8"})
    obj["metadata"]["annotations"] = {ORIGINALS: f'{{"limits":{{"{GPU}":"4"}},"budgets":null,"by":"{by}"}}'}
    return obj


async def test_what_the_gate_wrote_is_given_back_whole(rig: Rig) -> None:
    policy = a_policy(a_model("a"), a_model("b"), pools=(a_pool(), an_elastic_pool()))
    rig.stand(policy, a_snapshot(policy, replicas={"a": 3, "b": 5}))
    rig.store.put(scaled_object("b", None, 9))
    rig.store.put(hpa("a", None, 7))
    rig.store.put(node_pool(limits={GPU: "4"}, budgets=[{"nodes": "5%"}]))
    objects = ((SCALEDOBJECTS, "b"), (HPAS, "a"), (NODEPOOLS, "spot"))
    before = [stored(rig, *each) for each in objects]
    a = rig.show("a", autoscaler=an_autoscaler(1, 7, kind="HorizontalPodAutoscaler", name="a", uid="uid-hpa-a"))
    b = rig.show("b", autoscaler=an_autoscaler(0, 9))
    outcomes = await rig.apply(
        node_pool_change("hold"),
        node_pool_change("limit", limit_from=4, limit_to=8),
        change(a, 3, kind="bounds"),
        change(b, 5, kind="bounds"),
    )
    during = [stored(rig, *each) for each in objects]

    lines = await hand_back(rig.kube, OURS, dry_run=False)

    assert [outcome.status for outcome in outcomes] == ["written"] * 4
    assert all(one != other for one, other in zip(before, during, strict=True))
    assert [stored(rig, *each) for each in objects] == before
    assert lines == (
        "restored scaledobject/serving/b: minReplicaCount removed, maxReplicaCount 9",
        "restored horizontalpodautoscaler/serving/a: minReplicas removed, maxReplicas 7",
        "restored nodepool/spot: limits {'nvidia.com/gpu': '4'}, disruption {'budgets': [{'nodes': '5%'}]}",
    )


async def test_a_second_time_there_is_nothing_to_do(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 3, 5, **SAVED))
    await hand_back(rig.kube, OURS, dry_run=False)

    assert await hand_back(rig.kube, OURS, dry_run=False) == ()


async def test_a_dry_run_says_what_it_would_do_and_writes_nothing(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 3, 5, **SAVED))

    lines = await hand_back(rig.kube, OURS, dry_run=True)

    assert lines == ("would restore scaledobject/serving/b: minReplicaCount 2, maxReplicaCount 9",)
    assert rig.writes == []


async def test_what_another_installation_wrote_to_stays_and_is_named(rig: Rig) -> None:
    rig.store.put(scaled_object("a", 3, 5, **THEIRS))
    rig.store.put(scaled_object("b", 3, 5, **SAVED))
    rig.store.put(pool_with("search/rebalancer"))

    lines = await hand_back(rig.kube, OURS, dry_run=False, unnamed=True)

    assert rig.written_objects == ["b"]
    why = "installation: {} is held by installation search/rebalancer, we are rebalancer/rebalancer"
    assert lines == (
        f"left scaledobject/serving/a: {why.format('a')}",
        "restored scaledobject/serving/b: minReplicaCount 2, maxReplicaCount 9",
        f"left nodepool/spot: {why.format('spot')}",
    )


async def test_what_carries_no_name_is_given_back_only_when_that_is_said(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 3, 5, **UNNAMED))

    (left,) = await hand_back(rig.kube, OURS, dry_run=False)
    assert left.startswith("left scaledobject/serving/b: installation: it carries no installation's name")
    assert rig.writes == []
    assert len(await hand_back(rig.kube, OURS, dry_run=False, unnamed=True)) == 1
    assert rig.bounds("b") == (2, 9)


async def test_what_another_installation_manages_in_its_namespaces_stays(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 3, 5, **SAVED))

    assert await hand_back(rig.kube, OURS, dry_run=False, namespaces=["elsewhere"]) == ()
    assert rig.bounds("b") == (3, 5)
    assert len(await hand_back(rig.kube, OURS, dry_run=False, namespaces=["elsewhere", NAMESPACE])) == 1
    assert rig.bounds("b") == (2, 9)


async def test_kedas_copy_of_the_annotation_on_its_hpa_is_kedas(rig: Rig) -> None:
    rig.store.put(hpa("b", 3, 5, ownerReferences=KEDA, **SAVED))

    assert await hand_back(rig.kube, OURS, dry_run=False) == ()
    assert rig.writes == []


async def test_an_object_written_by_somebody_else_meanwhile_is_read_again(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 3, 5, **SAVED))
    rig.server.faults.fail_next(2, 409, method="PATCH")

    (line,) = await hand_back(rig.kube, OURS, dry_run=False)

    assert line.startswith("restored")
    assert rig.bounds("b") == (2, 9)


async def test_what_fails_is_told_and_stops_nothing_else(rig: Rig) -> None:
    rig.store.put(scaled_object("a", 3, 5, **SAVED))
    rig.store.put(scaled_object("b", 3, 5, **SAVED))
    rig.store.put(scaled_object("c", 3, 5, annotations={"rebalancer.io/originals": "nonsense"}))
    rig.server.faults.fail_next(1, 403, method="PATCH", path_part="/scaledobjects/a")

    lines = await hand_back(rig.kube, OURS, dry_run=False)

    assert [line.split(":")[0] for line in lines] == [
        "failed scaledobject/serving/a",
        "restored scaledobject/serving/b",
        "failed scaledobject/serving/c",
    ]


async def test_an_object_that_cannot_be_understood_concerns_itself_alone(rig: Rig) -> None:
    broken = node_pool("old", limits={GPU: "8"})
    broken["metadata"]["annotations"] = {ORIGINALS: '{"limits":5,"budgets":null,"by":"rebalancer/rebalancer"}'}
    rig.store.put(broken)
    rig.store.put(pool_with(OURS))

    failed, restored = await hand_back(rig.kube, OURS, dry_run=False)

    assert failed.startswith("failed nodepool/old: it cannot be understood: TypeError")
    assert restored.startswith("restored nodepool/spot")


async def test_only_deletion_costs_that_we_wrote_go(rig: Rig) -> None:
    def marked(name: str, manager: str) -> Obj:
        obj = pod(name, **{COST: "-1000"})
        fields: Obj = {"f:metadata": {"f:annotations": {f"f:{COST}": {}}}}
        obj["metadata"]["managedFields"] = [{"manager": manager, "operation": "Update", "fieldsV1": fields}]
        return obj

    rig.store.put(marked("ours", "rebalancer"))
    rig.store.put(marked("theirs", "kubectl-annotate"))

    lines = await hand_back(rig.kube, OURS, dry_run=False)

    assert lines == ("restored pod/serving/ours: annotation removed",)
    assert rig.object(PODS, "ours")["metadata"].get("annotations", {}) == {}
    assert rig.object(PODS, "theirs")["metadata"]["annotations"] == {COST: "-1000"}


async def test_a_cluster_without_keda_and_karpenter_has_nothing_of_ours_there(rig: Rig) -> None:
    rig.store.put(hpa("b", 3, 5, **SAVED))
    rig.server.faults.fail_next(1, 404, path_part="/scaledobjects")
    rig.server.faults.fail_next(1, 404, path_part="/nodepools")

    lines = await hand_back(rig.kube, OURS, dry_run=False)

    assert lines == ("restored horizontalpodautoscaler/serving/b: minReplicas 2, maxReplicas 9",)
