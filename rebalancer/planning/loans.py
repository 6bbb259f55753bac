"""Who lends to whom: a replica beyond entitlement holds borrowed GPUs, booked to an owner, ended last in, first out."""

from collections import Counter, defaultdict

from rebalancer.domain.memory import Loan
from rebalancer.planning.scene import Holder, Scene


def book(scene: Scene) -> tuple[Loan, ...]:
    """Loans that match what is held now: new ones to the owner with most unused entitlement (ties by id)."""
    before: dict[str, list[Loan]] = defaultdict(list)
    for loan in scene.memory.loans:
        before[loan.borrower].append(loan)
    loans: list[Loan] = []
    unbooked: list[tuple[Holder, str, int]] = []
    for name, holder in scene.holders.items():
        for pool, count in _borrowed(holder).items():
            kept = sorted((loan for loan in before[name] if loan.pool == pool), key=lambda loan: loan.at)[:count]
            loans += kept
            if count > len(kept):
                unbooked.append((holder, pool, count - len(kept)))
    lent = Counter(loan.owner for loan in loans)
    for holder, pool, count in sorted(unbooked, key=lambda each: (each[0].model.id, each[1])):
        for _ in range(count):
            owner = _lender(scene, pool, holder, lent)
            lent[owner] += 1
            loans.append(Loan(holder.model.id, owner, pool, holder.model.gpus_per_replica, scene.now))
    return tuple(sorted(loans, key=lambda loan: (loan.at, loan.borrower, loan.pool, loan.owner or "")))


def _borrowed(holder: Holder) -> dict[str, int]:
    """Replicas beyond entitlement per pool: the last of its pools hold them first."""
    beyond = holder.held - holder.model.entitlement
    found: dict[str, int] = {}
    for part in reversed(holder.parts):
        here = min(beyond, part.held)
        if here > 0:
            found[part.pool] = here
            beyond -= here
    return found


def _lender(scene: Scene, pool: str, borrower: Holder, lent: Counter[str | None]) -> str | None:
    """The owner on this pool with most unused entitlement; None on elastic pools: nobody's GPUs."""
    state = scene.pools.get(pool)
    if state is None or state.pool.kind != "primary":
        return None
    unused = [
        (holder.held + lent[name] - holder.model.entitlement, name)
        for name, holder in scene.holders.items()
        if holder is not borrower and any(part.pool == pool for part in holder.parts)
    ]
    best = min(unused, default=(0, ""))
    return best[1] if best[0] < 0 else None
