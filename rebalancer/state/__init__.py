"""State: Kubernetes objects and metrics go in event by event, one snapshot comes out. One writer, no clock, no I/O."""

from rebalancer.state.cluster import ClusterState

__all__ = ["ClusterState"]
