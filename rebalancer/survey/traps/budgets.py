"""Traps in PodDisruptionBudgets and ResourceQuotas."""

from collections import defaultdict
from collections.abc import Iterator
from math import ceil
from typing import Final

from rebalancer.domain.gpu_shapes import is_accelerator
from rebalancer.survey.case import Case, address_of
from rebalancer.survey.finding import FAIL, WARN
from rebalancer.survey.objects import Object, address
from rebalancer.survey.parts import namespace, number, part, text, whole
from rebalancer.survey.templates import Template
from rebalancer.survey.traps.trap import Trap, Verdict, found_if


def blocking(case: Case) -> Iterator[Verdict]:
    """A budget that allows no eviction at all stops every drain."""
    for budget, pods in _budgets(case):
        most, least = text(budget, "spec", "maxUnavailable"), text(budget, "spec", "minAvailable")
        why = ""
        if most in {"0", "0%"}:
            why = f"maxUnavailable {most}"
        elif least == "100%":
            why = "minAvailable 100%"
        for template in pods if not why else ():
            fewest = case.fewest(template)
            if fewest and _needed(least, fewest) >= fewest:
                why = f"minAvailable {least} of {address(template.owner)}, which may have {fewest}"
        problem = f"{why} allows no eviction: a drain waits until the node is cut off with its requests"
        yield found_if(bool(why), budget, problem, "remove spec.minAvailable; spec.maxUnavailable: 1")


def _needed(least: str, pods: int) -> int:
    """Pods that `minAvailable` keeps of so many: a number, or a percentage that Kubernetes rounds up."""
    share = number(least.removesuffix("%"))
    if share is None:
        return 0
    return ceil(share * pods / 100) if least.endswith("%") else int(share)


def doubled(case: Case) -> Iterator[Verdict]:
    """The eviction API takes one budget for a pod."""
    budgets = list(_budgets(case))
    by_owner: dict[int, list[Object]] = defaultdict(list)
    for budget, pods in budgets:
        for owner in {id(each.owner) for each in pods}:
            by_owner[owner].append(budget)
    for budget, pods in budgets:
        beside = {address(other) for each in pods for other in by_owner[id(each.owner)]} - {address(budget)}
        problem = f"selects pods that {' and '.join(sorted(beside))} selects too: every eviction ends with an error 500"
        fix = f"keep one: kubectl -n {namespace(budget)} delete pdb/{text(budget, 'metadata', 'name')}"
        yield found_if(bool(beside), budget, problem, fix)


def quota_below_maximum(case: Case) -> Iterator[Verdict]:
    """A quota refuses pods without a word in the Deployment."""
    for quota in case.survey.of("ResourceQuota", ""):
        hard = part(quota, "spec", "hard")
        for key in map(str, hard):
            resource = key.removeprefix("requests.")
            limit = whole(hard, key)
            if resource == key or limit is None or not is_accelerator(resource):
                continue
            most = _most_gpus(case, namespace(quota), resource)
            problem = (
                f"{key} {limit} is below the {most} that the maxima in its namespace come to: pods will be refused"
            )
            yield found_if(limit < most, quota, problem, f'spec.hard."{key}": "{most}"')


def _budgets(case: Case) -> Iterator[tuple[Object, list[Template]]]:
    """Budgets over accelerators with the pods they select; also one that selects nothing that is known here."""
    for budget in case.survey.of("PodDisruptionBudget", "policy"):
        pods = case.selected(budget)
        if any(each.on_gpus for each in pods) or not (pods or case.any_near(budget)):
            yield budget, pods


def _most_gpus(case: Case, space: str, resource: str) -> int:
    """GPUs of a namespace when all have their maximum: by the policy, else by autoscalers, else by replicas.

    What the policy names never has more than its pools' gpuLimits.
    """
    total = 0
    if case.policy is not None:
        pools = {pool.name: pool for pool in case.policy.pools if pool.resource == resource}
        models = [each for each in case.policy.models if each.namespace == space and each.targets[0].pool in pools]
        wanted = sum(model.max_replicas * model.gpus_per_replica for model in models)
        total = min(wanted, sum(pool.gpu_limit for pool in pools.values()))
    for template in case.gpu_templates:
        where = address_of(template.owner)
        if where.namespace == space and not case.homes(where):
            scalers = case.scalers.get(where, [])
            maxima = [whole(each, "spec", "maxReplicaCount") or whole(each, "spec", "maxReplicas") for each in scalers]
            count = max((each for each in maxima if each), default=whole(template.owner, "spec", "replicas"))
            total += (1 if count is None else count) * template.gpus.get(resource, 0)
    return total


TRAPS: Final = (
    Trap(
        "blocking-budget",
        FAIL,
        "A PodDisruptionBudget that allows no eviction holds every drain of a node; spot is cut off all the same.",
        "maxUnavailable 1, or a minimum below the floor.",
        blocking,
    ),
    Trap(
        "two-budgets",
        FAIL,
        "The eviction API does not support two PodDisruptionBudgets on one pod: every eviction ends with an error 500.",
        "Keep one of them.",
        doubled,
    ),
    Trap(
        "quota",
        WARN,
        "A ResourceQuota below what the maxima ask for refuses pods, and only an event of their ReplicaSet says so.",
        "Raise the quota, or lower the maxima.",
        quota_below_maximum,
    ),
)
