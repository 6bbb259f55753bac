"""GPUs that were taken from models that needed them, and who serves with them since.

A replica that began to serve after the write pays for as many GPUs as it holds: one of another model on the same pool,
or one of the robbed model in another place. Which of them pays whom is nobody's decision, so none is wronged as long
as there is a way to pay all: where chat lost a GPU to code and code one to search, one replica of each pays both.
"""

from collections.abc import Iterable
from typing import NamedTuple

from rebalancer.world import Pod
from tests.machine.verdicts import Debt


class _Gpu(NamedTuple):
    """One GPU of a replica that began to serve."""

    pod: str
    number: int


class _Payer(NamedTuple):
    """A replica that began to serve at `since`."""

    model: str
    pool: str
    since: float
    gpus: tuple[_Gpu, ...]


class Debts:
    """The debts of a history. `open`: those that are neither paid nor due; what pays others may come to pay them."""

    def __init__(self) -> None:
        self.open: list[Debt] = []
        self._payers: dict[str, _Payer] = {}
        self._owner: dict[_Gpu, Debt] = {}  # whose debt it pays

    def seen(self, pods: Iterable[Pod]) -> None:
        """Who serves now."""
        for pod in pods:
            if pod.ready_at is not None and pod.serves:
                gpus = tuple(_Gpu(pod.uid, number) for number in range(pod.gpus))
                pool = pod.owner.node_selector["pool"]
                self._payers.setdefault(pod.uid, _Payer(pod.owner.model, pool, pod.ready_at, gpus))

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
    return payer.since > debt.at and (payer.pool == debt.pool) != (payer.model == debt.model)
