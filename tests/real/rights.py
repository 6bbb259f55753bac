"""The rights of the service under test: as the chart renders them, and which of them it used."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.chart.helm import CLUSTER_SCOPED, EVERY_ACTUATION, RELEASE, Rendered, Right, named, render
from tests.testbed.audit import AuditLog
from tests.testbed.kube import Json, Kube

_KINDS = ("ServiceAccount", "Role", "RoleBinding", *CLUSTER_SCOPED)
# `RBAC: allowed by RoleBinding "x/ns" of Role "x" to ServiceAccount "rebalancer/ns"`
_GRANTED_BY = re.compile(r' of (ClusterRole|Role) "([^"]+)" to ServiceAccount ')
# Everybody is held to their own name by this one, and tests speak as alice.
_ACTORS = ".actors"


def rights_in(namespace: str) -> Rendered:
    """The chart with everything on that one test's service may do, in its one namespace."""
    return render({**EVERY_ACTUATION, "namespaces": [namespace], "writeMode": "act"}, namespace)


def to_apply(rendered: Rendered) -> list[Json]:
    """Of the rendered objects those that say who may what."""
    return [obj for obj in rendered.of(*_KINDS) if not obj["metadata"]["name"].endswith(_ACTORS)]


async def take_away(kube: Kube, objects: Iterable[Json], namespace: str) -> None:
    """Delete what does not go with the namespace."""
    for kind, where, name in named(objects):
        if where != namespace:
            await kube.delete(kind, name, where)


@dataclass
class Ledger:
    """What was granted to every service of the session, with the namespace as NS in the names of roles."""

    granted: set[Right] = field(default_factory=set)
    accounts: set[str] = field(default_factory=set)

    def enter(self, rendered: Rendered) -> None:
        """One more installation."""
        self.granted |= {_anywhere(right, rendered.namespace) for right in rendered.rights}
        self.accounts.add(f"system:serviceaccount:{rendered.namespace}:{RELEASE}")

    def used(self, audit: AuditLog) -> tuple[set[Right], set[str]]:
        """The rights that were used, and the requests that were refused for want of one."""
        used: set[Right] = set()
        refused: set[str] = set()
        for request in audit.requests(self.accounts):
            namespace = request.user.split(":")[2]
            granted_by = _GRANTED_BY.search(request.reason)
            if not request.allowed:
                refused.add(f"{request.verb} {request.target}".replace(namespace, "NS"))
            elif granted_by is not None:
                role = " ".join(granted_by.groups())
                used.add(_anywhere(Right(role, request.group, request.target, request.verb), namespace))
        return used, refused


def is_whole_tier(session: pytest.Session) -> bool:
    """Whether every test of the real tier ran, and well."""
    config = session.config
    narrowed = config.getoption("keyword") or any("::" in argument for argument in config.args)
    files = set(Path(__file__).parent.glob("test_*.py"))
    ran = {item.path for item in session.items}
    return not narrowed and files <= ran and session.testsfailed == 0 and not os.environ.get("PYTEST_XDIST_WORKER")


def listed(rights: Iterable[object]) -> str:
    """One to a line."""
    return "\n".join(sorted(f"  {right}" for right in rights)) or "  none"


def _anywhere(right: Right, namespace: str) -> Right:
    return right._replace(role=right.role.replace(namespace, "NS"))
