"""What must hold of the suite's own rows."""

from collections.abc import Iterator, Sequence

from rebalancer.sim.suite.names import called
from rebalancer.sim.suite.row import BOUND, Row


def bound_kept(rows: Sequence[Row]) -> Iterator[tuple[bool, str]]:
    """For each row with a bound beside it: whether its late work is not below the bound's, and both numbers."""
    bounds = {_case(row): row.late_work_share for row in rows if row.controller == BOUND}
    for row in rows:
        least = bounds.get(_case(row))
        if least is None or row.late_work_share is None or row.controller == BOUND:
            continue
        who = f"{row.scenario} {row.day} {row.gpus} {row.start_seconds or '-'} {called(row)}"
        numbers = f"{who}: {100 * row.late_work_share:.3f} % late work, bound {100 * least:.3f} %"
        yield row.late_work_share >= least, numbers


def _case(row: Row) -> tuple[object, ...]:
    return row.scenario, row.day, row.gpus, row.start_seconds, row.seed
