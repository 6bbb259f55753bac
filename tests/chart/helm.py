"""The chart as `helm` renders it: objects by kind, and the rights that they grant our account."""

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.testbed.build import Missing, build

Json = dict[str, Any]

CHART = Path(__file__).parents[2] / "charts/rebalancer"
RELEASE = "rebalancer"
EVERYWHERE = "everywhere"
ACTUATIONS = ("keda", "hpa", "scale", "karpenter", "deletionCost")
EVERY_ACTUATION: Json = {"actuation": dict.fromkeys(ACTUATIONS, True)}
CLUSTER_SCOPED = ("ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Refused(Exception):
    """helm said no; the text is what it said."""


class Right(NamedTuple):
    """One verb on one resource, and where: `everywhere`, or a namespace."""

    where: str
    group: str
    resource: str  # with subresource: deployments/scale
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group} ({self.where})"


@dataclass(frozen=True)
class Rendered:
    """What `helm template` printed."""

    objects: list[Json]
    namespace: str

    def of(self, *kinds: str) -> list[Json]:
        """The objects of these kinds."""
        return [obj for obj in self.objects if obj["kind"] in kinds]

    def one(self, kind: str, name: str | None = None) -> Json:
        """The only object of a kind, or the one with that name."""
        (found,) = [obj for obj in self.of(kind) if name in (None, obj["metadata"]["name"])]
        return found

    @property
    def kinds(self) -> dict[str, int]:
        """How many there are of each kind."""
        kinds = [obj["kind"] for obj in self.objects]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    @cached_property
    def rights(self) -> frozenset[Right]:
        """What our account is granted, by its bindings."""
        mine = {
            (binding["roleRef"]["kind"], binding["metadata"].get("namespace"), binding["roleRef"]["name"])
            for binding in self.of("ClusterRoleBinding", "RoleBinding")
            if {"kind": "ServiceAccount", "name": RELEASE, "namespace": self.namespace} in binding["subjects"]
        }
        return frozenset(
            Right(role["metadata"].get("namespace", EVERYWHERE), group, resource, verb)
            for role in self.of("ClusterRole", "Role")
            if (role["kind"], role["metadata"].get("namespace"), role["metadata"]["name"]) in mine
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        )


def helm(*arguments: str) -> str:
    """What helm prints. Raises Refused; skips the test where helm cannot be built."""
    try:
        program = build("helm").program("helm")
    except Missing as missing:
        pytest.skip(f"helm cannot be built: {missing.reason}")
    command = [program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603  our own build
    if done.returncode != 0:
        raise Refused(done.stderr + done.stdout)
    return done.stdout


def values(given: Json) -> Sequence[str]:
    """Values as arguments of helm."""
    return [argument for key, value in given.items() for argument in ("--set-json", f"{key}={json.dumps(value)}")]


def render(given: Json | None = None, namespace: str = "gpu", *more: str) -> Rendered:
    """The chart with these values, CRDs left out. Raises Refused."""
    text = helm("template", RELEASE, str(CHART), "--namespace", namespace, *values(given or {}), *more)
    return Rendered([obj for obj in yaml.load_all(text, Loader=_LOADER) if obj], namespace)


def named(objects: Iterable[Json]) -> list[tuple[str, str | None, str]]:
    """Kind, namespace and name of each: what to delete again."""
    return [(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in objects]
