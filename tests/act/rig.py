"""A gate in front of an embedded Kubernetes API: the objects, the snapshot that shows them, and plans about them."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from rebalancer.act.gate import Gate
from rebalancer.act.intents import AnyChange
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Intent, Outcome
from rebalancer.domain.plan import Change, DrainChange, NodePoolChange, OverrideState, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot, TargetView
from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.sandbox.api import AuditEntry, EmbeddedKubernetes, Obj, Store
from rebalancer.sandbox.api.resources import DEPLOYMENTS, SCALEDOBJECTS, ServedResource
from tests.builders import NAMESPACE, NOW, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.sandbox.hand_clock import HandClock

GPU = "nvidia.com/gpu"
OURS = "rebalancer/rebalancer"  # our installation


class SteppingClock:
    """A clock that a wait moves at once: retries take no time, and tests move it by hand.

    `set_by`: seconds by which somebody has set it.
    """

    def __init__(self) -> None:
        self.passed = 0.0
        self.set_by = 0.0

    def now(self) -> float:
        return NOW + self.passed + self.set_by

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds
        await asyncio.sleep(0)


class Notebook:
    """A Recorder that remembers; `acknowledges`: what Kafka says after `seconds`; `waits`: how long it was awaited."""

    def __init__(self, *, acknowledges: bool = True) -> None:
        self.acknowledges = acknowledges
        self.seconds = 0.0
        self.intents: list[Intent] = []
        self.waits: list[float] = []
        self.outcomes: list[Outcome] = []
        self.before_answer: Callable[[], None] = lambda: None

    async def intent(self, intent: Intent, *, wait_seconds: float) -> bool:
        self.intents.append(intent)
        self.waits.append(wait_seconds)
        self.before_answer()
        return self.acknowledges and wait_seconds > self.seconds

    async def outcome(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


@dataclass
class Seat:
    """A Right as a test sets it."""

    why: str | None = None
    epoch: int | None = None
    seconds: float = math.inf

    def why_not(self) -> str | None:
        return self.why

    def seconds_left(self) -> float:
        return self.seconds


@dataclass
class Rig:
    """The gate and what stands around it. `facts` is what the state shows; a test may lie in it."""

    server: EmbeddedKubernetes
    kube: KubeClient
    clock: SteppingClock
    policy: Policy
    facts: Snapshot
    notebook: Notebook = field(default_factory=Notebook)
    written: list[tuple[str, int]] = field(default_factory=list)
    right: Seat = field(default_factory=Seat)
    deaf: bool = False
    installation: str = OURS

    @property
    def store(self) -> Store:
        return self.server.store

    @property
    def writes(self) -> list[AuditEntry]:
        """What reached the API, Events aside."""
        return [entry for entry in self.server.audit if entry.target and entry.target.resource.plural != "events"]

    @property
    def written_objects(self) -> list[str]:
        """Names of the objects written, in order."""
        return [entry.target.name for entry in self.writes if entry.target]

    def gate(self, write_mode: Literal["shadow", "act"] = "act") -> Gate:
        return Gate(
            self.kube,
            lambda now: replace(self.facts, at=now),
            self.clock,
            self.notebook,
            self.right,
            write_mode,
            self._on_written,
            installation=self.installation,
        )

    def _on_written(self, change: Change, replicas: int, _at: float) -> None:
        """As the state does: a write counts at once, before a watch shows it."""
        if self.deaf:
            raise LookupError("no such target")
        self.written.append((change.target.name, replicas))
        self.show(change.target.name, unconfirmed_replicas=replicas)

    async def apply(
        self, *changes: AnyChange, memory: Memory | None = None, overrides: tuple[OverrideState, ...] = ()
    ) -> tuple[Outcome, ...]:
        """One plan through a gate of its own."""
        return await self.apply_by(self.gate(), *changes, memory=memory, overrides=overrides)

    async def apply_by(
        self,
        gate: Gate,
        *changes: AnyChange,
        memory: Memory | None = None,
        overrides: tuple[OverrideState, ...] = (),
    ) -> tuple[Outcome, ...]:
        targets = tuple(change for change in changes if isinstance(change, Change))
        pools = tuple(change for change in changes if isinstance(change, NodePoolChange))
        drains = tuple(change for change in changes if isinstance(change, DrainChange))
        plan = Plan(cycle=7, at=NOW, changes=targets, node_pools=pools, overrides=overrides, drains=drains)
        return await gate.apply(plan, self.policy, memory or Memory())

    def stand(self, policy: Policy, facts: Snapshot) -> None:
        """Make the cluster as `facts` shows it: a Deployment per target, its pods."""
        self.policy, self.facts = policy, facts
        for target in [target for model in facts.models for target in model.targets]:
            self.store.put(deployment(target.name, target.replicas))
            for each in target.pods:
                self.store.put(pod(each.name))

    def target(self, name: str) -> TargetView:
        """A target as the facts show it."""
        return next(each for model in self.facts.models for each in model.targets if each.name == name)

    def facts_under(self, policy: Policy) -> Snapshot:
        """The facts as the state shows them under another policy: without the models and NodePools that left it."""
        models = {model.id for model in policy.models}
        pools = {pool.name for pool in policy.pools}
        return replace(
            self.facts,
            models=tuple(each for each in self.facts.models if each.id in models),
            pools=tuple(each for each in self.facts.pools if each.name in pools),
        )

    def show(self, name: str, **fields: object) -> TargetView:
        """Let the facts show a target otherwise."""
        models = tuple(
            replace(
                model, targets=tuple(replace(each, **fields) if each.name == name else each for each in model.targets)
            )
            for model in self.facts.models
        )
        self.facts = replace(self.facts, models=models)
        return self.target(name)

    def replicas(self, name: str) -> int:
        return int(self.object(DEPLOYMENTS, name)["spec"]["replicas"])

    def bounds(self, name: str) -> tuple[int, int]:
        spec = self.object(SCALEDOBJECTS, name)["spec"]
        return spec["minReplicaCount"], spec["maxReplicaCount"]

    def object(self, resource: ServedResource, name: str) -> Obj:
        obj = self.store.get(resource, name, NAMESPACE if resource.namespaced else "")
        assert obj is not None
        return obj


@asynccontextmanager
async def a_rig() -> AsyncIterator[Rig]:
    """Model a has 3 replicas and b 5, floors are 1 and 2, their pool is full; NodePool spot has no node."""
    clock = SteppingClock()
    policy = a_policy(a_model("a"), a_model("b", min_replicas=2), pools=(a_pool(), an_elastic_pool()))
    facts = a_snapshot(policy, replicas={"a": 3, "b": 5})
    async with EmbeddedKubernetes(HandClock()) as server, asyncio.timeout(20):
        access = Access(server=server.url, authorization="Bearer sandbox-rebalancer")
        async with KubeClient(access, clock, random.Random(7)) as kube:
            made = Rig(server, kube, clock, policy, facts)
            made.stand(policy, facts)
            yield made


def says(outcome: Outcome, status: str, start: str = "") -> bool:
    """Whether the outcome has that status, and its detail begins so."""
    assert (outcome.status, outcome.detail[: len(start)]) == (status, start), outcome
    return True


def refused(outcome: Outcome, check: str) -> bool:
    """Whether that check refused it."""
    return says(outcome, "refused", f"{check}: ")


def change(target: TargetView, to: int, **fields: object) -> Change:
    """Ask the target of the model of the same name for `to` replicas."""
    before = target.replicas if target.unconfirmed_replicas is None else target.unconfirmed_replicas
    kind = "release" if to < before else "grant" if to > before else "bounds"
    made = Change(
        id=f"7-{target.name}",
        kind=kind,
        model=target.name,
        target=target,
        replicas_from=before,
        replicas_to=to,
        minimum=to,
        reason="test",
    )
    return replace(made, **fields)


def node_pool_change(kind: str, name: str = "spot", **fields: object) -> NodePoolChange:
    made = NodePoolChange(
        id=f"7-{name}-{kind}", kind=kind, name=name, uid=f"uid-{name}", pool="spot", resource=GPU, reason="test"
    )
    return replace(made, **fields)


def a_grant_of(target: TargetView, to: int, grant: str, node_pool: str = "spot") -> Change:
    """A raise past the free GPUs, into nodes still to come."""
    return change(target, to, grant=grant, node_pool=node_pool)


def deployment(name: str, replicas: int, **metadata: object) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", **metadata},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {}},
    }


def pod(name: str, **annotations: str) -> Obj:
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": "Running"}}


def scaled_object(name: str, low: int | None, high: int | None, **metadata: object) -> Obj:
    bounds = {"minReplicaCount": low, "maxReplicaCount": high}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-so-{name}", **metadata},
        "spec": {
            "scaleTargetRef": {"name": name},
            **{key: value for key, value in bounds.items() if value is not None},
        },
    }


def hpa(name: str, low: int | None, high: int, **metadata: object) -> Obj:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-hpa-{name}", **metadata},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            **({} if low is None else {"minReplicas": low}),
            "maxReplicas": high,
        },
    }


def node_pool(name: str = "spot", limits: Obj | None = None, budgets: list[Obj] | None = None, used: int = 0) -> Obj:
    spec: Obj = {"template": {"spec": {"expireAfter": "720h"}}, "disruption": {"consolidateAfter": "0s"}}
    if limits is not None:
        spec["limits"] = limits
    if budgets is not None:
        spec["disruption"]["budgets"] = budgets
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": spec,
        "status": {"resources": {GPU: str(used)}},
    }


def write_stop(name: str = "stop") -> Obj:
    spec = {"reason": "incident 42", "actor": "alice"}
    return {"apiVersion": "rebalancer.io/v1alpha1", "kind": "WriteStop", "metadata": {"name": name}, "spec": spec}
