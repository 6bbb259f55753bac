"""What a look at a cluster has found, one thing each."""

from typing import Final

from msgspec import Struct

OK: Final = "ok"
SKIP: Final = "skip"
WARN: Final = "warn"
FAIL: Final = "FAIL"

STATES: Final = (FAIL, WARN, SKIP, OK)
"""Worst first. `skip`: nobody looked, which is neither good nor bad."""


class Finding(Struct, frozen=True):
    """One check.

    state: one of STATES.
    about: what was looked at, as people name it: `scaledobject/serving/chat`, or a part of the service.
    said: one sentence about what was found, "" when all is well and there is nothing to tell.
    fix: what to do: a field and its value, or a command; "" when there is nothing to do.
    trap: the key of the trap that was looked for, "" for a check of the service itself.
    docs: where the trap is described, "" without one.
    file: the manifest that holds the object, "" in a live cluster.
    """

    state: str
    about: str
    said: str
    fix: str = ""
    trap: str = ""
    docs: str = ""
    file: str = ""
