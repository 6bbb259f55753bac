"""Others that write the numbers that we would write, as data: controllers above an object, tools that apply it.

Each row says what its controller does, by its source or its documentation, and the way out. A row is no opinion
about a product: a parent that leaves a number alone has no row, and one nobody looked at yet is told as unknown.
"""

from collections.abc import Mapping

from msgspec import Struct

REVERTS = "reverts"  # it writes the number back within seconds, whoever changed it: refused before the first write
MAY = "may"  # it writes it back under conditions that its child does not show: told with the way out
LEAVES = "leaves"  # it set the number once, if ever

AUTOSCALER_CLASS = "serving.kserve.io/autoscalerClass"  # KServe copies it from its service onto what it makes
AUTOSCALER_KINDS = frozenset({"ScaledObject", "HorizontalPodAutoscaler"})


class ControllerRef(Struct, frozen=True):
    """The controller among an object's ownerReferences.

    group: its API group, "" of the core group.
    kind: `kind` of the owner reference.
    name: `name` of the owner reference.
    mode: the object's annotation `serving.kserve.io/autoscalerClass`, by which KServe says who scales; "" without one.
    """

    group: str
    kind: str
    name: str
    mode: str = ""


class Applied(Struct, frozen=True):
    """Numbers of an object that a known tool applies from manifests (`APPLIERS`).

    manager: the field manager that it writes as.
    fields: the keys of the spec that it owns, of those that we write.
    by: what the object belongs to there: an Application, a Kustomization, a release; "" where nothing says so.
    """

    manager: str
    fields: tuple[str, ...]
    by: str = ""


class Parent(Struct, frozen=True):
    """One kind of controller that stands above workloads or autoscalers.

    group: its API group.
    kind: the kind of its objects, as Kubernetes calls it.
    does: what it re-applies, and when: half a sentence.
    bounds: what becomes of bounds written on an autoscaler of its own: one of REVERTS, MAY, LEAVES.
    replicas: the same of replicas written on a workload of its own.
    way_out: what a person does so that both can work: half a sentence.
    leaves: kinds of its children whose number it leaves alone whatever the two say.
    consents: values of KServe's annotation with which it leaves both alone.
    by_reference: whether it points at what it scales and owns nothing, so that it counts whichever object is written.
    """

    group: str
    kind: str
    does: str
    bounds: str
    replicas: str
    way_out: str
    leaves: tuple[str, ...] = ()
    consents: tuple[str, ...] = ()
    by_reference: bool = False

    def verdict(self, child: str, mode: str) -> str:
        """What becomes of our number on its child of kind `child`; `mode`: the value of KServe's annotation there."""
        if child in self.leaves or (mode and mode in self.consents):
            return LEAVES
        return self.bounds if child in AUTOSCALER_KINDS else self.replicas


PARENTS = (
    Parent(
        group="serving.kserve.io",
        kind="InferenceService",
        does="writes its HPA or ScaledObject back from its own minReplicas and maxReplicas whenever they differ, and"
        " with the class `none` the replicas",
        bounds=REVERTS,
        replicas=REVERTS,
        way_out="annotate the InferenceService with `serving.kserve.io/autoscalerClass: external`: KServe then removes"
        " its HPA and leaves the replicas alone",
        consents=("external",),
    ),
    Parent(
        group="serving.kserve.io",
        kind="LLMInferenceService",
        does="writes its HPA or ScaledObject back, labels and annotations too; replicas where its own spec has them",
        bounds=REVERTS,
        replicas=MAY,
        way_out="leave `scaling` and `replicas` out of the LLMInferenceService's spec, and out of its `prefill`",
    ),
    Parent(
        group="serving.knative.dev",
        kind="Revision",
        does="has its Deployment scaled by Knative's own autoscaler",
        bounds=REVERTS,
        replicas=REVERTS,
        way_out="deploy it without Knative; of a KServe service by `serving.kserve.io/deploymentMode: Standard`",
    ),
    Parent(
        group="apps.nvidia.com",
        kind="NIMService",
        does="writes the replicas back within seconds while it has no autoscaling, and its HPA's bounds once at each"
        " edit of the NIMService",
        bounds=MAY,
        replicas=REVERTS,
        way_out="turn on `spec.scale` of the NIMService: bounds on its HPA stay until somebody edits the NIMService",
    ),
    Parent(
        group="nvidia.com",
        kind="DynamoComponentDeployment",
        does="overwrites every change by hand of what it made",
        bounds=REVERTS,
        replicas=REVERTS,
        way_out="give the component a `scalingAdapter` in its DynamoGraphDeployment, and name that"
        " DynamoGraphDeploymentScalingAdapter as the target",
    ),
    Parent(
        group="nvidia.com",
        kind="DynamoGraphDeployment",
        does="overwrites every change by hand of what it made; a scaling adapter's replicas are the adapter's own",
        bounds=REVERTS,
        replicas=REVERTS,
        way_out="give the component a `scalingAdapter`, and name its DynamoGraphDeploymentScalingAdapter as the target",
        leaves=("DynamoGraphDeploymentScalingAdapter",),
    ),
    Parent(
        group="autoscaling.aibrix.ai",
        kind="PodAutoscaler",
        does="writes replicas of what it points at every 10 s (KPA, APA), or updates an HPA of its own each time (HPA)",
        bounds=REVERTS,
        replicas=REVERTS,
        way_out="delete the PodAutoscaler, or take the model out of the policy: both choose the same number",
        by_reference=True,
    ),
    Parent(
        group="orchestration.aibrix.ai",
        kind="StormService",
        does="keeps as many RoleSets as its replicas say",
        bounds=REVERTS,
        replicas=REVERTS,
        way_out="name the StormService as the target",
    ),
    Parent(
        group="leaderworkerset.x-k8s.io",
        kind="LeaderWorkerSet",
        does="applies its StatefulSets with their replicas",
        bounds=REVERTS,
        replicas=REVERTS,
        way_out="name the LeaderWorkerSet as the target",
    ),
    Parent(
        group="argoproj.io",
        kind="Rollout",
        does="divides its replicas among its ReplicaSets",
        bounds=REVERTS,
        replicas=REVERTS,
        way_out="name the Rollout as the target",
    ),
    Parent(
        group="apps",
        kind="Deployment",
        does="divides its replicas among its ReplicaSets",
        bounds=REVERTS,
        replicas=REVERTS,
        way_out="name the Deployment as the target",
    ),
    Parent(
        group="keda.sh",
        kind="ScaledObject",
        does="writes the HPA that it made back, from its own minReplicaCount and maxReplicaCount",
        bounds=REVERTS,
        replicas=LEAVES,
        way_out="point `scaleTargetRef` of the ScaledObject at the target, so that its own bounds are written",
    ),
)

_BY_NAME = {(row.group, row.kind): row for row in PARENTS}

# What a policy names in place of a kind that serves no `/scale`; None where nothing below it is ours to move.
INSTEAD: Mapping[tuple[str, str], str | None] = {
    ("serving.kserve.io", "InferenceService"): "the Deployment that it makes, NAME-predictor",
    ("serving.kserve.io", "LLMInferenceService"): "the Deployment or LeaderWorkerSet that it makes",
    ("apps.nvidia.com", "NIMService"): "the Deployment or LeaderWorkerSet that it makes",
    ("nvidia.com", "DynamoGraphDeployment"): "the DynamoGraphDeploymentScalingAdapter of one of its components",
    ("nvidia.com", "DynamoComponentDeployment"): "the DynamoGraphDeploymentScalingAdapter of the component",
    ("autoscaling.aibrix.ai", "PodAutoscaler"): "what it scales",
    ("llmd.ai", "VariantAutoscaling"): "the workload that it speaks of: it only emits a metric",
    ("autoscaling", "HorizontalPodAutoscaler"): "what it scales: the autoscaler is found by itself",
    ("keda.sh", "ScaledObject"): "what it scales: the autoscaler is found by itself",
    ("ray.io", "RayService"): None,
    ("ray.io", "RayCluster"): None,
}


def instead_of(group: str, kind: str) -> str:
    """What to name in place of a kind that serves no `/scale`, as a clause; "" for a kind that nobody looked at."""
    if (group, kind) not in INSTEAD:
        return ""
    other = INSTEAD[group, kind]
    return f"name {other}" if other else "its pods count as GPUs of others, and nothing of it is moved"


def parent_of(group: str, kind: str) -> Parent | None:
    """The row of a controller, None where nobody looked at that kind."""
    return _BY_NAME.get((group, kind))


class Applier(Struct, frozen=True):
    """One tool that applies manifests, seen by the field manager that it writes as.

    manager: what the names of its field managers begin with.
    who: what people call it.
    name_in: annotations, then labels, that name what the object belongs to; the first that is there counts.
    again: when it writes the fields again: half a sentence.
    way_out: what a person does; `{kind}`, `{fields}` and `{paths}` stand for the object's kind, and the fields.
    """

    manager: str
    who: str
    name_in: tuple[str, ...]
    again: str
    way_out: str


APPLIERS = (
    Applier(
        manager="argocd",
        who="Argo CD",
        name_in=("argocd.argoproj.io/tracking-id", "argocd.argoproj.io/instance"),
        again="at each sync, at once where it heals itself",
        way_out="in its Application `ignoreDifferences` with kind {kind} and jsonPointers {paths}, and the sync option"
        " `RespectIgnoreDifferences=true`",
    ),
    Applier(
        manager="kustomize-controller",
        who="Flux",
        name_in=("kustomize.toolkit.fluxcd.io/name",),
        again="at each reconciliation",
        way_out="leave {fields} out of what its Kustomization applies",
    ),
    Applier(
        manager="helm-controller",
        who="Flux",
        name_in=("helm.toolkit.fluxcd.io/name",),
        again="at each upgrade, and sooner where it detects drift",
        way_out="leave {fields} out of the chart's values, and {paths} out of `driftDetection` by its `ignore`",
    ),
    Applier(
        manager="helm",
        who="Helm",
        name_in=("meta.helm.sh/release-name",),
        again="at each upgrade",
        way_out="leave {fields} out of the chart's values",
    ),
)


def applier_of(manager: str) -> Applier | None:
    """The tool behind a field manager, None where it is none of those; the first row that fits counts."""
    return next((row for row in APPLIERS if manager.startswith(row.manager)), None)
