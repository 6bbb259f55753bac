"""Reads the objects of a live cluster, once and without a watch."""

from collections.abc import Collection, Iterable
from typing import Final

from rebalancer.kube.errors import Forbidden, KubeError, NotFound, Unauthorized
from rebalancer.kube.reader import KubeReader
from rebalancer.kube.resources import (
    DEPLOYMENTS,
    HPAS,
    NODEPOOLS,
    NODES,
    PODS,
    SCALEDOBJECTS,
    STATEFULSETS,
    Resource,
)
from rebalancer.survey.objects import Object, Survey

LEADER_WORKER_SETS: Final = Resource(
    "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", namespaced=True, kind="LeaderWorkerSet"
)

KINDS: Final = (NODES, NODEPOOLS, DEPLOYMENTS, STATEFULSETS, LEADER_WORKER_SETS, PODS, HPAS, SCALEDOBJECTS)
"""What holds GPUs, what may scale it, and where it stands."""

NOT_INSTALLED: Final = "not installed in this cluster"
"""How a sentence ends about a kind that nobody has: mostly as it should be."""


async def survey_live(kube: KubeReader, kinds: Iterable[Resource] = KINDS, namespaces: Collection[str] = ()) -> Survey:
    """All objects of `kinds`, those of namespaces from `namespaces` alone where any is named.

    A kind that is not installed, that the caller may not list, or that the server cannot list, as where a CRD's
    conversion webhook is down, costs no other: `unread` has a sentence about it. Raises KubeError where the API server
    cannot be asked at all: it does not take the login, or fails at the first kind, which is to be one of its own.
    """
    objects: list[Object] = []
    unread: list[str] = []
    listed: set[tuple[str, str]] = set()
    passing = False
    for resource in kinds:
        try:
            for namespace in (namespaces or (None,)) if resource.namespaced else (None,):
                listing = await kube.list(resource, namespace)
                # The items of a list carry neither: their list says it once.
                objects += (
                    {**each, "apiVersion": resource.api_version, "kind": resource.kind} for each in listing.items
                )
            listed.add((resource.group, resource.kind))
        except NotFound:
            unread.append(f"{resource}: {NOT_INSTALLED}")
            listed.add((resource.group, resource.kind))  # there is none of it
        except Forbidden:  # said of what is not installed too, to who may not list it
            unread.append(f"{resource}: you may not list them; ask whoever runs the cluster for this right")
        except KubeError as error:
            if isinstance(error, Unauthorized) or not (listed or unread):
                raise
            unread.append(f"{resource}: cannot be read now: {error}")
            passing = True
    return Survey(tuple(objects), tuple(unread), listed=frozenset(listed), passing=passing)
