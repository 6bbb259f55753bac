"""The objects of one look at a cluster, by kind."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Object = Mapping[str, Any]
"""A Kubernetes object as decoded JSON or YAML."""


@dataclass(frozen=True)
class Survey:
    """What one look at a cluster, or at a folder of manifests, has found.

    objects: every object that could be read, in the order in which it was found; lists are taken apart.
    unread: what could not be read, each with a sentence that names the place and the reason.
    files: for each of `objects` the file that holds it; empty for a live cluster.
    listed: (API group, kind) of every kind whose objects are all here; None: of a folder, which holds what it holds.
    passing: whether something of `unread`, for another reason than a missing right or kind, may be readable soon.
    """

    objects: tuple[Object, ...]
    unread: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    listed: frozenset[tuple[str, str]] | None = None
    passing: bool = False

    def of(self, kind: str, group: str | None = None) -> Iterator[Object]:
        """The objects of `kind`, of the API group alone where one is named ("" is the core group)."""
        for each in self.objects:
            if each.get("kind") == kind and (group is None or group_of(each) == group):
                yield each

    def file_of(self, obj: Object) -> str:
        """The file that holds this very object, "" for a live cluster."""
        return self._files.get(id(obj), "")

    @cached_property
    def _files(self) -> dict[int, str]:
        return {id(each): file for each, file in zip(self.objects, self.files, strict=False)}


def group_of(obj: Object) -> str:
    """The API group of an object: `apps` for `apps/v1`, "" for the core group."""
    return str(obj.get("apiVersion", "")).rpartition("/")[0]


def address(obj: Object) -> str:
    """How people name the object: `deployment/default/chat`, or `node/n1` where it has no namespace."""
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    name, space = (meta.get(key) if isinstance(meta.get(key), str) else "" for key in ("name", "namespace"))
    parts = (str(obj.get("kind", "object")).lower(), space, name or "without a name")
    return "/".join(part for part in parts if part)


def taken_apart(documents: Iterable[Any]) -> Iterator[Object]:
    """Each object of some documents: a `List` gives its items, what is no object gives nothing."""
    for each in documents:
        if not isinstance(each, Mapping):
            continue
        items = each.get("items")
        if str(each.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from taken_apart(items)
        elif isinstance(each.get("kind"), str):
            yield each
