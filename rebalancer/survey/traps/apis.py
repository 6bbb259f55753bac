"""Traps in API versions and fields that are gone, or were never final."""

from collections.abc import Iterator
from typing import Final

from rebalancer.survey.case import Case
from rebalancer.survey.finding import FAIL, WARN
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import items, part, text
from rebalancer.survey.templates import templates_of
from rebalancer.survey.traps.trap import Trap, Verdict, found_if

REMOVED: Final = {  # apiVersion -> where it ended, and what follows it
    "resource.k8s.io/v1alpha1": ("Kubernetes 1.27", "resource.k8s.io/v1"),
    "resource.k8s.io/v1alpha2": ("Kubernetes 1.31", "resource.k8s.io/v1"),
    "karpenter.sh/v1alpha5": ("Karpenter 0.33", "karpenter.sh/v1 NodePool"),
    "karpenter.sh/v1beta1": ("Karpenter 1.1", "karpenter.sh/v1"),
    "karpenter.k8s.aws/v1alpha1": ("Karpenter 0.33", "karpenter.k8s.aws/v1 EC2NodeClass"),
    "karpenter.k8s.aws/v1beta1": ("Karpenter 1.1", "karpenter.k8s.aws/v1"),
    "policy/v1beta1": ("Kubernetes 1.25", "policy/v1"),
    "autoscaling/v2beta1": ("Kubernetes 1.25", "autoscaling/v2"),
    "autoscaling/v2beta2": ("Kubernetes 1.26", "autoscaling/v2"),
}
EARLY: Final = {
    "resource.k8s.io/v1alpha3": "resource.k8s.io/v1",
    "resource.k8s.io/v1beta1": "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2": "resource.k8s.io/v1",
}
"""Versions from before general availability, which Kubernetes 1.34 brought; clusters may serve them or not."""

_GROUPS = frozenset(each.partition("/")[0] for each in (*REMOVED, *EARLY))


def unfilled(case: Case) -> Iterator[Verdict]:
    """What a template was to fill in stands there as it was: `name: {model}` is a mapping to YAML.

    A file of neither metadata nor spec is for no API server: a kustomization.yaml, or our own policy.
    """
    for obj in case.survey.objects:
        name = text(obj, "metadata", "name") or text(obj, "metadata", "generateName")
        if not name and ("metadata" in obj or "spec" in obj):
            problem = "metadata.name is no name: a placeholder was not filled in, or there is none"
            yield Verdict(obj, problem, "metadata.name: its name")


def removed_versions(case: Case) -> Iterator[Verdict]:
    """Versions that no supported cluster serves."""
    for obj in _of_groups(case):
        version = text(obj, "apiVersion")
        ended, instead = REMOVED.get(version, ("", ""))
        problem = f"{version} was removed in {ended}: the API server does not know it"
        yield found_if(version in REMOVED, obj, problem, f"apiVersion: {instead}")


def early_versions(case: Case) -> Iterator[Verdict]:
    """DRA from before it was final."""
    for obj in _of_groups(case):
        version = text(obj, "apiVersion")
        if version.startswith("resource.k8s.io/"):
            problem = f"{version} is from before DRA was final (Kubernetes 1.34), and newer clusters need not serve it"
            yield found_if(version in EARLY, obj, problem, f"apiVersion: {EARLY.get(version)}")


def removed_fields(case: Case) -> Iterator[Verdict]:
    """Fields of early DRA and of Karpenter before v1, wherever they still stand."""
    for pool in case.survey.of("NodePool", "karpenter.sh"):
        policy = text(pool, "spec", "disruption", "consolidationPolicy")
        problem, fix = "", ""
        if policy == "WhenUnderutilized":
            problem = "consolidationPolicy WhenUnderutilized is of v1beta1"
            fix = "spec.disruption.consolidationPolicy: WhenEmptyOrUnderutilized"
        elif "expireAfter" in part(pool, "spec", "disruption"):
            problem, fix = "spec.disruption.expireAfter is of v1beta1", "spec.template.spec.expireAfter"
        elif "kubelet" in part(pool, "spec", "template", "spec"):
            problem, fix = "spec.template.spec.kubelet is of v1beta1", "spec.kubelet of its EC2NodeClass"
        yield found_if(bool(problem), pool, f"{problem}: Karpenter's v1 does not know it", fix)
    for claim in (*case.survey.of("ResourceClaim"), *case.survey.of("ResourceClaimTemplate")):
        early = any("resourceClassName" in part(claim, *path) for path in (("spec",), ("spec", "spec")))
        problem = "resourceClassName is of early DRA: there are no ResourceClasses, and nothing allocates the claim"
        yield found_if(early, claim, problem, "spec.devices.requests[] with a deviceClassName")
    for obj in case.survey.objects:
        for template in templates_of(obj):
            claims = items(template.spec, "resourceClaims")
            problem = "resourceClaims[].source is of early DRA: the API server drops it, and the pod gets no device"
            fix = f"{template.place}.resourceClaims[].resourceClaimTemplateName"
            if claims:
                yield found_if(any("source" in each for each in claims), obj, problem, fix)


def _of_groups(case: Case) -> Iterator[Object]:
    return (each for each in case.survey.objects if text(each, "apiVersion").partition("/")[0] in _GROUPS)


TRAPS: Final = (
    Trap(
        "unfilled",
        FAIL,
        "An object without a name, or with a placeholder for one, is refused.",
        "Fill the template in before it is judged.",
        unfilled,
    ),
    Trap(
        "removed-version",
        FAIL,
        "No supported cluster serves the API version.",
        "Move to the version that follows it.",
        removed_versions,
    ),
    Trap(
        "early-version",
        WARN,
        "DRA was final in Kubernetes 1.34; versions from before need not be served.",
        "Move to resource.k8s.io/v1.",
        early_versions,
    ),
    Trap(
        "removed-field",
        FAIL,
        "The field is of an earlier version of the API, which drops or refuses it today.",
        "Write what follows it.",
        removed_fields,
    ),
)
