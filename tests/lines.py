"""What work costs in lines that run: a loop within one line counts each time, and a busy machine changes nothing."""

import sys
from collections.abc import Callable
from types import FrameType

Tracer = Callable[[FrameType, str, object], "Tracer"]


def lines(work: Callable[[], object]) -> int:
    """Lines of Python that `work` runs."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> Tracer:
        nonlocal count
        count += event == "line"
        return counted

    before = sys.gettrace()
    sys.settrace(counted)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
