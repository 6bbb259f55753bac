"""What the service tells Prometheus, and what is made from it: reference page, alert rules, dashboard."""

from rebalancer.obs.metrics.figure import Figure
from rebalancer.obs.metrics.registry import Metrics

__all__ = ["Figure", "Metrics"]
