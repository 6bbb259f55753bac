"""Models and jobs that take idle GPUs, and their pools: GPUs have a price there, as where nodes can go."""

from rebalancer.domain.policy import Policy


def offering(policy: Policy) -> frozenset[str]:
    """Names of the pools in which some model takes what is idle, or jobs do."""
    takers = (model for model in policy.models if model.takes_idle)
    by_models = frozenset(target.pool for model in takers for target in model.targets)
    return by_models | {pool.name for pool in policy.pools if pool.preemptible_priority_classes}
