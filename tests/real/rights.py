"""The rights of the service under test: as the chart renders them, and which of them it used."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.chart.helm import CLUSTER_SCOPED, EVERY_ACTUATION, EVERYWHERE, RELEASE, Rendered, Right, named, render
from tests.testbed.audit import AuditLog
from tests.testbed.kube import Json, Kube

_KINDS = ("ServiceAccount", "Role", "RoleBinding", *CLUSTER_SCOPED)
# `RBAC: allowed by RoleBinding "x/ns" of Role "x" to ServiceAccount "rebalancer/ns"`
_GRANTED_BY = re.compile(r' of (ClusterRole|Role) "[^"]+" to ServiceAccount ')
# Everybody is held to their own name, and to the service's namespace, by these; tests speak as alice.
_OF_PEOPLE = (".actors", ".places")


def rights_in(namespace: str, kinds: Iterable[str] = (), drained: Mapping[str, str] | None = None) -> Rendered:
    """The chart with everything on that one test's service may do, in its one namespace.

    `kinds` of targets besides Deployments; `drained`: labels of the nodes that it may drain.
    """
    drain = {"enabled": drained is not None, "nodeLabels": [dict(drained or {})] if drained else []}
    given = {"namespaces": [namespace], "writeMode": "act", "targetKinds": [*kinds], "drain": drain}
    return render({**EVERY_ACTUATION, **given, "clusterAutoscaler": True}, namespace)


def to_apply(rendered: Rendered) -> list[Json]:
    """Of the rendered objects those that say who may what."""
    return [obj for obj in rendered.of(*_KINDS) if not obj["metadata"]["name"].endswith(_OF_PEOPLE)]


async def take_away(kube: Kube, objects: Iterable[Json], namespace: str) -> None:
    """Delete what does not go with the namespace."""
    for kind, where, name in named(objects):
        if where != namespace:
            await kube.delete(kind, name, where)


@dataclass
class Ledger:
    """What was granted to the services of the session and what they used, with NS for the namespace.

    `refused`: requests that were denied for want of a right. One that the same installation was also allowed
    does not count: an API server that has just been restarted answers before it has read its roles.
    """

    granted: set[Right] = field(default_factory=set)
    used: set[Right] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    def close(self, rendered: Rendered, audit: AuditLog) -> None:
        """Enter one installation that is over."""
        namespace = rendered.namespace
        self.granted |= {_anywhere(right, namespace) for right in rendered.rights}
        requests = list(audit.requests(f"system:serviceaccount:{namespace}:{RELEASE}"))
        allowed = {request.right for request in requests if request.allowed}
        for request in requests:
            granted_by = _GRANTED_BY.search(request.reason)
            if not request.allowed:
                if request.right not in allowed:
                    self.refused.add(f"{request.verb} {request.target}".replace(namespace, "NS"))
            elif granted_by is not None:
                where = EVERYWHERE if granted_by[1] == "ClusterRole" else request.namespace
                self.used.add(_anywhere(Right(where, request.group, request.target, request.verb), namespace))

    def differences(self) -> str:
        """Both, for people."""
        return f"granted and not used:\n{_listed(self.unused)}\nasked for and not granted:\n{_listed(self.refused)}"

    @property
    def unused(self) -> set[Right]:
        """Granted for nothing."""
        return self.granted - self.used


def is_whole_tier(session: pytest.Session) -> bool:
    """Whether every test of the real tier ran, and well."""
    config = session.config
    narrowed = config.getoption("keyword") or any("::" in argument for argument in config.args)
    files = set(Path(__file__).parent.glob("test_*.py"))
    ran = {item.path for item in session.items}
    return not narrowed and files <= ran and session.testsfailed == 0 and not os.environ.get("PYTEST_XDIST_WORKER")


def _listed(rights: Iterable[object]) -> str:
    """One to a line."""
    return "\n".join(sorted(f"  {right}" for right in rights)) or "  none"


def _anywhere(right: Right, namespace: str) -> Right:
    return right._replace(where=right.where.replace(namespace, "NS"))
