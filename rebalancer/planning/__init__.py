"""The decision: `plan(snapshot, policy, memory) -> Decision(plan, memory)`. Pure: same input, same bytes out.

Stages, in the order of the modules that hold them: `recall` (what became of our writes) -> `rulings` (overrides) ->
`sight` (who holds what, into a `scene`) -> `votes` -> `demand` (surge, cooldown) -> `shares` (by `curves`, within
`places`) -> `allocation` (`donors`, `idle`) -> `nodes` -> `guards` and `moves` (what is left) -> `changes` (releases
before grants) -> `loans`, `explain`. What the next plan would make again from equal values is in `kept`.
"""

from rebalancer.planning.kept import Kept
from rebalancer.planning.planner import plan

__all__ = ["Kept", "plan"]
