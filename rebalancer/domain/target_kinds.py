"""Kinds of scale targets: where the API server serves them, and who goes when one is asked for fewer replicas."""

from typing import Literal, NamedTuple

Victims = Literal["replicaSet", "ordinal", ""]

DEPLOYMENT = "Deployment"
UNSAID = "the policy's `victims` of the target does not say who goes at a decrease"
NO_TARGETS = frozenset({("karpenter.sh", "NodePool")})  # its scale counts nodes, which are pools' and not models'


class TargetKind(NamedTuple):
    """A kind of object that serves `/scale`.

    group: its API group.
    version: the version of it that is read.
    kind: its name in manifests.
    plural: its name in paths, "" where only the API server knows it.
    victims: who goes at a decrease. `replicaSet`: classes of pods, of one class the lowest deletion cost, then the
        youngest. `ordinal`: the highest number. "": nobody said, so nothing of it is written.
    grouped: whether one replica can be several pods, which its controller tells apart by group.
    """

    group: str
    version: str
    kind: str
    plural: str = ""
    victims: Victims = ""
    grouped: bool = False

    @property
    def api_version(self) -> str:
        """`apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def source(self) -> str:
        """The watch that follows its objects, in the words of status and readiness: one for each kind."""
        return self.plural or f"{self.kind.lower()}.{self.group}"


# The replicas of a DynamoGraphDeploymentScalingAdapter are pods of a Deployment, a LeaderWorkerSet or a PodClique, as
# its graph says, and those of a StormService are whole sets of roles: what goes there first is the policy's to say.
KNOWN = (
    TargetKind("apps", "v1", DEPLOYMENT, "deployments", "replicaSet"),
    TargetKind("apps", "v1", "StatefulSet", "statefulsets", "ordinal"),
    TargetKind("apps", "v1", "ReplicaSet", "replicasets", "replicaSet"),
    TargetKind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets", "ordinal", grouped=True),
    TargetKind("argoproj.io", "v1alpha1", "Rollout", "rollouts", "replicaSet"),
    TargetKind("nvidia.com", "v1beta1", "DynamoGraphDeploymentScalingAdapter", "dynamographdeploymentscalingadapters"),
    TargetKind("orchestration.aibrix.ai", "v1alpha1", "StormService", "stormservices"),
)
BY_NAME = {one.kind: one for one in KNOWN}


def kind_named(kind: str, api_version: str | None = None, victims: Victims = "") -> TargetKind | None:
    """The kind that a policy names; None for one that needs an `api_version` and has none.

    `victims` counts where the kind itself does not say.
    """
    known = BY_NAME.get(kind)
    if api_version is None:
        return known if known is None or known.victims else known._replace(victims=victims)
    group, _, version = api_version.rpartition("/")
    if known is not None and known.group == group:
        return known._replace(version=version, victims=known.victims or victims)
    return TargetKind(group, version, kind, victims=victims)
