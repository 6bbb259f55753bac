"""GPUs that were taken from models that needed them, and who serves with them since.

A replica that began to serve after the write pays for as many GPUs as it holds: one of another model on the same pool,
or one of the robbed model in another place. Which of them pays whom is nobody's decision, so none is wronged as long
as there is a way to pay all: where chat lost a GPU to code and code one to search, one replica of each pays both.

So does a pod that got a node since and will never serve, where nobody could know that when the write was made: no pod
of its template had loaded for as long as two starts take.
"""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from rebalancer.world import WorldPod
from tests.machine.verdicts import Debt

HANGS_AFTER_STARTS = 2.0  # nobody can know it sooner


class _Gpu(NamedTuple):
    """One GPU of a replica that began to serve."""

    pod: str
    number: int


class _Payer(NamedTuple):
    """A replica that began to serve at `since`, or to load for ever, which is known from `known_at` on."""

    model: str
    pool: str
    since: float
    gpus: tuple[_Gpu, ...]
    known_at: float = inf


class Debts:
    """The debts of a history. `open`: those that are neither paid nor due; what pays others may come to pay them."""

    def __init__(self) -> None:
        self.open: list[Debt] = []
        self._payers: dict[str, _Payer] = {}
        self._known_at: dict[tuple[str, int], float] = {}  # by template: since when it is known to hang
        self._owner: dict[_Gpu, Debt] = {}  # whose debt it pays

    def seen(self, pods: Iterable[WorldPod]) -> None:
        """Who serves now, and who loads for ever."""
        for pod in pods:
            if pod.ready_at is not None and pod.serves:
                self._pays_since(pod, pod.ready_at)
            elif pod.stuck and pod.placed_at is not None:
                template = pod.owner.uid, pod.generation
                known_at = pod.placed_at + HANGS_AFTER_STARTS * pod.owner.load_seconds
                self._known_at[template] = min(known_at, self._known_at.get(template, inf))
                self._pays_since(pod, pod.placed_at, self._known_at[template])

    def _pays_since(self, pod: WorldPod, since: float, known_at: float = inf) -> None:
        gpus = tuple(_Gpu(pod.uid, number) for number in range(pod.gpus))
        pool = pod.owner.node_selector["pool"]
        self._payers.setdefault(pod.uid, _Payer(pod.owner.model, pool, since, gpus, known_at))

    def paid(self, debt: Debt) -> bool:
        """Whether others serve with what was taken; less than a replica of it may be left over."""
        while debt.paid <= debt.gpus - debt.each:
            if not self._pay(debt, set()):
                return False
            debt.paid += 1
        return True

    def _pay(self, debt: Debt, tried: set[_Gpu]) -> bool:
        """One GPU more for `debt`: one that pays nobody, or one whose debt finds another (Kuhn's augmenting path)."""
        for payer in self._payers.values():
            if not _pays(payer, debt):
                continue
            for gpu in payer.gpus:
                if gpu in tried:
                    continue
                tried.add(gpu)
                other = self._owner.get(gpu)
                if other is None or self._pay(other, tried):
                    self._owner[gpu] = debt
                    return True
        return False


def _pays(payer: _Payer, debt: Debt) -> bool:
    here = payer.pool == debt.pool
    return debt.at < min(payer.since, payer.known_at) and here != (payer.model == debt.model)
