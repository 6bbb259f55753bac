"""What `rebalancer simulate` does: traffic that was recorded or has a name, under one or two contenders.

A trace becomes a scenario (recorded, named), a contender plays it (contenders, ours), and what came of it is summed up
(outcome), told (telling), and compared (contest).
"""
