"""Who lends to whom: a replica beyond entitlement holds borrowed GPUs, booked to an owner, ended last in, first out."""

from collections import Counter

from rebalancer.domain.memory import Loan
from rebalancer.planning.scene import Holder, Scene


def book(scene: Scene) -> tuple[Loan, ...]:
    """Loans that match what is held now: new ones to the owner with most unused entitlement (ties by id)."""
    loans: list[Loan] = []
    for name in sorted(scene.holders):
        loans += _of_borrower(scene.holders[name], [loan for loan in scene.memory.loans if loan.borrower == name])
    out = Counter({loan.owner: 0 for loan in loans})
    out.update(loan.owner for loan in loans)
    for name in sorted(scene.holders):
        holder = scene.holders[name]
        for part, count in _unbooked(holder, loans):
            for _ in range(count):
                owner = _lender(scene, part, name, out)
                out[owner] += 1
                loans.append(
                    Loan(borrower=name, owner=owner, pool=part, gpus=holder.model.gpus_per_replica, at=scene.now)
                )
    return tuple(sorted(loans, key=lambda loan: (loan.at, loan.borrower, loan.pool, loan.owner or "")))


def _borrowed(holder: Holder) -> dict[str, int]:
    """Replicas beyond entitlement per pool: the last of its pools hold them first."""
    beyond = max(0, holder.held - holder.model.entitlement)
    found: dict[str, int] = {}
    for part in reversed(holder.parts):
        here = min(beyond, part.held)
        if here > 0:
            found[part.pool] = found.get(part.pool, 0) + here
            beyond -= here
    return found


def _of_borrower(holder: Holder, old: list[Loan]) -> list[Loan]:
    """Loans that still stand; the youngest end first."""
    kept: list[Loan] = []
    for pool, count in _borrowed(holder).items():
        kept += sorted((loan for loan in old if loan.pool == pool), key=lambda loan: loan.at)[:count]
    return kept


def _unbooked(holder: Holder, loans: list[Loan]) -> list[tuple[str, int]]:
    booked = Counter(loan.pool for loan in loans if loan.borrower == holder.model.id)
    return [(pool, count - booked[pool]) for pool, count in _borrowed(holder).items() if count > booked[pool]]


def _lender(scene: Scene, pool: str, borrower: str, out: Counter[str | None]) -> str | None:
    """The owner on this pool with most unused entitlement; None on elastic pools: nobody's GPUs."""
    state = scene.pools.get(pool)
    if state is None or state.pool.kind != "primary":
        return None
    unused = [
        (holder.held + out[name] - holder.model.entitlement, name)
        for name, holder in scene.holders.items()
        if name != borrower and any(part.pool == pool for part in holder.parts)
    ]
    best = min(unused, default=(0, ""))
    return best[1] if best[0] < 0 else None
