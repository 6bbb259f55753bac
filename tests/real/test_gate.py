"""The gate's writes as the real API server takes them: preconditions, field managers, events, statuses."""

import random
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from rebalancer.act.gate import Gate
from rebalancer.act.hand_back import hand_back
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Intent, Outcome
from rebalancer.domain.plan import Change, OverrideState, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import PodView, Snapshot, TargetView
from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.leader.right import Alone
from rebalancer.loop.clock import RealClock
from tests.builders import a_model, a_policy, a_snapshot, an_autoscaler, an_override
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node, hpa
from tests.testbed.stack import Stack

COST = "controller.kubernetes.io/pod-deletion-cost"


class Acknowledging:
    """A Recorder whose topic always answers."""

    async def intent(self, intent: Intent, *, wait_seconds: float) -> bool:
        return True

    async def outcome(self, outcome: Outcome) -> None:
        pass


@dataclass
class Scene:
    """Deployment b of three replicas, the gate and what it believes."""

    kube: KubeClient
    gate: Gate
    policy: Policy
    facts: Snapshot
    namespace: str
    told: list[int] = field(default_factory=list)

    @property
    def target(self) -> TargetView:
        return self.facts.models[0].targets[0]

    def change(self, to: int, **fields: object) -> Change:
        change = Change("1-b", "release", "b", self.target, self.target.replicas, to, to, "test")
        return replace(change, **fields)

    async def apply(self, *changes: Change, overrides: tuple[OverrideState, ...] = ()) -> tuple[Outcome, ...]:
        plan = Plan(cycle=1, at=self.facts.at, changes=changes, overrides=overrides)
        return await self.gate.apply(plan, self.policy, Memory())


@pytest.fixture
async def scene(cluster: Stack, kube: Kube, crds: None, namespace: str, ours: dict[str, str]) -> AsyncIterator[Scene]:
    await kube.create(gpu_node(f"{namespace}-n", gpus=8, labels=ours))
    await kube.apply(deployment("b", namespace, 3, node_labels=ours))
    pods = await kube.wait_ready(3, namespace)
    policy = a_policy(a_model("b", namespace=namespace))
    facts = a_snapshot(policy, replicas={"b": 3})
    views = tuple(
        PodView(pod["metadata"]["uid"], pod["metadata"]["name"], f"{namespace}-n", "ready", facts.at, facts.at)
        for pod in pods
    )
    uid = (await kube.get("Deployment", "b", namespace))["metadata"]["uid"]
    model = facts.models[0]
    target = replace(model.targets[0], uid=uid, pods=views)
    clock = RealClock()
    tls = ssl.create_default_context(cadata=cluster.access.ca)
    access = Access(cluster.access.server, f"Bearer {cluster.access.token}", tls=tls)
    async with KubeClient(access, clock, random.Random(7)) as client:
        facts = replace(facts, models=(replace(model, targets=(target,)),))
        told: list[int] = []
        scene = Scene(client, None, policy, facts, namespace, told)  # type: ignore[arg-type]  # the gate needs the scene
        scene.gate = Gate(
            client,
            lambda now: replace(scene.facts, at=now),
            clock,
            Acknowledging(),
            Alone(),
            "act",
            lambda _change, replicas, _at: told.append(replicas),
        )
        yield scene


async def test_the_marked_pod_is_the_one_that_goes(scene: Scene, kube: Kube) -> None:
    victim = scene.target.pods[1]

    (outcome,) = await scene.apply(scene.change(2, victims=(victim.uid,), victim_names=(victim.name,)))

    assert (outcome.status, outcome.detail) == ("written", "")
    assert scene.told == [2]

    async def two_stay() -> set[str] | None:
        pods = [pod for pod in await kube.items("Pod", scene.namespace) if "deletionTimestamp" not in pod["metadata"]]
        return {pod["metadata"]["uid"] for pod in pods} if len(pods) == 2 else None

    assert victim.uid not in await kube.wait_for(two_stay, "two pods stay")


async def test_a_pod_of_another_uid_is_not_marked_and_the_release_stands(scene: Scene, kube: Kube) -> None:
    (outcome,) = await scene.apply(scene.change(2, victims=("other",), victim_names=(scene.target.pods[0].name,)))

    assert outcome.status == "written"
    assert outcome.detail.startswith("deletion cost not written")


async def test_a_foreign_write_between_read_and_write_wins(scene: Scene, kube: Kube) -> None:
    class Meddling(Acknowledging):
        async def intent(self, intent: Intent, *, wait_seconds: float) -> bool:
            await kube.patch("Deployment", "b", {"spec": {"replicas": 4}}, scene.namespace)
            return True

    meddled = Gate(scene.kube, lambda _now: scene.facts, RealClock(), Meddling(), Alone(), "act", lambda *_: None)

    (outcome,) = await meddled.apply(Plan(1, scene.facts.at, changes=(scene.change(2),)), scene.policy, Memory())

    assert (outcome.status, outcome.detail[:5]) == ("refused", "moved")
    assert (await kube.get("Deployment", "b", scene.namespace))["spec"]["replicas"] == 4


async def test_a_write_stop_stops_the_next_write(scene: Scene, kube: Kube) -> None:
    spec = {"reason": "incident 42", "actor": "alice"}
    stop = {"apiVersion": "rebalancer.io/v1alpha1", "kind": "WriteStop", "metadata": {"name": scene.namespace}}
    await kube.create(stop | {"spec": spec})
    try:
        (outcome,) = await scene.apply(scene.change(2))
    finally:
        await kube.delete("WriteStop", scene.namespace)

    assert outcome.detail == f"write-stop: {scene.namespace} by alice: incident 42"


async def test_events_are_taken(scene: Scene, kube: Kube) -> None:
    await scene.apply(scene.change(2))
    await scene.gate.events.post()

    assert scene.gate.events.dropped == 0
    events = await kube.items("events.k8s.io/v1/Event", scene.namespace)
    (ours,) = [event for event in events if event.get("reportingController") == "rebalancer.io/rebalancer"]
    assert (ours["reason"], ours["note"], ours["regarding"]["name"]) == ("ReplicasReleased", "b test (3 -> 2)", "b")


async def test_an_hpa_gets_bounds_and_gets_its_own_back(scene: Scene, kube: Kube) -> None:
    before = await kube.create(hpa("b", scene.namespace, 2, 7))
    owner = an_autoscaler(2, 7, kind="HorizontalPodAutoscaler", uid=before["metadata"]["uid"])
    model = scene.facts.models[0]
    owned = replace(scene.target, autoscaler=owner)
    scene.facts = replace(scene.facts, models=(replace(model, targets=(owned,)),))

    (outcome,) = await scene.apply(scene.change(3, kind="bounds"))
    during = (await kube.get("HorizontalPodAutoscaler", "b", scene.namespace))["spec"]
    lines = await hand_back(scene.kube, "", dry_run=False)

    after = await kube.get("HorizontalPodAutoscaler", "b", scene.namespace)
    assert outcome.status == "written"
    assert (during["minReplicas"], during["maxReplicas"]) == (3, 3)
    assert after["spec"] == before["spec"]
    assert not after["metadata"].get("annotations")
    assert f"restored horizontalpodautoscaler/{scene.namespace}/b: minReplicas 2, maxReplicas 7" in lines


async def test_hand_back_knows_our_deletion_costs_by_their_manager(scene: Scene, kube: Kube) -> None:
    ours, theirs, _ = scene.target.pods
    await kube.patch("Pod", theirs.name, {"metadata": {"annotations": {COST: "5"}}}, scene.namespace)
    await scene.gate.apply(
        Plan(1, scene.facts.at, changes=(scene.change(2, victims=(ours.uid,), victim_names=(ours.name,)),)),
        scene.policy,
        Memory(),
    )
    marked = scene.target.pods[2]
    body = {"metadata": {"annotations": {COST: "-999"}}}
    await kube.request(
        "PATCH",
        f"/api/v1/namespaces/{scene.namespace}/pods/{marked.name}",
        body,
        content_type="application/merge-patch+json",
        fieldManager="rebalancer",
    )

    lines = await hand_back(scene.kube, "", dry_run=False)

    assert f"restored pod/{scene.namespace}/{marked.name}: annotation removed" in lines
    assert not any(theirs.name in line for line in lines)


async def test_only_the_override_that_was_seen_is_told_its_state(scene: Scene, kube: Kube) -> None:
    spec = {"kind": "pin", "target": {"model": "b"}, "value": 3, "reason": "launch", "actor": "alice"}
    made = await kube.create(
        {
            "apiVersion": "rebalancer.io/v1alpha1",
            "kind": "Override",
            "metadata": {"name": "pin-b", "namespace": scene.namespace},
            "spec": spec | {"expiresAt": "2036-01-01T00:00:00Z"},
        }
    )
    uid = made["metadata"]["uid"]
    version = made["metadata"]["resourceVersion"]
    overrides = tuple(
        an_override("pin", "b", 3, name="pin-b", namespace=scene.namespace, uid=each, resource_version=seen)
        for each, seen in (("old", "1"), (uid, version))
    )
    scene.facts = replace(scene.facts, overrides=overrides)

    await scene.apply(overrides=(OverrideState(scene.namespace, "pin-b", "old", "Expired", "its time is over"),))
    untold = await kube.get("Override", "pin-b", scene.namespace)
    await scene.apply(overrides=(OverrideState(scene.namespace, "pin-b", uid, "InForce", "pin 3"),))

    told = await kube.get("Override", "pin-b", scene.namespace)
    assert "status" not in untold
    assert (told["status"]["phase"], told["status"]["message"]) == ("InForce", "pin 3")
