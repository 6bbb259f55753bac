"""The decision: `plan(snapshot, policy, memory) -> Decision(plan, memory)`. Pure: same input, same bytes out.

`decide` is `plan` in two steps: what is to be written first, and its explanation when somebody has the time. The
service asks `plan_apart` and `decide_apart`: what fails on some pools is told there, and the others are planned.

Rooms, in the order in which a decision passes them; each imports only from those before it, and no stage changes what
an earlier one returned. `planner` lists the stages, `guard_preview` shows a person what guards would say, `memo` keeps
what the next plan would make again from equal values.

    memory        what became of our writes, which node grants are open, what is an outage; a start from older memory
    overrides     what people and schedules rule
    facts         who holds what, which nodes have room, what is doomed: a `Scene` of `ModelFacts`
    demand        votes and outlook, what is owed, what may wait: `ModelNeed`
    shares        each model's share of the GPUs by worth: `ModelShare`
    guards        the rules themselves: allocation asks them while it looks for donors, actions ask them for each move
    allocation    GPUs for every unit: donors, idle GPUs, loans
    actions       moves past the guards (releases before grants), node grants, changes to write
    explanation   steps of every explanation, what is unmet, answers to overrides
"""

from rebalancer.planning.apart import decide_apart, plan_apart
from rebalancer.planning.memo import Memo
from rebalancer.planning.planner import Unexplained, decide, plan

__all__ = ["Memo", "Unexplained", "decide", "decide_apart", "plan", "plan_apart"]
