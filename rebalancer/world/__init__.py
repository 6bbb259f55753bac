"""The simulated cluster: what Kubernetes, Karpenter and the served models would do, in the time it is given.

`World` has the controls of a cluster (scale, delete, interrupt) and shows what came of them: things that changed,
and metric samples. It reads no clock and knows no HTTP; the sandbox mirrors it into an API, the simulator asks it
directly. The same seed and the same commands give the same world.
"""

from rebalancer.world.faults import Faults
from rebalancer.world.karpenter import WorldNodeClaim, WorldNodePool
from rebalancer.world.service import Look, ServedModel
from rebalancer.world.serving import Engine, Requests
from rebalancer.world.things import Deployment, WorldHpa, WorldNode, WorldPod, WorldScaledObject
from rebalancer.world.traffic import Dial, Traffic
from rebalancer.world.world import World

__all__ = [
    "Deployment",
    "Dial",
    "Engine",
    "Faults",
    "Look",
    "Requests",
    "ServedModel",
    "Traffic",
    "World",
    "WorldHpa",
    "WorldNode",
    "WorldNodeClaim",
    "WorldNodePool",
    "WorldPod",
    "WorldScaledObject",
]
