"""The pods that an object makes or is, wherever its kind keeps their template."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rebalancer.ingest.objects.placement import REQUIRED
from rebalancer.ingest.objects.pods import GRACE_SECONDS, devices_of
from rebalancer.survey.accelerators import devices, gpus
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import items, mapped, part, requirements, text, whole

SPOT: Final = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
"""Labels of nodes that the cloud may take away, with their value."""


@dataclass(frozen=True)
class Template:
    """Pods of one shape.

    owner: the object that holds the template; a bare Pod is its own.
    place: the path of the pod's spec in the owner, such as `spec.template.spec`.
    labels: labels of the pods.
    annotations: annotations of the pods.
    spec: the PodSpec.
    """

    owner: Object
    place: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Object

    @cached_property
    def devices(self) -> dict[str, int]:
        """What the scheduler counts for one pod, by extended resource; a limit alone is a request too."""
        steps = (
            (text(each, "restartPolicy") == "Always", _requested_devices(each))
            for each in items(self.spec, "initContainers")
        )
        return devices_of(steps, map(_requested_devices, items(self.spec, "containers")))

    @cached_property
    def gpus(self) -> dict[str, int]:
        """The accelerators among its devices, as far as they are known by their names."""
        return gpus(self.devices)

    @property
    def claims(self) -> bool:
        """Whether its devices come by resource claims (DRA), which no count of ours sees."""
        return bool(items(self.spec, "resourceClaims"))

    @property
    def on_gpus(self) -> bool:
        """Whether its pods ask for accelerators, or may get them by claims."""
        return self.claims or bool(self.gpus)

    @property
    def grace_seconds(self) -> int:
        """Seconds between SIGTERM and SIGKILL."""
        own = whole(self.spec, "terminationGracePeriodSeconds")
        return GRACE_SECONDS if own is None else own

    @property
    def containers(self) -> list[Object]:
        """All containers, those of the initialisation first."""
        return [*items(self.spec, "initContainers"), *items(self.spec, "containers")]

    @cached_property
    def node_labels(self) -> dict[str, frozenset[str]]:
        """Labels that a node must have for the pod, by key the values that will do.

        They come from nodeSelector, and from what every term of the required nodeAffinity asks for.
        """
        labels = {key: frozenset({label}) for key, label in mapped(self.spec, "nodeSelector").items()}
        by_term = [
            {one.key: frozenset(one.values) for one in requirements(term, "matchExpressions") if one.operator == "In"}
            for term in self._terms
        ]
        for key in set.intersection(*(set(term) for term in by_term)) if by_term else ():
            labels.setdefault(key, frozenset().union(*(term[key] for term in by_term)))
        return labels

    @property
    def pinned(self) -> bool:
        """Whether anything binds the pods to some nodes."""
        return bool(part(self.spec, "nodeSelector") or self._terms or text(self.spec, "nodeName"))

    @property
    def on_spot(self) -> bool:
        """Whether the pods may stand on nodes that the cloud takes away, by their own words."""
        return any(spot in self.node_labels.get(key, ()) for key, spot in SPOT.items())

    @property
    def _terms(self) -> list[Object]:
        return items(self.spec, "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")


def templates_of(obj: Object) -> Iterator[Template]:
    """Every template of an object: of a Deployment one, of a LeaderWorkerSet leader and workers, of a Pod itself."""
    yield from _below(obj, obj, {}, ())


def _below(owner: Object, obj: object, meta: Object, path: tuple[str, ...]) -> Iterator[Template]:
    if isinstance(obj, list):
        for place, each in enumerate(obj):
            yield from _below(owner, each, {}, (*path[:-1], f"{path[-1]}[{place}]") if path else ())
    elif isinstance(obj, Mapping):
        if path and items(obj, "containers"):
            labels, annotations = mapped(meta, "labels"), mapped(meta, "annotations")
            yield Template(owner, ".".join(path), labels, annotations, obj)
            return
        for key, each in obj.items():
            if key not in {"metadata", "status"}:
                meta_of_pods = part(obj, "metadata") if key == "spec" else {}
                yield from _below(owner, each, meta_of_pods, (*path, str(key)))


def _requested_devices(container: Object) -> dict[str, int]:
    return devices(part(container, "resources", "limits")) | devices(part(container, "resources", "requests"))
