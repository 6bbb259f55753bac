"""The loans: a replica beyond its model's entitlement holds GPUs that are booked to an owner who does not use them.

Loans end last in, first out: a model that comes to have fewer replicas gives up its youngest loans.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from rebalancer.domain.memory import Loan
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.shares.share import ModelShare

UNBOOKED = ""  # the owner of a loan that is still to be booked; None is a loan of nobody's GPUs


def book(scene: Scene[ModelShare]) -> tuple[Loan, ...]:
    """Loans that match what is held now: each to an owner with unused entitlement, the most first (ties by id).

    One whose owner has come to use its entitlement goes on in the name of who lends now: nobody gave its GPUs back.
    So does one whose borrower's replicas have another size by now.
    """
    wanted: dict[tuple[str, str], int] = {}
    for model in scene.models.values():
        beyond = model.staying_replicas - model.entry.entitlement
        if beyond > 0:
            wanted.update(_borrowed(model, beyond))
    loans: Sequence[Loan] = _of_size_now(scene)
    booked = scene.memo.of("", _counted, scene.memory.loans)
    if loans is scene.memory.loans and wanted == booked and not _overbooked(scene, loans):
        return scene.memory.loans
    loans = _first(loans, {key: wanted.get(key, 0) for key in booked if wanted.get(key, 0) < booked[key]})
    loans = _without_owners(loans, _overbooked(scene, loans))
    more = {key: count - booked.get(key, 0) for key, count in wanted.items()}
    loans += [
        Loan(name, UNBOOKED, pool, scene.models[name].entry.gpus_per_replica, scene.now)
        for (name, pool), count in sorted(more.items())
        for _ in range(count)
    ]
    return tuple(sorted(_booked(scene, loans), key=_order))


def _of_size_now(scene: Scene[ModelShare]) -> tuple[Loan, ...]:
    """The loans in memory; those of a borrower whose replicas have another size now are booked to nobody yet."""
    gpus = {name: model.gpus for name, model in scene.models.items()}
    if all(loan.gpus == gpus.get(loan.borrower) for loan in scene.memory.loans):
        return scene.memory.loans
    return tuple(
        loan if loan.gpus == gpus.get(loan.borrower) else replace(loan, owner=UNBOOKED, gpus=gpus[loan.borrower])
        for loan in scene.memory.loans
        if loan.borrower in gpus
    )


def _booked(scene: Scene[ModelShare], loans: list[Loan]) -> list[Loan]:
    """The loans with an owner each, None where it is nobody's GPUs."""
    lent = Counter(_by_owner(tuple(loans)))
    lenders = {pool: _Lenders(scene, pool, lent) for pool in {loan.pool for loan in loans if loan.owner == UNBOOKED}}
    booked = []
    for loan in loans:
        owner = loan.owner
        if owner == UNBOOKED:
            owner = lenders[loan.pool].next(loan.borrower)
            if owner is not None:
                lent[owner] += loan.gpus
        booked.append(loan if owner == loan.owner else replace(loan, owner=owner))
    return booked


def _overbooked(scene: Scene[ModelShare], loans: Sequence[Loan]) -> dict[str, int]:
    """GPUs by owner that are booked to it beyond what it has unused; one that has left the policy lends nothing."""
    overbooked = {}
    for owner, gpus in scene.memo.of("", _by_owner, tuple(loans)).items():
        model = scene.models.get(owner)
        unused = 0 if model is None else max(0, model.entry.entitlement - model.staying_replicas) * model.gpus
        if gpus > unused:
            overbooked[owner] = gpus - unused
    return overbooked


def _by_owner(loans: tuple[Loan, ...]) -> dict[str, int]:
    """GPUs booked to each owner."""
    lent: Counter[str] = Counter()
    for loan in loans:
        if loan.owner is not None:
            lent[loan.owner] += loan.gpus
    return dict(lent)


def _without_owners(loans: Sequence[Loan], beyond: dict[str, int]) -> list[Loan]:
    """Each owner's last loans are booked to nobody yet, as far as they are wholly `beyond` what it lends."""
    left, unbooked = dict(beyond), []
    for loan in reversed(loans):
        if loan.owner is not None and left.get(loan.owner, 0) >= loan.gpus:
            left[loan.owner] -= loan.gpus
            unbooked.append(replace(loan, owner=UNBOOKED))
        else:
            unbooked.append(loan)
    return unbooked[::-1]


def _first(loans: Sequence[Loan], most: dict[tuple[str, str], int]) -> list[Loan]:
    """The loans without the last of each borrower on a pool beyond `most`: last in, first out."""
    left, standing = dict(most), []
    for loan in loans:
        key = (loan.borrower, loan.pool)
        if key in left:
            left[key] -= 1
        if left.get(key, 0) >= 0:
            standing.append(loan)
    return standing


def _counted(loans: tuple[Loan, ...]) -> dict[tuple[str, str], int]:
    return dict(Counter([(loan.borrower, loan.pool) for loan in loans]))


def _order(loan: Loan) -> tuple[float, str, str, str]:
    return (loan.at, loan.borrower, loan.pool, loan.owner or "")


def _borrowed(model: ModelShare, beyond: int) -> Iterator[tuple[tuple[str, str], int]]:
    """Replicas `beyond` entitlement by target: the last of its pools hold them first."""
    for target in reversed(model.targets):
        here = min(beyond, target.staying_replicas)
        if here > 0:
            yield target.key, here
            beyond -= here


class _Lenders:
    """The owners on one pool, most unused entitlement first (ties by id); nobody where the pool is elastic.

    A heap whose numbers may be old: `lent`, which all pools share, only grows, so the first that is still true is the
    least. (Asking every model for every loan takes 5 s at 1,000 models and 5,000 loans, once after a lost memory.)
    """

    def __init__(self, scene: Scene[ModelShare], pool: str, lent: Counter[str]) -> None:
        self._holders = scene.models
        self._lent = lent
        state = scene.pools.get(pool)
        owned = state is not None and state.pool.kind == "primary"
        self._heap = [
            (self._over(name), name)
            for name in ([model.entry.id for model in scene.of_pool.get(pool, ())] if owned else ())
        ]
        heapq.heapify(self._heap)

    def next(self, borrower: str) -> str | None:
        """The owner who lends the next replica to `borrower`, never itself, and only unused GPUs; None: nobody."""
        aside = None
        best = self._least()
        if best is not None and best[1] == borrower:
            aside = heapq.heappop(self._heap)
            best = self._least()
        if aside is not None:
            heapq.heappush(self._heap, aside)
        return best[1] if best is not None and best[0] < 0 else None

    def _over(self, name: str) -> int:
        """GPUs held and lent beyond the entitlement; below zero: that many are unused."""
        model = self._holders[name]
        return (model.staying_replicas - model.entry.entitlement) * model.gpus + self._lent.get(name, 0)

    def _least(self) -> tuple[int, str] | None:
        while self._heap and self._heap[0][0] != self._over(self._heap[0][1]):
            name = self._heap[0][1]
            heapq.heapreplace(self._heap, (self._over(name), name))
        return self._heap[0] if self._heap else None
