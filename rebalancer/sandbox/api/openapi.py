"""The API's description of itself, as far as kubectl asks: which kinds can be patched, and what our own look like.

kubectl leaves checking to the server where the description of a kind's PATCH names the parameter `fieldValidation`.
`kubectl explain` reads the schemas, which only the kinds of our own definitions have.
"""

from collections.abc import Iterable, Iterator

from rebalancer.sandbox.api.definitions import schema
from rebalancer.sandbox.api.resources import Obj, ServedResource

ROOT = "/openapi/v3"
_KIND = "x-kubernetes-group-version-kind"


def described(path: str, resources: Iterable[ServedResource]) -> Obj | None:
    """The document at a path below `ROOT`: the list of group versions, or one of them; None when there is none."""
    by_place: dict[str, list[ServedResource]] = {}
    for resource in resources:
        by_place.setdefault(f"{'apis' if resource.group else 'api'}/{resource.api_version}", []).append(resource)
    if path == ROOT:
        return {"paths": {place: {"serverRelativeURL": f"{ROOT}/{place}"} for place in by_place}}
    there = by_place.get(path.removeprefix(f"{ROOT}/"))
    return None if there is None else _document(path.removeprefix(ROOT), there)


def _document(place: str, resources: Iterable[ServedResource]) -> Obj:
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1"},
        "paths": {_path(place, resource): {"patch": _patch(resource)} for resource in resources},
        "components": {"schemas": dict(_schemas(resources))},
    }


def _path(place: str, resource: ServedResource) -> str:
    return f"{place}/{'namespaces/{namespace}/' if resource.namespaced else ''}{resource.plural}/{{name}}"


def _schemas(resources: Iterable[ServedResource]) -> Iterator[tuple[str, Obj]]:
    for resource in resources:
        wanted = schema(resource)
        if wanted is not None:
            group = ".".join(reversed(resource.group.split(".")))
            yield f"{group}.{resource.version}.{resource.kind}", {**wanted, _KIND: [_named(resource)]}


def _named(resource: ServedResource) -> Obj:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _patch(resource: ServedResource) -> Obj:
    return {
        "x-kubernetes-action": "patch",
        _KIND: _named(resource),
        "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}],
        "responses": {"200": {"description": "OK"}},
    }
