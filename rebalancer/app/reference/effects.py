"""The page of all side effects, made of the tables beside the doors."""

from rebalancer.app.effects import EFFECTS
from rebalancer.app.reference.table import code, table

_INTRO = """\
# Side effects

Whatever the service changes outside of its own memory passes one of these, by name. Nothing else is written: no code of
it writes beside them (`tests/house/test_doors.py`), the account's rights that the chart gives are these
(`tests/chart/test_effects.py`), and what a run writes is in this list (`tests/real/test_crash_points.py`). Not the
service's, and so without a name, is what a command does for who typed it: the record of `rebalancer notice add`, the
topics and rights of `rebalancer topics --create`, the token of `rebalancer login`, the files that it is told to write.

`REBALANCER_CRASH_AT=EFFECT:NTH:before` kills the process, as the kernel would, just before the NTH time of that effect;
`after` once it has been acknowledged. Each effect is then a line of the log, too. It is for tests: without
`REBALANCER_DEV=true` the service does not start with it. What the next process does with what it finds is told in
[what survives a restart](../restart.md).
"""


def effects_page() -> str:
    """The page."""
    return _INTRO + "\n" + table(("effect", "changes"), ((code(name), what) for name, what in EFFECTS.items()))
