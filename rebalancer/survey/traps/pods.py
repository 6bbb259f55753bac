"""Traps in what workloads say about their pods."""

import re
from collections.abc import Iterator
from typing import Final

from rebalancer.survey.accelerators import accelerators
from rebalancer.survey.case import Case, TargetHome, address_of
from rebalancer.survey.finding import FAIL, WARN
from rebalancer.survey.landing import Elsewhere
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import items, mapped, part, text, value, whole
from rebalancer.survey.templates import Template
from rebalancer.survey.traps.trap import Trap, Verdict, found_if

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
NOTICE_SECONDS: Final = 90  # of a spot notice of 120 s some 30 s pass until a pod has its SIGTERM
OVER: Final = frozenset({"Failed", "Succeeded"})  # phases of pods that hold nothing any more
NAMED: Final = 3  # pods, before the others are only counted
_SLEEP = re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)([smh]?)\b")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def unequal_limits(case: Case) -> Iterator[Verdict]:
    """Extended resources cannot be overcommitted: the API server refuses the pod."""
    for template in case.gpu_templates:
        for container in template.containers:
            requests = accelerators(part(container, "resources", "requests"))
            most = accelerators(part(container, "resources", "limits"))
            wrong = {name: count for name, count in requests.items() if most.get(name) != count}
            for name, count in wrong.items():
                where = f"container {text(container, 'name') or 'without a name'}"
                limit = f"a limit of {most[name]}" if name in most else "no limit"
                problem = f"{where} requests {count} {name} with {limit}: the API server refuses such a pod"
                yield Verdict(template.owner, problem, f'{template.place}: limits."{name}": "{count}"')
            if not wrong:
                yield Verdict(template.owner)


def by_claims(case: Case) -> Iterator[Verdict]:
    """GPUs by claims are counted in a pool with a deviceClass alone."""
    for template in case.gpu_templates:
        counted = any(home.pool.device_class for home in case.homes(address_of(template.owner)))
        unknown = template.claims and not template.gpus and not counted
        problem = "its devices come by resourceClaims (DRA): how many GPUs a pod holds is not known to the rebalancer"
        fix = "say the deviceClass of its pool in the policy, leave it out of that, or ask for an extended resource"
        yield found_if(unknown, template.owner, problem, fix)


def other_gpus(case: Case) -> Iterator[Verdict]:
    """The policy's GPUs must be those of the template; how many come by claims no template says."""
    for template in case.templates:
        for home in case.homes(address_of(template.owner)):
            requested, wanted = template.devices.get(home.pool.resource, 0), home.model.gpus_per_pod
            if home.pool.device_class and not requested:
                continue
            model = home.model
            asks = f"its pods ask for {requested} {home.pool.resource}"
            problem = f"{asks}, and the policy has {wanted} for a pod of {model.id}"
            fix = f"models.{model.id}.gpusPerReplica: {requested * model.pods_per_replica}, or correct the template"
            yield found_if(requested != wanted, template.owner, problem, fix)


def absent_targets(case: Case) -> Iterator[Verdict]:
    """A name that is not right is a model that is never moved; nothing is known of a kind that was not listed."""
    if case.policy is None:
        return
    here, listed = {address_of(each) for each in case.survey.objects}, case.survey.listed
    for model in case.policy.models:
        for target in model.targets:
            if listed is not None and (target.of.group, target.kind) not in listed:
                continue
            obj = {"kind": target.kind, "metadata": {"namespace": model.namespace, "name": target.name}}
            problem = f"the policy names it for {model.id}, and it is not here"
            yield found_if(
                address_of(obj) not in here, obj, problem, f"correct models.{model.id}.targets, or add the manifest"
            )


def unpinned(case: Case) -> Iterator[Verdict]:
    """Without a selector the scheduler puts pods wherever there is a GPU, and nothing else keeps them away."""
    elsewhere = Elsewhere(case)
    for template in case.gpu_templates:
        owner = template.owner
        homes = case.homes(address_of(owner))
        for home in homes:
            lacks = _lacking(template, home)
            lands = elsewhere.of(template, home) if lacks else ""
            problem = f"nothing binds its pods to pool {home.pool.name}: they may land on {lands}"
            yield found_if(bool(lands), owner, problem, f"{template.place}.nodeSelector: {_yaml(lacks)}")
        if not homes:
            problem = "no nodeSelector and no required nodeAffinity: its pods land on any node with a free GPU"
            fix = f"{template.place}.nodeSelector: the nodeLabels of its pool"
            yield found_if(not template.pinned, owner, problem, fix)


def outside_their_pool(case: Case) -> Iterator[Verdict]:
    """Pods on another pool's nodes eat that pool's budget."""
    nodes = {text(each, "metadata", "name"): mapped(each, "metadata", "labels") for each in case.survey.of("Node", "")}
    for template in case.templates:
        for home in case.homes(address_of(template.owner)):
            live = [each for each in case.pods_of(template.owner) if text(each, "status", "phase") not in OVER]
            placed = [(pod, text(pod, "spec", "nodeName")) for pod in live]
            wanted = home.pool.node_labels.items()
            astray = [
                f"{text(pod, 'metadata', 'name')} on {node}"
                for pod, node in placed
                if node in nodes and not wanted <= nodes[node].items()
            ]
            more = f" and {len(astray) - NAMED} more" if len(astray) > NAMED else ""
            problem = f"outside pool {home.pool.name}: {', '.join(astray[:NAMED])}{more}"
            fix = f"{template.place}.nodeSelector: {_yaml(home.pool.node_labels)}"
            if placed:
                yield found_if(bool(astray), template.owner, problem, fix)


def never_disrupted_on_spot(case: Case) -> Iterator[Verdict]:
    """The cloud takes a spot node whatever its pods say."""
    for template in case.gpu_templates:
        forbids = template.annotations.get(DO_NOT_DISRUPT) == "true"
        problem = f"{DO_NOT_DISRUPT}: true on spot: the drain waits until the instance is cut off with its requests"
        fix = f'{template.place.removesuffix(".spec")}.metadata.annotations: {DO_NOT_DISRUPT}: "10m", or remove it'
        yield found_if(forbids and _on_spot(case, template), template.owner, problem, fix)


def grace_within_prestop(case: Case) -> Iterator[Verdict]:
    """The grace period runs from before the preStop hook."""
    for template in case.gpu_templates:
        waits = max((_pre_stop_seconds(each) for each in items(template.spec, "containers")), default=0.0)
        problem = (
            f"preStop takes {waits:g} s of a grace of {template.grace_seconds} s: "
            "the server is killed before it has ended its requests"
        )
        fix = f"{template.place}.terminationGracePeriodSeconds: {int(waits) + 30}"
        yield found_if(0 < waits >= template.grace_seconds, template.owner, problem, fix)


def grace_beyond_notice(case: Case) -> Iterator[Verdict]:
    """A spot notice is 120 s, and not all of it is left when a pod hears of it."""
    for template in case.gpu_templates:
        long = template.grace_seconds > NOTICE_SECONDS and _on_spot(case, template)
        problem = (
            f"a grace of {template.grace_seconds} s on spot, where a notice of 120 s leaves some {NOTICE_SECONDS} s"
        )
        yield found_if(
            long, template.owner, problem, f"{template.place}.terminationGracePeriodSeconds: {NOTICE_SECONDS}"
        )


def _on_spot(case: Case, template: Template) -> bool:
    pools = [home.pool for home in case.homes(address_of(template.owner))]
    return template.on_spot or any(pool.capacity_type == "spot" for pool in pools)


def _lacking(template: Template, home: TargetHome) -> dict[str, str]:
    wanted = home.pool.node_labels.items()
    return {key: label for key, label in wanted if template.node_labels.get(key) != frozenset({label})}


def _pre_stop_seconds(container: Object) -> float:
    hook = part(container, "lifecycle", "preStop")
    command = value(hook, "exec", "command")
    line = " ".join(map(str, command)) if isinstance(command, list) else ""
    spelled = [float(amount) * _UNITS[unit] for amount, unit in _SLEEP.findall(line)]
    return sum(spelled) + (whole(hook, "sleep", "seconds") or 0)


def _yaml(labels: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {label!r}" for key, label in labels.items()) + "}"


TRAPS: Final = (
    Trap(
        "gpu-limits",
        FAIL,
        "GPUs cannot be overcommitted: a request without an equal limit is refused.",
        "Make both equal, or give the limit alone.",
        unequal_limits,
    ),
    Trap(
        "claims",
        WARN,
        "GPUs by resource claims (DRA) are counted in a pool with a deviceClass alone: else unknown, which is not 0.",
        "Say the pool's deviceClass, leave the workload out of the policy, or ask for an extended resource.",
        by_claims,
    ),
    Trap(
        "policy-gpus",
        FAIL,
        "A pod that holds other GPUs than the policy says is planned wrongly; such moves are refused.",
        "Correct gpusPerReplica in the policy, or the template.",
        other_gpus,
    ),
    Trap(
        "absent-target",
        WARN,
        "A target that is not there is never moved, and nothing else about it is looked at.",
        "Correct its name or namespace.",
        absent_targets,
    ),
    Trap(
        "unpinned",
        WARN,
        "Without a node selector the scheduler puts pods on any node with a free GPU whose taints they tolerate.",
        "Give the pods the nodeLabels of their pool as nodeSelector.",
        unpinned,
    ),
    Trap(
        "outside-pool",
        WARN,
        "Pods on another pool's nodes take that pool's GPUs, and their own stays promised and empty.",
        "Give the pods the nodeLabels of their pool as nodeSelector.",
        outside_their_pool,
    ),
    Trap(
        "never-disrupt-on-spot",
        FAIL,
        "do-not-disrupt makes a drain wait; a spot node is taken away all the same, with the requests on it.",
        "Give it a duration, the time of a start, or remove it.",
        never_disrupted_on_spot,
    ),
    Trap(
        "grace-within-prestop",
        FAIL,
        "The grace period begins with the preStop hook, not after it: if that sleeps as long, nothing is left.",
        "Make the grace longer than the hook, by what the longest request takes.",
        grace_within_prestop,
    ),
    Trap(
        "grace-beyond-notice",
        WARN,
        "A spot notice is 120 s at AWS, of which some 90 s are left when a pod hears of it (30 s in all at Google).",
        "Keep the grace at 90 s or less, on spot.",
        grace_beyond_notice,
    ),
)
