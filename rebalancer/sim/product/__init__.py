"""The product in virtual time: its production cycle, planning, state and gate over a simulated cluster.

`play_product(scenario, policy)` gives the same `Record` as the fast path (sim.fluid.fast) does of a peer.
"""

from rebalancer.sim.product.fluid import FluidService
from rebalancer.sim.product.policy import default_policy
from rebalancer.sim.product.run import RunMetrics, play_product
from rebalancer.sim.product.stage import RecordedService, Serve
from rebalancer.sim.product.timing import PlanTimes

__all__ = ["FluidService", "PlanTimes", "RecordedService", "RunMetrics", "Serve", "default_policy", "play_product"]
