"""Traps in what adds and removes nodes beside a NodePool's own fields."""

from collections.abc import Iterator
from typing import Final

from rebalancer.survey.accelerators import accelerators
from rebalancer.survey.case import Case
from rebalancer.survey.finding import WARN
from rebalancer.survey.parts import part, text, whole
from rebalancer.survey.traps.trap import Trap, Verdict, found_if

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def fixed_number_of_nodes(case: Case) -> Iterator[Verdict]:
    """No pod brings a node to a static NodePool, so no grant can."""
    named = frozenset(name for pool in case.policy.pools for name in pool.node_pools) if case.policy else frozenset()
    for pool in case.survey.of("NodePool", "karpenter.sh"):
        count, name = whole(pool, "spec", "replicas"), text(pool, "metadata", "name")
        problem = f"has {count} nodes by spec.replicas, whatever waits: the policy names it, and no grant is made there"
        yield found_if(
            count is not None and name in named,
            pool,
            problem,
            "leave it out of the pool's nodePools, or name one that grows",
        )


def overlaid_nodes(case: Case) -> Iterator[Verdict]:
    """Karpenter believes an overlay; pods, and we, find what the node offers."""
    for overlay in case.survey.of("NodeOverlay", "karpenter.sh"):
        promised = accelerators(part(overlay, "spec", "capacity"))
        problem = (
            f"promises {', '.join(sorted(promised))}: Karpenter launches for it and counts it towards limits; what no"
            " device plugin offers then is no GPU, and pods wait"
        )
        fix = "leave accelerators out of spec.capacity, unless a device plugin brings as many"
        yield found_if(any(promised.values()), overlay, problem, fix)


def kept_from_removal(case: Case) -> Iterator[Verdict]:
    """Cluster Autoscaler removes no node on which such a pod stands."""
    for template in case.gpu_templates:
        not_evicted = template.annotations.get(SAFE_TO_EVICT) == "false"
        problem = (
            f"{SAFE_TO_EVICT}: false: Cluster Autoscaler never removes the node of such a pod, however idle its GPUs"
        )
        fix = "a PodDisruptionBudget in its place: replicas then move one by one, and the node goes"
        yield found_if(not_evicted, template.owner, problem, fix)


TRAPS: Final = (
    Trap(
        "static-capacity",
        WARN,
        "A NodePool with spec.replicas has that number of nodes; pending pods bring none.",
        "Count it as a fixed pool: leave it out of nodePools.",
        fixed_number_of_nodes,
    ),
    Trap(
        "overlay-capacity",
        WARN,
        "A NodeOverlay tells Karpenter of GPUs; nobody brings them to the node by that.",
        "Let an overlay change prices, not accelerators.",
        overlaid_nodes,
    ),
    Trap(
        "never-removed",
        WARN,
        "safe-to-evict: false keeps Cluster Autoscaler from the node, so GPUs that were given back stay paid for.",
        "Use a PodDisruptionBudget instead.",
        kept_from_removal,
    ),
)
