"""Asks the API server about a kind of target: whether it is there, whether it serves `/scale`, where that stands.

The paths come from the kind's CustomResourceDefinition, read once for each watch: then every event of the watch has
replicas and selector of one revision. Reading `/scale` of each object whenever its generation moves would cost a call
per object and race with the watch, and a selector, which stands in the status, moves no generation.
"""

from rebalancer.domain.parents import instead_of
from rebalancer.domain.target_kinds import TargetKind
from rebalancer.ingest.objects import REPLICA_SETS, SHAPES, STATEFUL_SETS, WireShape, shape_of
from rebalancer.ingest.objects.targets import ScalePaths
from rebalancer.kube.errors import NotFound
from rebalancer.kube.reader import KubeReader
from rebalancer.kube.resources import CUSTOM_RESOURCES, DEPLOYMENTS, REPLICASETS, STATEFULSETS, Object, Ref, Resource

BUILT_IN = {DEPLOYMENTS: SHAPES["deployments"], STATEFULSETS: STATEFUL_SETS, REPLICASETS: REPLICA_SETS}


class NoScale(ValueError):
    """The cluster has the kind, and nobody can scale it; the text says why."""


async def served(kube: KubeReader, kind: TargetKind) -> Resource:
    """Where the API server serves the kind. Raises NotFound where it has none, NoScale, and other KubeErrors."""
    listed = (await kube.discover(kind.api_version)).get("resources", ())
    resource = next((each for each in listed if each.get("kind") == kind.kind and "/" not in each["name"]), None)
    if resource is None:
        raise NotFound(f"the cluster has no kind {kind.kind} in {kind.api_version}")
    if f"{resource['name']}/scale" not in {each["name"] for each in listed}:
        raise NoScale(_unscaled(kind))
    return Resource(kind.group, kind.version, resource["name"], namespaced=resource["namespaced"], kind=kind.kind)


async def looks(kube: KubeReader, kind: TargetKind) -> tuple[Resource, WireShape]:
    """Where the kind is served, and how its objects look there. Raises as `served`."""
    built_in = next((each for each in BUILT_IN if (each.api_version, each.kind) == (kind.api_version, kind.kind)), None)
    if built_in is not None:
        return built_in, BUILT_IN[built_in]
    resource = await served(kube, kind)
    definition = await kube.get(Ref(CUSTOM_RESOURCES, None, f"{resource.plural}.{resource.group}"))
    return resource, shape_of(resource, scale_paths(definition, kind))


def scale_paths(definition: Object, kind: TargetKind) -> ScalePaths:
    """Where the definition of a kind says that its scale stands. Raises NoScale."""
    for version in definition["spec"]["versions"]:
        scale = (version.get("subresources") or {}).get("scale")
        if version["name"] == kind.version and scale is not None:
            return ScalePaths(_keys(scale["specReplicasPath"]), _keys(scale.get("labelSelectorPath") or ""))
    raise NoScale(_unscaled(kind))


def _unscaled(kind: TargetKind) -> str:
    return "; ".join(
        filter(None, [f"{kind.kind} of {kind.api_version} serves no /scale", instead_of(kind.group, kind.kind)])
    )


def _keys(path: str) -> tuple[str, ...]:
    """The keys of `.spec.replicas`: the API server takes no other paths here."""
    return tuple(filter(None, path.split(".")))
