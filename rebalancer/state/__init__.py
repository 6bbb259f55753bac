"""What is known: events go in one by one, one snapshot comes out. One writer, no clock, no I/O."""

from rebalancer.state.cluster import ClusterState

__all__ = ["ClusterState"]
