"""The policy file of a platform team, as frozen values whose JSON schema is published in `config/`.

Keys are camelCase in YAML. Every field says its unit, its range and why it exists; unknown keys are errors. Checks that
need two fields at once live in `problems.py`, so that one run reports everything that is wrong.
"""

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from rebalancer.domain.gpu_memory import GpuMemory
from rebalancer.domain.gpu_shapes import Isolation
from rebalancer.domain.metric_maps import MetricRules
from rebalancer.domain.node_rules import NodeRules
from rebalancer.domain.part import MOST_REPLICAS, Dns1123, Part, Ratio, Replicas, Seconds, Usd
from rebalancer.domain.producers import MetricProducer
from rebalancer.domain.role_ratio import RoleRatio
from rebalancer.domain.signals import Signals
from rebalancer.domain.slo import Slo
from rebalancer.domain.target_spec import TargetSpec
from rebalancer.domain.timetable import Schedule

GPU = "nvidia.com/gpu"

WorkloadClass = Literal["realtime", "interactive", "batch"]


class Pool(Part):
    """GPUs of one shape, found by node labels."""

    name: Dns1123 = Field(description="Cluster-unique name of the pool.")
    kind: Literal["primary", "elastic"] = Field(
        description="primary: owned by models through their entitlements. elastic: for whoever gains most by it."
    )
    resource: str = Field(
        default=GPU,
        min_length=3,
        max_length=253,
        pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$",
        description="Extended resource that counts as one GPU of this pool (a MIG profile is a shape of its own).",
    )
    node_labels: dict[str, str] = Field(
        min_length=1, description="Nodes that carry all of these labels belong to the pool."
    )
    capacity_type: Literal["on-demand", "spot", "reserved"] = Field(
        default="on-demand", description="What the cloud may take away; spot is released first."
    )
    price_per_gpu_hour: Usd = Field(default=0.0, description="USD; orders elastic pools, cheapest first.")
    node_pools: tuple[Dns1123, ...] = Field(
        default=(), description="Karpenter NodePools behind the pool. None: its budget is fixed, no node can be added."
    )
    gpus_per_node: int = Field(default=1, ge=1, le=1024, description="GPUs of one node that is added here.")
    gpu_limit: int = Field(ge=0, le=1_000_000, description="Most GPUs of the pool we may ever use or ask for.")
    device_class: Dns1123 | None = Field(
        default=None,
        description="DeviceClass whose devices are the pool's GPUs, where a DRA driver brings them: then ResourceSlices"
        " and claims are counted, and not what nodes list of `resource`.",
    )
    isolation: Isolation = Field(
        default="hard",
        description="hard: whole GPUs and MIG slices, which nobody else can touch; nodes that offer shares do not"
        " count. soft: shares by time-slicing or MPS count, each as one GPU; a realtime model is lent none.",
    )
    memory_gib: Annotated[FiniteFloat, Field(gt=0, le=10_000)] | None = Field(
        default=None,
        description="Memory of one GPU, where the labels of a node do not say it (nvidia.com/gpu.memory), and of nodes"
        " still to come.",
    )
    drain: bool = Field(
        default=False,
        description="Nodes under notice that Karpenter does not own are cordoned, and replicas evicted from them,"
        " where nobody else does. It needs the chart's drain.enabled.",
    )
    node_groups: tuple[Annotated[str, Field(min_length=1, max_length=500)], ...] = Field(
        default=(),
        description="Node groups of Cluster Autoscaler behind the pool: pending pods bring their nodes. Named as in its"
        " status, of a URL the last part; * stands for what the cloud adds.",
    )
    warm_gpus: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=0,
        description="GPUs kept beyond what is used, under placeholder pods of the chart's that give way to any other.",
    )
    preemptible_priority_classes: tuple[Dns1123, ...] = Field(
        default=(),
        description="PriorityClasses below those of its models' pods: what pods of no model hold that have one is room"
        " for replicas, and the scheduler preempts them.",
    )
    instance_prices: dict[str, Usd] = Field(default={}, description="USD per GPU-hour by instance type or TYPE/spot.")

    @property
    def brings_nodes(self) -> tuple[str, ...]:
        """Names of the NodePools and node groups that bring nodes to it, in order of preference."""
        return (*self.node_pools, *self.node_groups)


class ModelDeferral(Part):
    """How long one model of class batch may be deferred, or how much of it may not be: one of the two."""

    deadline_seconds: Seconds | None = Field(
        default=None,
        description="Its requests are to be finished so long after they came. Default: slo.latencySeconds, else"
        " deferral.windowSeconds.",
    )
    share: Ratio | None = Field(
        default=None,
        description="In place of a deadline: a turn in each window, in which so much of what it needs comes before what"
        " anybody gains.",
    )


class Model(Part):
    """One served model."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)] = Field(
        description="Cluster-unique id (DNS-1123 label); metric samples name it."
    )
    namespace: Dns1123 = Field(description="Namespace of its targets.")
    aliases: tuple[str, ...] = Field(
        default=(), description="Other `model_name` values that metric producers use for this model."
    )
    targets: tuple[TargetSpec, ...] = Field(min_length=1, description="One per pool, in order of preference.")
    gpus_per_replica: int = Field(ge=1, le=4096, description="GPUs one replica holds.")
    pods_per_replica: int = Field(
        default=1,
        ge=1,
        le=512,
        description="Pods of one replica; gpusPerReplica is a multiple. A LeaderWorkerSet's group is one replica.",
    )
    min_replicas: Replicas = Field(description="The floor: no action of ours takes the model below it.")
    max_replicas: int = Field(ge=1, le=MOST_REPLICAS, description="Never more replicas than this.")
    elastic_replicas: Replicas | None = Field(default=None, description="Most replicas on elastic pools.")
    spot_replicas: Replicas | None = Field(default=None, description="Most replicas on spot pools.")
    place_replicas: Replicas | None = Field(
        default=None, description="Most on pools of one instance type and zone, by their nodeLabels."
    )
    entitlement: Replicas = Field(
        description="Replicas that are the model's own on its primary pool; at least minReplicas."
    )
    priority: int = Field(default=100, ge=1, le=1000, description="Weight of the model's need against others'.")
    workload_class: WorkloadClass = Field(
        default="interactive", alias="class", description="Sets watermarks and cooldown."
    )
    team: str = Field(
        default="", max_length=63, description="Who owns it; what `teams` says of it holds for all its models."
    )
    slo: Slo | None = Field(default=None, description="What its users were promised.")
    load_seconds: Annotated[FiniteFloat, Field(ge=0, le=86_400)] = Field(
        default=60.0, description="Prior for the time from pod creation to Ready, until measured."
    )
    schedules: tuple[Schedule, ...] = Field(
        default=(), description="Windows of local time with another floor or cap. Of several the narrowest counts."
    )
    signals: Signals = Field(description="What votes for this model.")
    actuation: Literal["bounds", "scale", "metric"] = Field(
        default="bounds",
        description="bounds: min and max of the autoscaler that owns the target, /scale where none does. scale: /scale"
        " only; refused while an autoscaler owns the target. metric: nothing is written; a ScaledObject asks the API"
        " for the replicas by its metrics-api trigger, and its HPA follows.",
    )
    deferral: ModelDeferral | None = Field(
        default=None, description="Of a model of class batch: until when its requests are due, or its share."
    )
    takes_idle: bool = Field(
        default=False,
        description="Workers of batch jobs: they take GPUs from which no model gains, and give them back.",
    )
    gpu_memory: GpuMemory | None = Field(
        default=None, description="GPU memory that one replica needs: it is started where that fits, and nowhere else."
    )
    ratio: RoleRatio | None = Field(
        default=None,
        description="Where this model is one role and another the second, as prefill and decode: how many of this one"
        " there are for each of the other. They move together, and no write leaves the bounds.",
    )
    cost_center: str = Field(
        default="", max_length=63, description="Whom `rebalancer report` charges its GPUs to; none said: its team."
    )

    @property
    def gpus_per_pod(self) -> int:
        """GPUs of each pod of a replica."""
        return self.gpus_per_replica // self.pods_per_replica


class Team(Part):
    """What all models of one team share."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(description="As the models' `team` says it.")
    elastic_gpus: int = Field(
        ge=0, le=1_000_000, description="Most GPUs of elastic pools that its models hold together."
    )


class ClassRules(Part):
    """Watermarks and patience of one workload class."""

    high_utilisation: Ratio
    low_utilisation: Ratio
    cooldown_seconds: Seconds = Field(description="A model's demand falls only after being lower for this long.")


class Classes(Part):
    """The three classes."""

    realtime: ClassRules = ClassRules(high_utilisation=0.70, low_utilisation=0.30, cooldown_seconds=60.0)
    interactive: ClassRules = ClassRules(high_utilisation=0.60, low_utilisation=0.25, cooldown_seconds=30.0)
    batch: ClassRules = ClassRules(high_utilisation=0.85, low_utilisation=0.40, cooldown_seconds=300.0)


class DeferralRule(Part):
    """How models of class batch yield to the others, and are deferred by that instead of starved."""

    weight: Annotated[FiniteFloat, Field(gt=0, le=1)] = Field(
        default=0.1,
        description="What their requests count when they come: this share of their priority; all of it once half of the"
        " time to the deadline is gone, and as many times more at the end.",
    )
    window_seconds: Seconds = Field(
        default=3600.0,
        description="The time to a batch model's deadline where it says none. One that has a share instead, or of which"
        " nobody knows what waits, has a turn in each window of so long while it lacks replicas ...",
    )
    turn_seconds: Seconds = Field(
        default=900.0, description="... for the last part of it, in which its requests count their whole priority ..."
    )
    share: Ratio = Field(
        default=0.25,
        description="... and so much of what it needs, at least one replica, comes before what anybody gains. Floors"
        " and wanted entitlements of others come first.",
    )

    def deadline_seconds(self, model: Model) -> float | None:
        """How long after it came a request is to be finished; None of other classes, and with a share instead."""
        own = model.deferral or ModelDeferral()
        if model.workload_class != "batch" or own.share is not None:
            return None
        promised = model.slo.latency_seconds if model.slo else self.window_seconds
        return own.deadline_seconds or promised


class SurgeRules(Part):
    """Rules for a surge: demand that has risen faster than its slow level explains."""

    short_window_seconds: Seconds = Field(default=15.0, description="Mean work over this window is compared ...")
    long_window_seconds: Seconds = Field(default=300.0, description="... with the mean over this one.")
    enter_ratio: FiniteFloat = Field(default=1.5, gt=1, le=100, description="A surge begins at this multiple of it.")
    leave_ratio: FiniteFloat = Field(default=1.2, ge=1, le=100, description="It ends once below this multiple ...")
    leave_after_seconds: Seconds = Field(default=60.0, description="... for this long.")


class RateLimit(Part):
    """At most max(1, floor(share x base)) replicas per sliding window."""

    share: Ratio
    window_seconds: Seconds


class BlindRule(Part):
    """The rule by which a model counts as unseen."""

    stale_seconds: Seconds = Field(
        default=90.0, description="A reading older than its producer's usual lag and this, or 3 intervals, is stale."
    )
    min_coverage: Ratio = Field(default=0.8, description="Share of the Ready pods a signal must cover to vote.")


class StartRule(Part):
    """What must be seen before a decrease after a start."""

    metric_intervals: int = Field(default=2, ge=1, le=100)


class AgreeRule(Part):
    """How many signals must be able to speak before a decrease."""

    votes: int = Field(
        default=2, ge=1, le=5, description="Usable votes; all of them where fewer signals are configured."
    )


class PlausibleRule(Part):
    """The rule by which a jump of offered work waits for a second opinion before anything is raised for it."""

    times: Annotated[FiniteFloat, Field(gt=1, le=10_000)] = Field(
        default=20.0, description="A jump: more than so many times max(the last hour's median, one replica's work)."
    )
    samples: int = Field(
        default=3, ge=2, le=100, description="So many samples in a row confirm it; another signal does so at once."
    )


class SuddenRule(Part):
    """The rule by which less demand is an outage in front of the models, and not calm."""

    drop: Annotated[FiniteFloat, Field(gt=0, lt=1)] = Field(
        default=0.5,
        description="A model's work fell suddenly when it lost at least this share, and rose when it gained it ...",
    )
    window_seconds: Seconds = Field(default=120.0, description="... within this time.")
    models: Annotated[FiniteFloat, Field(ge=0, lt=1)] = Field(
        default=0.5,
        description="An outage: more than this share of the models with work fell so, of all or of one producer's ...",
    )
    least_models: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=2, description="... and at least so many: what is in front of one model looks like its own calm."
    )
    usual_seconds: Seconds = Field(
        default=3600.0, description="A model that fell so by itself within this time says nothing about the others."
    )
    least_work: Annotated[FiniteFloat, Field(gt=0, le=1000)] = Field(
        default=0.5, description="Replicas of work that count as any: a minute of a few requests halves by chance."
    )
    hold_seconds: Seconds = Field(
        default=900.0,
        description="Nothing is taken for this long from who fell, unless its work is back or another model rises.",
    )


class ForeignRule(Part):
    """The rule by which we stand down on an object that somebody else writes, too."""

    changes: int = Field(default=2, ge=1, le=2, description="Changes by somebody else to what we write there ...")
    window_seconds: Seconds = Field(default=600.0, description="... within this time.")


class Guards(Part):
    """Limits on what moves; each turns moves into refusals with numbers."""

    step: RateLimit = RateLimit(share=0.2, window_seconds=300.0)
    fleet: RateLimit = RateLimit(share=0.1, window_seconds=300.0)
    shift: RateLimit = RateLimit(share=0.5, window_seconds=10.0)
    blind: BlindRule = BlindRule()
    agree: AgreeRule = AgreeRule()
    plausible: PlausibleRule = PlausibleRule()
    sudden: SuddenRule = SuddenRule()
    start: StartRule = StartRule()
    foreign: ForeignRule = ForeignRule()


class OverrideRules(Part):
    """Bounds on what people may ask for."""

    max_seconds: Seconds = Field(default=86_400.0, description="Longest expiry an override may have.")
    default_seconds: Seconds = Field(
        default=1800.0, description="Expiry of an override whose author names none; never more than maxSeconds."
    )


class Policy(Part):
    """A whole policy file."""

    api_version: Literal["rebalancer.io/v1alpha1"] = Field(description="Version of the file's format.")
    kind: Literal["Policy"] = Field(description="What the file is.")
    pools: tuple[Pool, ...] = Field(min_length=1)
    models: tuple[Model, ...] = Field(min_length=1)
    teams: tuple[Team, ...] = Field(default=(), description="Limits that the models of one team share.")
    plan_every_seconds: Annotated[FiniteFloat, Field(ge=0.1, le=600)] = Field(
        default=10.0, description="Seconds between joint plans; events wake it at once besides."
    )
    look_ahead: bool = Field(
        default=True,
        description="Plan by what each count of replicas would keep from being late, judged by the model's own past;"
        " false: by the votes of its signals alone.",
    )
    cost_weight: Ratio = Field(
        default=0.05,
        description="Where nodes can come and go: what a GPU there must keep from being late, as a share of the"
        " requests that a GPU of these models does. 0: whatever gains is bought; more: a smaller bill, later answers.",
    )
    classes: Classes = Classes()
    deferral: DeferralRule = DeferralRule()
    surge: SurgeRules = SurgeRules()
    guards: Guards = Guards()
    nodes: NodeRules = Field(default=NodeRules(), description="Node grants, lost nodes, and what signs on nodes mean.")
    overrides: OverrideRules = OverrideRules()
    metrics: MetricRules = Field(default=MetricRules(), description="What is read from Prometheus, and from what.")
    producers: tuple[MetricProducer, ...] = Field(
        default=(),
        description="Topics that others write as they are, beside our own: which, and what their names mean.",
    )

    def to_mapping(self, *, defaults: bool = True) -> dict[str, object]:
        """The policy as its YAML would spell it (camelCase, JSON types): what the journal keeps.

        Without `defaults` only what differs from them, which is what people want to read.
        """
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=not defaults)


def json_schema() -> dict[str, object]:
    """JSON schema (draft 2020-12) of a policy file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Policy.model_json_schema(by_alias=True)}
