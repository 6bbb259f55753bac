"""What people do that looks right and hurts: each trap a pure function from a `Case` to verdicts.

`table.TRAPS` is their list, `table.judged` looks for all of them; the modules are named for what they look at.
"""
