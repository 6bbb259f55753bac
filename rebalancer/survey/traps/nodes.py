"""Traps in Karpenter's NodePools and in nodes. Facts are from `pkg/apis/v1` of Karpenter's core, August 2026."""

from collections.abc import Iterator
from typing import Final

from rebalancer.domain.digits import whole_number
from rebalancer.survey.accelerators import accelerators, devices
from rebalancer.survey.case import Case, address_of
from rebalancer.survey.finding import WARN
from rebalancer.survey.node_pools import allowed, brings_gpus, families
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import duration_seconds, items, mapped, part, text
from rebalancer.survey.traps.pods import DO_NOT_DISRUPT
from rebalancer.survey.traps.trap import Trap, Verdict, found_if

CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
ASSUMED_START_SECONDS: Final = 300.0
"""What a start is taken for where neither a policy nor the service tells: image, weights and warm-up take minutes."""

GPU_OF_FAMILY: Final = {
    "g4dn": "T4",
    "g5": "A10G",
    "g5g": "T4G",
    "g6": "L4",
    "gr6": "L4",
    "g6e": "L40S",
    "p3": "V100 16 GiB",
    "p3dn": "V100 32 GiB",
    "p4d": "A100 40 GiB",
    "p4de": "A100 80 GiB",
    "p5": "H100",
    "p5e": "H200",
    "p5en": "H200",
}
"""GPUs of EC2 families; a family that is not here counts as a shape of its own."""

CRON_FIELDS: Final = 5  # minute, hour, day, month, weekday; `@daily` and its like are one word

_SHAPE_KEYS = (
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
    "cloud.google.com/gke-accelerator",
    "nvidia.com/gpu.product",
)


def consolidated_while_loading(case: Case) -> Iterator[Verdict]:
    """Karpenter must not take a node away while a replica still loads on it."""
    for pool in _gpu_pools(case):
        disruption = part(pool, "spec", "disruption")
        after = text(disruption, "consolidateAfter") or "0s"
        policy = text(disruption, "consolidationPolicy") or "WhenEmptyOrUnderutilized"
        seconds, (start, whence) = duration_seconds(after), _start(case, pool)
        short = policy != "WhenEmpty" and seconds is not None and seconds < start
        problem = (
            f"consolidateAfter {after} < load time {_span(start)} ({whence}): nodes go while replicas load on them"
        )
        long = f"{int(start // 60) + 2}m"
        fix = f'spec.disruption.consolidateAfter: {long}, or on the pods\' templates {DO_NOT_DISRUPT}: "{long}"'
        yield found_if(short and not _spared(case, pool, start), pool, problem, fix)


def _spared(case: Case, node_pool: Object, seconds: float) -> bool:
    """Whether Karpenter spares all replicas that the policy puts there while they load, by their own annotation.

    It counts the duration from a pod's start, so a template can carry it, and a pod that serves is not kept by it.
    """
    name = text(node_pool, "metadata", "name")
    here = [
        template
        for template in case.gpu_templates
        if any(name in home.pool.node_pools for home in case.homes(address_of(template.owner)))
    ]
    spared = (template.annotations.get(DO_NOT_DISRUPT, "0s") for template in here)
    return bool(here) and all(each == "true" or (duration_seconds(each) or 0.0) >= seconds for each in spared)


def mixed_shapes(case: Case) -> Iterator[Verdict]:
    """A pool is GPUs of one shape: one replica cannot fit 24, 40 and 80 GB."""
    for pool in _gpu_pools(case):
        shapes = sorted(_shapes(pool))
        problem = (
            f"brings nodes of {len(shapes)} GPU shapes: {', '.join(shapes)}; a model sized for one does not fit another"
        )
        yield found_if(len(shapes) > 1, pool, problem, "a NodePool for each shape, each behind a pool of its own")


def mixed_capacity(case: Case) -> Iterator[Verdict]:
    """A pool of the policy has one capacity type; Karpenter takes what is reserved first, then spot, then on-demand."""
    for pool in _gpu_pools(case):
        types = allowed(pool, CAPACITY_TYPE)
        both = "spot" in types and len(types) > 1
        order = "spot comes once reservations are used up" if "reserved" in types else "spot comes first"
        problem = f"brings {' and '.join(sorted(types))}: {order}, and floors may stand on what is taken back"
        yield found_if(both, pool, problem, "a NodePool for spot (elastic) and one for the others (primary)")


def waits_for_ever(case: Case) -> Iterator[Verdict]:
    """Without a terminationGracePeriod a drain waits for whatever blocks it, also on spot."""
    for pool in _gpu_pools(case):
        spot = "spot" in allowed(pool, CAPACITY_TYPE)
        grace = text(pool, "spec", "template", "spec", "terminationGracePeriod")
        problem = (
            "spot without terminationGracePeriod: a pod that blocks its drain holds a doomed node until it is cut off"
        )
        yield found_if(
            spot and not grace, pool, problem, "spec.template.spec.terminationGracePeriod: 2m (replaces its nodes)"
        )


def budgets_in_utc(case: Case) -> Iterator[Verdict]:
    """Karpenter reads the schedules of disruption budgets in UTC."""
    for pool in _gpu_pools(case):
        for place, budget in enumerate(items(pool, "spec", "disruption", "budgets")):
            cron = text(budget, "schedule").split()
            hours = len(cron) == CRON_FIELDS and cron[1] != "*"
            problem = f"disruption budget {place} begins at {' '.join(cron)} in UTC: Karpenter knows no other zone"
            fix = f"spec.disruption.budgets[{place}].schedule: your hours in UTC, and again when clocks change"
            yield found_if(hours, pool, problem, fix)


def shared_gpus(case: Case) -> Iterator[Verdict]:
    """A slice of time is no GPU, where the pool's policy does not count it as one."""
    for node in case.survey.of("Node", ""):
        labels = mapped(node, "metadata", "labels")
        strategy, copies = (
            labels.get("nvidia.com/gpu.sharing-strategy", "none"),
            labels.get("nvidia.com/gpu.replicas", "1"),
        )
        shared = strategy not in {"none", ""} or (whole_number(copies) or 0) > 1
        if labels.get("nvidia.com/gpu.present") == "true" or shared:
            times = "several" if copies == "1" else copies
            problem = f"each of its GPUs is offered {times} times ({strategy}): no share counts as a GPU"
            fix = "say `isolation: soft` in their pool, where shares are to count; else leave them out"
            counted = any(pool.isolation == "soft" for pool in case.pools_of(node))
            yield found_if(shared and not counted, node, problem, fix)


def no_gpus_offered(case: Case) -> Iterator[Verdict]:
    """A node that has GPUs and offers none: a device plugin that is not there, a renamed resource, or DRA."""
    for node in case.survey.of("Node", ""):
        allocatable = part(node, "status", "allocatable")
        if mapped(node, "metadata", "labels").get("nvidia.com/gpu.present") == "true" and allocatable:
            problem = (
                "has GPUs by its labels, and its allocatable has none: no device plugin, a renamed resource, or DRA"
            )
            fix = "look at the pods of its device plugin, set the pool's resource, or its deviceClass"
            counted = any(pool.device_class or devices(allocatable).get(pool.resource) for pool in case.pools_of(node))
            yield found_if(not counted and not any(accelerators(allocatable).values()), node, problem, fix)


def _gpu_pools(case: Case) -> Iterator[Object]:
    """NodePools that bring accelerators by their own words or the policy's."""
    named = case.node_pools.union(*(each.node_pools for each in case.policy.pools) if case.policy else ())
    for pool in case.survey.of("NodePool", "karpenter.sh"):
        if brings_gpus(pool) or text(pool, "metadata", "name") in named:
            yield pool


def _shapes(pool: Object) -> set[str]:
    by_name = set().union(*(allowed(pool, key) for key in _SHAPE_KEYS))
    return by_name or {GPU_OF_FAMILY.get(each, each) for each in families(pool)}


def _start(case: Case, pool: Object) -> tuple[float, str]:
    """Seconds that a replica takes to start on this NodePool's nodes, and who says so."""
    if case.start_seconds is not None:
        return case.start_seconds, "measured"
    if case.policy is None:
        return ASSUMED_START_SECONDS, "assumed; --policy tells"
    name = text(pool, "metadata", "name")
    pools = {each.name for each in case.policy.pools if name in each.node_pools}
    there = [model for model in case.policy.models if any(each.pool in pools for each in model.targets)]
    if not there:
        return ASSUMED_START_SECONDS, "assumed; the policy has no model there"
    return max(model.load_seconds for model in there), "by the policy"


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


TRAPS: Final = (
    Trap(
        "consolidation",
        WARN,
        "Karpenter takes an underutilized node that had no pod come or go for consolidateAfter; a replica that loads "
        "longer is on such a node.",
        "Make consolidateAfter longer than the longest start; or let the pods' templates say so themselves: Karpenter "
        "1.12 and later spares a pod for the duration in its annotation `karpenter.sh/do-not-disrupt`, from its start.",
        consolidated_while_loading,
    ),
    Trap(
        "mixed-shapes",
        WARN,
        "A NodePool of several GPU shapes brings whichever is cheap; a pool is GPUs of one shape.",
        "One NodePool for each shape.",
        mixed_shapes,
    ),
    Trap(
        "mixed-capacity",
        WARN,
        "Karpenter takes what is reserved first, then spot, then on-demand, as far as a NodePool allows it: a floor "
        "may stand on what the cloud takes back.",
        "One NodePool for spot, one for the rest.",
        mixed_capacity,
    ),
    Trap(
        "endless-drain",
        WARN,
        "Without terminationGracePeriod Karpenter waits for blocked pods as long as the node stands.",
        "Set it on spot NodePools; a change replaces their nodes.",
        waits_for_ever,
    ),
    Trap(
        "utc-budget",
        WARN,
        "Schedules of disruption budgets are UTC; Karpenter knows no other zone and no daylight saving.",
        "Convert your hours; if that is done, all is well.",
        budgets_in_utc,
    ),
    Trap(
        "shared-gpus",
        WARN,
        "With time-slicing or MPS a node offers each GPU several times; a share counts in a soft pool alone.",
        "Give shared GPUs a pool of their own with `isolation: soft`.",
        shared_gpus,
    ),
    Trap(
        "no-gpus-offered",
        WARN,
        "A node that has GPUs and offers none has no capacity for anybody.",
        "Look at its device plugin, and at the pool's resource.",
        no_gpus_offered,
    ),
)
