"""The whole simulated cluster: time goes by, people and controllers ask for things, changes and samples come out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from rebalancer.domain.cluster import Toleration
from rebalancer.domain.events import CapacityNotice, MetricSample
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world.agenda import Agenda
from rebalancer.world.autoscaling import Autoscaling
from rebalancer.world.cluster import LOAD_JITTER, Cluster, ThingChange
from rebalancer.world.faults import Faults
from rebalancer.world.karpenter import DRAIN_AFTER_SECONDS, Karpenter, More, WorldNodeClaim, WorldNodePool
from rebalancer.world.lined import Lined, Per
from rebalancer.world.metering import Meter
from rebalancer.world.service import ServedModel
from rebalancer.world.serving import Engine, WaitingLine
from rebalancer.world.slots import Slots
from rebalancer.world.things import GPU, Deployment, WorldHpa, WorldNode, WorldPod, WorldScaledObject
from rebalancer.world.traffic import Traffic

Autoscaler = WorldHpa | WorldScaledObject


class World:
    """Advance it, ask it for things at its `now`, take what changed.

    Requests flow in steps of `step_seconds` counted from `started_at`, samples are taken every `interval_seconds` (a
    multiple of the step) and come `delay_seconds` later, which may be set anew. How often one looks changes nothing.
    `per`: whether samples of the models added by `add_model` are of the model or of its pods. A load takes its time
    +- `load_jitter` (a share). `faults` is what may go wrong; `pods_outlive_nodes`, as they do in a real cluster.
    `slots`: GPUs on which engines sleep; then these say how long pods load, whatever their Deployment does.
    `uids_by_owner`: pods' UIDs, which break ties, are those of another world in which other Deployments' pods differ.
    """

    def __init__(  # noqa: PLR0913  # settings, each with a default
        self,
        started_at: float,
        *,
        seed: int = 0,
        step_seconds: float = 0.5,
        interval_seconds: float = 1.0,
        delay_seconds: float = 0.0,
        per: Per = "model",
        load_jitter: float = LOAD_JITTER,
        pods_outlive_nodes: bool = False,
        slots: Slots | None = None,
        uids_by_owner: bool = False,
    ) -> None:
        self.models: dict[str, ServedModel] = {}
        self.lines: dict[str, Lined] = {}
        self.hpas: dict[tuple[str, str], WorldHpa] = {}
        self._meters: dict[str, Meter] = {}
        self._agenda = Agenda(started_at)
        self._cluster = Cluster(self._agenda, seed, load_jitter, slots, uids_by_owner=uids_by_owner)
        self._karpenter = Karpenter(self._agenda, self._cluster)
        self.autoscaling = Autoscaling(self._agenda, self._cluster, self.hpas, self._wanted)
        self.faults = Faults(self._agenda, self._cluster)
        if pods_outlive_nodes:
            self.faults.collect_late()
        self._samples: list[MetricSample] = []
        self._notices: list[CapacityNotice] = []
        self._ready: dict[str, list[WorldPod]] = {}
        self._ready_at = 0
        self._started_at = started_at
        self._step_seconds = step_seconds
        self._steps_per_sample = max(1, round(interval_seconds / step_seconds))
        self._steps = 0
        self.delay_seconds = delay_seconds
        self._per = per
        self._agenda.after(step_seconds, self._flow)

    # --- what there is

    @property
    def now(self) -> float:
        """The instant up to which everything has happened."""
        return self._agenda.now

    @property
    def nodes(self) -> Mapping[str, WorldNode]:
        """Nodes by name."""
        return self._cluster.nodes

    @property
    def pods(self) -> Mapping[tuple[str, str], WorldPod]:
        """Pods by namespace and name, until they are gone."""
        return self._cluster.pods

    @property
    def deployments(self) -> Mapping[WorkloadRef, Deployment]:
        """Deployments by reference."""
        return self._cluster.deployments

    @property
    def node_pools(self) -> Mapping[str, WorldNodePool]:
        """Karpenter's NodePools by name."""
        return self._karpenter.node_pools

    @property
    def node_claims(self) -> Mapping[str, WorldNodeClaim]:
        """Karpenter's NodeClaims by name; a claim's node has its name."""
        return {name: claim for pool in self.node_pools.values() for name, claim in pool.claims.items()}

    def ready_pods(self, model: str) -> Sequence[WorldPod]:
        """The pods that serve the model, over all of its Deployments; the same list until something changes."""
        if self._ready_at != self._cluster.revision:
            self._ready.clear()
            self._ready_at = self._cluster.revision
        pods = self._ready.get(model)
        if pods is None:
            owners = [owner for owner in self.deployments.values() if owner.model == model]
            pods = self._ready[model] = [pod for owner in owners for pod in owner.pods.values() if pod.serves]
        return pods

    @property
    def scaled_objects(self) -> Mapping[tuple[str, str], WorldScaledObject]:
        """KEDA's ScaledObjects by namespace and name."""
        return self.autoscaling.scaled_objects

    @property
    def gpus_held(self) -> int:
        """Devices that pods hold, starting and ending ones included."""
        return sum(node.used for node in self.nodes.values())

    @property
    def starts(self) -> int:
        """Pods that got a node so far."""
        return self._cluster.starts

    @property
    def stops(self) -> int:
        """Pods with a node that were deleted so far, or lost with it."""
        return self._cluster.stops

    @property
    def changed(self) -> int:
        """How often anything has changed so far: while it is the same number, all is as it was."""
        return self._cluster.revision

    def revision(self, thing: object) -> int:
        """The thing's resource version: the number of its last change, counted over all things."""
        return self._cluster.revisions[id(thing)]

    # --- what it is made of

    def add_node(self, name: str, gpus: int, labels: Mapping[str, str], resource: str = GPU) -> WorldNode:
        """A node that nobody launches or takes away."""
        uid = self._cluster.uid("node")
        self._cluster.add_node(node := WorldNode(name, uid, gpus, dict(labels), self.now, f"world:///{uid}", resource))
        self._settle()
        return node

    def add_node_pool(  # noqa: PLR0913  # a NodePool's own fields
        self,
        name: str,
        gpus_per_node: int,
        labels: Mapping[str, str],
        launch_seconds: float,
        limit: int | None = None,
        nodes: int = 0,
        **more: Unpack[More],
    ) -> WorldNodePool:
        """A NodePool with that many nodes running."""
        uid = self._cluster.uid("nodepool")
        node_pool = WorldNodePool(name, uid, gpus_per_node, dict(labels), launch_seconds, self.now, limit, **more)
        self._karpenter.add_node_pool(node_pool, nodes)
        self._settle()
        return node_pool

    def add_model(self, model: str, engine: Engine, traffic: Traffic, slo_seconds: float | None = None) -> None:
        """A model that users ask for; its Deployments serve it, as a fluid line that knows its SLO's latency."""
        self.lines[model] = lined = Lined(WaitingLine(engine, slo_seconds), traffic, self.now, self._per)
        self.add_service(model, lined)

    def add_service(self, model: str, service: ServedModel) -> None:
        """A model that its Deployments serve in its own way."""
        self.models[model] = service
        self._meters[model] = Meter(model)

    def add_deployment(  # noqa: PLR0913  # a Deployment's own fields
        self,
        model: str,
        ref: WorkloadRef,
        replicas: int,
        gpus: int,
        *,
        node_selector: Mapping[str, str],
        tolerations: tuple[Toleration, ...] = (),
        load_seconds: float = 60.0,
        stop_seconds: float = 10.0,
        grace_seconds: int = 30,
    ) -> Deployment:
        """A Deployment of `model` with that many replicas asked for."""
        deployment = Deployment(
            ref=ref,
            uid=self._cluster.uid("deployment"),
            model=model,
            replicas=replicas,
            gpus=gpus,
            created_at=self.now,
            node_selector=dict(node_selector),
            tolerations=tolerations,
            load_seconds=load_seconds,
            stop_seconds=stop_seconds,
            grace_seconds=grace_seconds,
        )
        self._cluster.add_deployment(deployment)
        self._settle()
        return deployment

    def add_hpa(self, name: str, target: WorkloadRef, minimum: int, maximum: int) -> WorldHpa:
        """An HPA on a Deployment; whoever decides for it calls `scale`."""
        hpa = WorldHpa(target.namespace, name, self._cluster.uid("hpa"), target, minimum, maximum)
        self.hpas[hpa.namespace, name] = hpa
        self._cluster.touch(hpa)
        return hpa

    def add_scaled_object(
        self, name: str, target: WorkloadRef, minimum: int | None, maximum: int | None, idle: int | None = None
    ) -> WorldScaledObject:
        """A ScaledObject on a Deployment: KEDA makes its HPA, which decides by what the model's line has to do."""
        uid = self._cluster.uid("scaledobject")
        scaled = WorldScaledObject(target.namespace, name, uid, target, minimum, maximum, idle)
        self._cluster.touch(scaled)
        self.autoscaling.add(scaled)
        return scaled

    def follow(self, hpa: WorldHpa) -> None:
        """The HPA controller decides for this HPA from now on."""
        self.autoscaling.follow(hpa)

    def _wanted(self, target: WorkloadRef) -> int | None:
        lined = self.lines.get(self.deployments[target].model) if target in self.deployments else None
        return None if lined is None else lined.wanted

    # --- what is asked of it, at its `now`

    def scale(self, ref: WorkloadRef, replicas: int, writer: str = "") -> None:
        """Ask a Deployment for that many replicas, as the field manager `writer`. Raises KeyError."""
        self._cluster.scale(ref, replicas, writer)
        self._settle()

    def recreate(self, ref: WorkloadRef, replicas: int) -> None:
        """Somebody deletes the Deployment and makes it again: another uid, pods of its own. Raises KeyError."""
        self._cluster.recreate(self.deployments[ref], replicas)
        self._settle()

    def delete_pod(self, namespace: str, name: str, grace_seconds: float | None = None) -> None:
        """End a pod, as an eviction does; one that is not there is gone already."""
        pod = self.pods.get((namespace, name))
        if pod is not None:
            self._cluster.delete(pod, grace_seconds)
            self._settle()

    def set_deletion_cost(self, namespace: str, name: str, cost: int | None) -> None:
        """What the pod's annotation says now."""
        pod = self.pods.get((namespace, name))
        if pod is not None and pod.deletion_cost != cost:
            pod.deletion_cost = cost
            self._cluster.touch(pod)

    def set_limit(self, node_pool: str, gpus: int | None) -> None:
        """The NodePool's limit in GPUs, None = unlimited. Raises KeyError."""
        self._karpenter.set_limit(node_pool, gpus)
        self._settle()

    def set_node_pool(
        self, pool: WorldNodePool, limit: int | None, budgets: list[dict[str, Any]] | None, notes: Mapping[str, str]
    ) -> None:
        """The NodePool's limit in GPUs, its disruption budgets and its annotations."""
        pool.budgets, pool.annotations = budgets, dict(notes)
        self._cluster.touch(pool)
        self.set_limit(pool.name, limit)

    def set_bounds(  # an autoscaler's own fields, and who writes them
        self, thing: Autoscaler, minimum: int | None, maximum: int | None, notes: Mapping[str, str], writer: str = ""
    ) -> None:
        """Sets an autoscaler's bounds and annotations as the field manager `writer`. An HPA's are never None."""
        before, (low, high) = (thing.minimum, thing.maximum), thing.writers
        thing.writers = (writer if minimum != before[0] else low, writer if maximum != before[1] else high)
        thing.annotations = dict(notes)
        if isinstance(thing, WorldScaledObject):
            thing.minimum, thing.maximum = minimum, maximum
            self.autoscaling.changed(thing)
        else:
            thing.minimum, thing.maximum = minimum or 1, maximum or 1
            self._cluster.touch(thing)

    def pause(self, scaled: WorldScaledObject, *, paused: bool) -> None:
        """Somebody pauses the ScaledObject, or lets it go on: KEDA takes its HPA away, or makes a new one."""
        self.autoscaling.pause(scaled, paused=paused)

    def drain(self, node_claim: str) -> None:
        """Somebody deletes the NodeClaim: its node is emptied, then it goes. Raises KeyError."""
        self._karpenter.drain(self.node_claims[node_claim])
        self._settle()

    def interrupt(self, node_claim: str, deadline: float, read_seconds: float = DRAIN_AFTER_SECONDS) -> None:
        """The cloud says that it takes the machine at `deadline`; Karpenter reads it so much later. Raises KeyError."""
        claim = self.node_claims[node_claim]
        self._notices.append(
            CapacityNotice(
                source="aws.ec2",
                id=f"{claim.uid}-interruption",
                at=self.now,
                kind="spot-interruption",
                deadline=deadline,
                instance_id=claim.provider_id.rpartition("/")[2],
            )
        )
        self._karpenter.interrupt(claim, deadline, read_seconds)

    def announce(self, notice: CapacityNotice) -> None:
        """Somebody tells of capacity that will go, or takes that back."""
        self._notices.append(notice)

    def launch(self, node_pool: str, ordinal: str) -> str:
        """The cloud gives the NodePool a machine that is Ready at once; its claim's name. Raises KeyError.

        As in a pool of a fixed number of nodes, and where nobody plays how long a launch takes.
        """
        claim = self._karpenter.launch(node_pool, ordinal)
        self._settle()
        return claim.name

    def lose(self, node_claim: str) -> None:
        """The claim's machine is gone, and nobody had said so. Raises KeyError."""
        self._karpenter.lose(self.node_claims[node_claim])
        self._settle()

    def offer(self, node_pool: str, nodes: int | None, notice_seconds: float = 120.0) -> list[str]:
        """The cloud gives the NodePool that many nodes at a time from now on, None = any. Raises KeyError.

        Orders beyond it fail; the youngest nodes beyond it are taken, after a notice or (0 s) at once. Their claims.
        """
        taken = self._karpenter.offer(self.node_pools[node_pool], nodes, notice_seconds)
        self._settle()
        return [claim.name for claim in taken]

    # --- time

    def at(self, instant: float, deed: Callable[[], None]) -> None:
        """Somebody will do `deed` at that instant, after all that was to happen then up to now."""
        self._agenda.at(instant, deed)

    def advance(self, now: float) -> None:
        """Live through everything that happens until `now`."""
        while (deed := self._agenda.next_before(now)) is not None:
            deed()
            self._settle()

    def _settle(self) -> None:
        """Controllers see what just happened."""
        self._cluster.settle()
        self._karpenter.turn()

    def _flow(self) -> None:
        """One step of requests in all models, and at the end of an interval their samples."""
        self._steps += 1
        until = self._started_at + self._steps * self._step_seconds
        since = until - self._step_seconds
        scrape = self._steps % self._steps_per_sample == 0
        samples: list[MetricSample] = []
        for name, service in self.models.items():
            pods = self.ready_pods(name)
            service.flow(since, until, pods)
            if scrape:
                interval = self._steps_per_sample * self._step_seconds
                samples += self._meters[name].read(service.looks(pods), until, interval)
        if scrape:
            self._send(samples)
        self._agenda.at(self._started_at + (self._steps + 1) * self._step_seconds, self._flow)

    def _send(self, samples: list[MetricSample]) -> None:
        if self.delay_seconds:
            self._agenda.after(self.delay_seconds, lambda: self._samples.extend(samples))
        else:
            self._samples += samples

    # --- what came of it

    def take_changes(self) -> list[ThingChange]:
        """What was made, altered or went since the last call; each thing once, as it is now."""
        changes = list(self._cluster.changes.values())
        self._cluster.changes.clear()
        return changes

    def take_notices(self) -> list[CapacityNotice]:
        """What the cloud has announced since the last call, as it would over Kafka."""
        notices, self._notices = self._notices, []
        return notices

    def take_samples(self) -> list[MetricSample]:
        """The metric samples since the last call, in order."""
        samples, self._samples = self._samples, []
        return samples
