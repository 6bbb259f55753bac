"""The decision: `plan(snapshot, policy, memory) -> Decision(plan, memory)`. Pure: same input, same bytes out.

Rooms, in the order in which a decision passes them; each knows only those before it. `planner` lists the stages,
`recall` folds in what became of our writes, `resume` begins from older memory, `passing` previews a person's decision.

    asked     votes, demand (surge, cooldown), overrides, schedules, deferral
    seen      who holds what, into a scene; what the next plan would make again from equal values is kept
    guarded   what may go, and the refusals
    shared    each model's share by worth, then GPUs for every unit: donors, idle, loans
    given     moves past the guards (releases before grants), node grants, changes to write
    told      steps of every explanation, what is unmet, answers to overrides
"""

from rebalancer.planning.memo import Memo
from rebalancer.planning.planner import plan

__all__ = ["Memo", "plan"]
