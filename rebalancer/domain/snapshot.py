"""The cluster and its readings at one instant: everything that planning may know, and nothing it would have to ask for.

Tuples are sorted by their first field. Instants are kept as instants (ages are computed from `Snapshot.at`), so a part
that did not change is the same value in the next cycle: the journal writes only the difference.
"""

from collections.abc import Collection

from msgspec import UNSET, Struct, UnsetType, field

from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.cluster import Toleration
from rebalancer.domain.dual_pods import FailedWake
from rebalancer.domain.gpu_memory import LoadedMemory
from rebalancer.domain.instant import Instant
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.parents import Applied, ControllerRef
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.placement import ANYWHERE, Placement
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.quota_view import PodRank, QuotaView
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.starts import StartView
from rebalancer.domain.sync import Sync, Unseen

REPAIRED_AFTER_SECONDS = 30.0  # so long our numbers must stand that others have put back, before a fight is over


class Place(Struct, frozen=True):
    """The place of a replica whose controller numbers them and ends the highest first.

    ordinal: its number, from 0.
    others: nodes of its other pods, where one replica is several; while one of them has no node, nodes of all the rest.
    """

    ordinal: int
    others: tuple[str, ...] = ()


class PodView(Struct, frozen=True):
    """One replica of a target: a pod that has neither succeeded nor failed, or several that serve together.

    Of several pods name, UID and deletion cost are the first one's, which leads; the replica is Ready when all are.

    uid: its Kubernetes UID.
    name: `metadata.name` of the pod.
    node: name of its node, None before it has one; of several pods the first one's, None before all have one.
    phase: pending (no node), loading, ready, terminating, or lost: Ready by its last word, its node is not listed.
    since: when it became Ready (ready, lost), when its deletion was requested (terminating), else when it was created.
    created_at: when it was created.
    deletion_cost: its pod-deletion-cost annotation; a ReplicaSet ends lower ones first. None where it has none.
    begun: whether its containers run; before that its image may still be on the way.
    place: its place where its controller numbers replicas, left out where none does.
    placed_at: when it got its node, left out where that was within a second of its creation, or nobody dates it.
    gated: whether somebody must admit it before the scheduler looks at it, left out where nobody must.
    trouble: why it does not run or get a node, in the words of kubelet or scheduler, left out where neither complains.
    """

    uid: str
    name: str
    node: str | None
    phase: str
    since: Instant
    created_at: Instant
    deletion_cost: int | None = None
    begun: bool = True
    place: Place | UnsetType = UNSET
    placed_at: Instant | UnsetType = UNSET
    gated: bool | UnsetType = UNSET
    trouble: str | UnsetType = UNSET

    @property
    def ordinal(self) -> int | None:
        """The pod's number where its controller numbers replicas, else None."""
        return None if self.place is UNSET else self.place.ordinal

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node of each of its pods that has one."""
        others = () if self.place is UNSET else self.place.others
        return others if self.node is None else (self.node, *others)

    def on(self, nodes: Collection[str]) -> bool:
        """Whether one of its pods stands on one of `nodes`."""
        if self.node in nodes:
            return True
        return self.place is not UNSET and any(node in nodes for node in self.place.others)


class AutoscalerView(Struct, frozen=True):
    """The autoscaler that chooses a target's replicas.

    kind: ScaledObject or HorizontalPodAutoscaler.
    name: name of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server.
    minimum: the object's own lower bound, in replicas.
    maximum: the object's own upper bound, in replicas.
    effective_minimum: the lower bound in the HPA that acts; KEDA passes a ScaledObject's on to it some time later.
    effective_maximum: the upper bound in the HPA that acts; a release is done once this shows the new maximum.
    paused: whether an annotation pauses it: then it chooses nothing.
    originals: its own bounds from before our first write; None: we have not written to it.
    idle: a ScaledObject's idleReplicaCount, to which KEDA takes the target while no trigger is active, whatever the
        bounds; None where it has none.
    other: name of another installation of the rebalancer that wrote to it, so we do not; "" where none did.
    beside: other autoscalers of the same target, each as `KIND NAME`: two of them fight whatever we do.
    wakes: whether a HorizontalPodAutoscaler brings its target back from 0 replicas: True where it took the target there
        itself, False where it is disabled there, None where its conditions say neither.
    """

    kind: str
    name: str
    uid: str
    resource_version: str
    minimum: int
    maximum: int
    effective_minimum: int
    effective_maximum: int
    paused: bool = False
    originals: Originals | None = None
    idle: int | None = None
    other: str = ""
    beside: tuple[str, ...] = ()
    wakes: bool | None = None

    @property
    def sleeps(self) -> bool:
        """Whether its people let it go to 0 replicas, and wake by its own metric: their own minimum is 0.

        That the API server has stored it proves what no version tells: KEDA refuses a 0 beside triggers of CPU or
        memory alone, Kubernetes an HPA's where the gate HPAScaleToZero is off or no metric is external. KEDA wants an
        idleReplicaCount below the minimum, so one that has it keeps a minimum of 1.
        """
        own = self.minimum if self.originals is None else self.originals.minimum
        if own is None:
            own = 0 if self.kind == "ScaledObject" else 1
        return own == 0 and self.idle is None


class MetricView(Struct, frozen=True):
    """How a target follows the number that we answer its ScaledObject, which asks by a metrics-api trigger.

    desired: replicas that we answer, as a plan asked for them last; None before one did: then those there are.
    faults: why it would not follow, each a sentence; nothing is moved while there is one.
    limits: what it follows later than others do, or not in every case, each a sentence.
    """

    desired: int | None = None
    faults: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()


class ForeignChange(Struct, frozen=True):
    """Somebody else, with the field manager `manager`, changed a number that we write; seen at `at`."""

    at: Instant
    manager: str


class OwnerView(ControllerRef, frozen=True, kw_only=True):
    """A controller above an object whose numbers we would write: the target, or its autoscaler.

    of_kind: kind of the object.
    of_name: its name.
    """

    of_kind: str
    of_name: str


class AppliedView(Applied, frozen=True, kw_only=True):
    """Numbers that a known tool applies from manifests to the target, or to its autoscaler.

    of_kind: kind of the object.
    of_name: its name.
    """

    of_kind: str
    of_name: str


class Shape(Struct, frozen=True):
    """What sets a target apart from a Deployment.

    resource: where the API serves it, as `apps/v1/statefulsets`.
    victims: who goes at a decrease, as in `target_kinds.TargetKind`; "": nobody said, so nothing of it is written.
    pods: pods of one replica, by its template.
    gpus: GPUs of the pool's resource that one replica requests by its template; None where it has none to read.
    """

    resource: str
    victims: str
    pods: int = 1
    gpus: int | None = None


class TargetView(Struct, frozen=True):
    """One model's scale target in one pool.

    pool: name of the pool.
    namespace: `metadata.namespace` of the object.
    kind: its kind, as Deployment.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID, "" where it is missing.
    resource_version: its version in the API server, "" where it is missing.
    replicas: replicas in its spec, as last seen.
    unconfirmed_replicas: replicas that we wrote and the watch does not show yet; None where no write of ours is under
        way. Journals call it `asked`.
    missing: whether the policy names it and the cluster has no such object.
    rolling: whether a rollout is under way.
    autoscaler: the autoscaler that chooses its replicas, None where none does.
    gpus_per_pod: GPUs of the pool's resource that one pod of its template requests.
    node_selector: labels that its template wants of a node.
    tolerations: of its template, and what its pods have beside that or are taken to get (`tolerated.tolerated`).
    grace_seconds: seconds that one of its pods has to end.
    pods: its pods, by UID.
    foreign: the last two changes of its numbers by somebody else, oldest first.
    running_gpus: the most GPUs that one of its pods requests, None where it has no pods.
    by_others: whether somebody else wrote the number in force: the maximum of an autoscaler of ours, else replicas.
    repaired_at: since when others' numbers are ours again after such changes; None where they are not.
    placement: what its template asks of nodes beside selector and tolerations.
    owners: controllers above the target and its autoscaler, and autoscalers of others that point at the target.
    applied: who applies from manifests the numbers that we write.
    shape: what sets it apart from a Deployment, left out for those.
    ours: numbers that were ours last: replicas, or minimum and maximum; None where nobody changed them, and we did not.
    unproven: whether of a newer template none of its pods is Ready, nor all ever were; left out where it is not so.
    metric: how it follows what we answer its ScaledObject, left out where the model's actuation is another one.
    guessed: which of `tolerations` it is only taken to get, as it has no pods; left out where there are none.
    """

    pool: str
    namespace: str
    kind: str
    name: str
    uid: str = ""
    resource_version: str = ""
    replicas: int = 0
    unconfirmed_replicas: int | None = field(default=None, name="asked")
    missing: bool = False
    rolling: bool = False
    autoscaler: AutoscalerView | None = None
    gpus_per_pod: int = 0
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    grace_seconds: int = 30
    pods: tuple[PodView, ...] = ()
    foreign: tuple[ForeignChange, ...] = ()
    running_gpus: int | None = None
    by_others: bool = False
    repaired_at: Instant | None = None
    placement: Placement = ANYWHERE
    owners: tuple[OwnerView, ...] = ()
    applied: tuple[AppliedView, ...] = ()
    shape: Shape | UnsetType = UNSET
    ours: tuple[int | None, ...] | None = None
    unproven: bool | UnsetType = UNSET
    metric: MetricView | UnsetType = UNSET
    guessed: tuple[Toleration, ...] | UnsetType = UNSET

    @property
    def victims(self) -> str:
        """Rule by which replicas go at a decrease: `replicaSet`, `ordinal`, or "" where nobody said."""
        return "replicaSet" if self.shape is UNSET else self.shape.victims

    @property
    def pods_per_replica(self) -> int:
        """Pods of one replica, by its template."""
        return 1 if self.shape is UNSET else self.shape.pods

    @property
    def by_metric(self) -> bool:
        """Whether its ScaledObject follows the number that we answer, so that neither bounds nor replicas are ours."""
        autoscaler = self.autoscaler
        if self.metric is UNSET or self.metric.faults or autoscaler is None:
            return False
        return autoscaler.kind == "ScaledObject" and not autoscaler.paused


class ModelView(Struct, frozen=True):
    """The targets of one model, and how long its replicas take to start.

    id: id of the model.
    targets: its targets, by pool.
    load_seconds: half of its last starts took at most so long from having a node to Ready; None before three were seen.
    slow_load_seconds: nine of ten of them did.
    starts: its last starts by pool and kind.
    failed_wakes: its sleeping engines that should have been awake long ago.
    loaded: GPU memory that its last replicas took once loaded; None before the first was measured.
    """

    id: str
    targets: tuple[TargetView, ...]
    load_seconds: float | None = None
    slow_load_seconds: float | None = None
    starts: tuple[StartView, ...] = ()
    failed_wakes: tuple[FailedWake, ...] = ()
    loaded: LoadedMemory | None = None


class NoticeView(Struct, frozen=True):
    """Word that a node will vanish: all that was heard of it as one notice; what has come to its time decides.

    node: name of the node.
    kind: kind of the first cause by force: drain, gone, or a kind of `events.CapacityNotice`.
    since: when the first word of it came.
    deadline: the earliest instant at which it may vanish.
    voluntary: whether its replacement node comes by itself; the surest of what decides must say so.
    karpenter: whether Karpenter drains it, within seconds.
    source: who said so: a producer, an override, karpenter.sh or kubernetes.
    doomed_at: from then on its pods count for nobody; until then nothing is granted there. None: from the notice on.
    confidence: how sure the surest of what decides is, one of `notice_kinds.CONFIDENCES`; where it is "possible" the
        pods count for as long as the notice stands.
    prepared: whether replacements are asked for although it is merely possible; what runs there stays all the same.
    doubted: why it is not believed, as a sentence: it is as if nobody had given it; "" where it is.
    told_deadline: what its first cause names where another, as Karpenter's drain, brings `deadline` forward, else None.
    counts_since: when the first word of what counts now came, or came to its time; None: at `since`.
    """

    node: str
    kind: str
    since: Instant
    deadline: Instant
    voluntary: bool = False
    karpenter: bool = False
    source: str = ""
    doomed_at: Instant | None = None
    confidence: str = "certain"
    prepared: bool = False
    doubted: str = ""
    told_deadline: Instant | None = None
    counts_since: Instant | None = None

    def counts(self, at: Instant) -> bool:
        """Whether the notice has come to its time: whether at `at` the pods there count for nobody."""
        if self.doubted or self.confidence == "possible":
            return self.prepared and not self.doubted
        return self.doomed_at is None or self.doomed_at <= at


class Snapshot(Struct, frozen=True):
    """The input of one cycle.

    cycle: number of the cycle.
    at: instant at which it was taken; all ages count from it.
    sync: whether all sources are listed and fresh.
    write_stop: the WriteStop in force, None where nobody pressed the red button.
    overrides: all overrides, by name.
    notices: nodes under notice, by name.
    pools: the policy's pools, by name.
    models: what each model's targets have, by id.
    loads: what each model is asked to do, by id.
    outcomes: what became of our writes since the last cycle.
    marks_victims: whether a release marks the pods that shall go; a ReplicaSet else ends whichever of its Ready pods it
        likes.
    quotas: what bounds the pods that targets may ask for, beside nodes.
    drains_nodes: whether nodes may be cordoned and their replicas evicted, where the policy wants it.
    ranks: PriorityClasses of targets' pods by model and pool; without those whose priority is 0.
    unseen: models and pools that could not be looked at; `models` and `pools` have what was seen of them last, if ever.
    """

    cycle: int
    at: Instant
    sync: Sync = Sync()
    write_stop: WriteStop | None = None
    overrides: tuple[Override, ...] = ()
    notices: tuple[NoticeView, ...] = ()
    pools: tuple[PoolView, ...] = ()
    models: tuple[ModelView, ...] = ()
    loads: tuple[ModelLoad, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    marks_victims: bool = True
    quotas: tuple[QuotaView, ...] = ()
    drains_nodes: bool = False
    ranks: tuple[PodRank, ...] = ()
    unseen: tuple[Unseen, ...] = ()
