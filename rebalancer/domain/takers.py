"""Models that take what is idle, and what their pools are by that: GPUs there have a price, as where nodes can go."""

from rebalancer.domain.policy import Policy


def offering(policy: Policy) -> frozenset[str]:
    """Names of the pools in which some model takes what is idle."""
    takers = (model for model in policy.models if model.takes_idle)
    return frozenset(target.pool for model in takers for target in model.targets)
