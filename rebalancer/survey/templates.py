"""The pods that an object makes or is, wherever its kind keeps their template."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rebalancer.survey.objects import Object
from rebalancer.survey.parts import items, mapped, part, text, whole, words

ACCELERATOR: Final = re.compile(
    r"nvidia\.com/(gpu|gpu\.shared|mig-.+)|amd\.com/gpu|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi"
    r"|google\.com/tpu|aws\.amazon\.com/neuron(core|device)?"
)
"""Extended resources that device plugins of accelerators serve. HAMi's `nvidia.com/gpumem` is memory, and none."""

SPOT: Final = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
"""Labels of nodes that the cloud may take away, with their value."""

GRACE_SECONDS: Final = 30  # Kubernetes' default


@dataclass(frozen=True)
class Template:
    """Pods of one shape.

    owner: the object that holds the template; a bare Pod is its own.
    place: the path of the pod's spec in the owner, such as `spec.template.spec`.
    labels: of the pods. annotations: of the pods.
    spec: the PodSpec.
    """

    owner: Object
    place: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Object

    @cached_property
    def gpus(self) -> dict[str, int]:
        """Accelerators that the scheduler counts for one pod, by resource.

        Containers and sidecars together, or the largest step of initialisation. A limit alone is a request too.
        """
        running: dict[str, int] = {}
        peak: dict[str, int] = {}
        for each in items(self.spec, "initContainers"):
            asked = _asked(each)
            if text(each, "restartPolicy") == "Always":
                running = _sum(running, asked)
            else:
                peak = _most(peak, _sum(running, asked))
        for each in items(self.spec, "containers"):
            running = _sum(running, _asked(each))
        return _most(running, peak)

    @property
    def claims(self) -> bool:
        """Whether its devices come by resource claims (DRA), which no count of ours sees."""
        return bool(items(self.spec, "resourceClaims"))

    @property
    def on_gpus(self) -> bool:
        """Whether its pods ask for accelerators, or may get them by claims."""
        return self.claims or any(self.gpus.values())

    @property
    def grace_seconds(self) -> int:
        """Seconds between SIGTERM and SIGKILL."""
        told = whole(self.spec, "terminationGracePeriodSeconds")
        return GRACE_SECONDS if told is None else told

    @property
    def containers(self) -> list[Object]:
        """All containers, those of the initialisation first."""
        return [*items(self.spec, "initContainers"), *items(self.spec, "containers")]

    @cached_property
    def node_labels(self) -> dict[str, frozenset[str]]:
        """Labels that a node must have for the pod, by key the values that will do.

        They come from nodeSelector, and from what every term of the required nodeAffinity asks for.
        """
        told = {key: frozenset({label}) for key, label in mapped(self.spec, "nodeSelector").items()}
        by_term = [_wanted(term) for term in self._terms]
        for key in set.intersection(*(set(term) for term in by_term)) if by_term else ():
            told.setdefault(key, frozenset().union(*(term[key] for term in by_term)))
        return told

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
        wanted = part(self.spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        return items(wanted, "nodeSelectorTerms")


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


def accelerators(resources: Object) -> dict[str, int]:
    """Those of `resources` that are accelerators, with their whole numbers."""
    counted = {name: whole(resources, name) for name in resources if ACCELERATOR.fullmatch(str(name))}
    return {name: count for name, count in counted.items() if count is not None}


def _asked(container: Object) -> dict[str, int]:
    return accelerators(part(container, "resources", "limits")) | accelerators(part(container, "resources", "requests"))


def _wanted(term: Object) -> dict[str, frozenset[str]]:
    told = items(term, "matchExpressions")
    return {text(each, "key"): frozenset(words(each, "values")) for each in told if text(each, "operator") == "In"}


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in _names(left, right)}


def _most(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in _names(left, right)}


def _names(left: Iterable[str], right: Iterable[str]) -> dict[str, None]:
    return dict.fromkeys((*left, *right))
