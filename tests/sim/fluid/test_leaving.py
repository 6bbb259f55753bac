"""Who leaves a queue that nobody serves was never served, and is counted so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.fluid.serving import serve

PATIENCE = 30


def played(work: list[float], ready: list[int]) -> tuple[float, dict[str, np.ndarray]]:
    """The backlog at the end, and the rows; a request is a quarter of a replica-second."""
    arrives = np.array(work)
    rows = {name: np.zeros(len(work)) for name in ("wait", "late", "lost", "busy", "left")}
    backlog = 0.0
    for second, replicas in enumerate(ready):
        backlog = serve(
            arrives, 4.0 * arrives, second, second + 1, backlog, replicas, 2.0, 0.5, PATIENCE, np.inf, 0.0,
            *rows.values(),
        )  # fmt: skip
    return backlog, rows


def test_without_replicas_everybody_is_lost_whose_patience_has_ended() -> None:
    backlog, rows = played([1.0] * 100, [0] * 100)
    assert rows["lost"].tolist() == [4.0] * (100 - PATIENCE - 1) + [0.0] * (PATIENCE + 1)
    assert backlog == PATIENCE + 1
    assert rows["late"].sum() == 400.0


@given(
    st.lists(st.tuples(st.integers(0, 12).map(lambda n: n / 4), st.integers(0, 3)), min_size=1, max_size=12),
    st.integers(1, 25),
)
def test_what_came_is_done_or_lost_or_still_waits(spans: list[tuple[float, int]], seconds: int) -> None:
    work = [work for work, _ in spans for _ in range(seconds)]
    backlog, rows = played(work, [ready for _, ready in spans for _ in range(seconds)])
    assert rows["busy"].sum() + rows["lost"].sum() / 4.0 + backlog == pytest.approx(sum(work), abs=1e-6)
    assert (rows["lost"] <= 4.0 * np.array(work) + 1e-9).all()
