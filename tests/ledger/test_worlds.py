"""The ledger on the random worlds of `tests.machine`, while their clusters fail: exact, and as the plan has it."""

import pytest

from rebalancer.ledger.books import Books, patience_seconds
from rebalancer.ledger.inventory import OWNED, inventory
from rebalancer.ledger.states import BORROWED, FOREIGN, LOADING, TERMINATING
from tests.machine.__main__ import history_of, played
from tests.machine.stage import Stage


@pytest.mark.parametrize("seed", [2, 4, 7])
def test_no_gpu_second_is_left_over_in_a_world_that_fails(seed: int) -> None:
    books, looked = Books(), []

    def look(stage: Stage, _deed: str) -> None:
        service = stage.service
        snapshot = service.state.peek(service.clock.now())
        seen = inventory(snapshot, service.policy)
        books.see(seen, patience_seconds(service.policy))
        looked.append(seen)
        assert sum(seen.held.values()) == sum(seen.capacity.values())

    played(history_of(seed), look)
    assert len(looked) > 20
    assert sum(books.charged.values()) > 0
    assert books.residual() == {}


@pytest.mark.parametrize("seed", [2, 7])
def test_pools_are_divided_as_the_plan_divides_them(seed: int) -> None:
    """Owned and lent by Ready replicas, what loads or ends, and what is foreign; the plan has no word for what ends."""
    compared = 0

    def look(stage: Stage, deed: str) -> None:
        nonlocal compared
        at = stage.service.clock.now()
        if deed or stage.decision is None or stage.decision.plan.at != at:  # a deed changes what the plan saw
            return
        seen = inventory(stage.service.state.peek(at), stage.service.policy)
        if seen.unknown:
            return
        for pool in stage.decision.plan.pools:
            mine = {
                state: sum(n for hold, n in seen.held.items() if hold.shelf.pool == pool.pool and hold.state == state)
                for state in (OWNED, BORROWED, LOADING, TERMINATING, FOREIGN)
            }
            if pool.budget is None:
                continue
            assert mine[OWNED] + mine[BORROWED] == pool.owned + pool.lent
            assert mine[LOADING] + mine[TERMINATING] == pool.loading
            assert mine[FOREIGN] == pool.foreign
            compared += 1

    played(history_of(seed), look)
    assert compared > 50
