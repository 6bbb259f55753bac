"""Who else changes the numbers we write: replicas where no autoscaler owns them, else the bounds we have taken over.

The field managers that the API server notes say whose a change was (`ingest.objects.meta.writer`).
"""

from collections import Counter
from collections.abc import Collection, Iterable

from msgspec import Struct

from rebalancer.domain.cluster import Hpa, ScaledObject, Workload, WorkloadRef
from rebalancer.domain.snapshot import ForeignChange
from rebalancer.state.objects import Change, Objects

REMEMBERED = 2  # what the guard `foreign` asks for


class ForeignPast(Struct, frozen=True):
    """The last foreign changes of one target, oldest first, for the checkpoint."""

    target: WorkloadRef
    changes: tuple[ForeignChange, ...]


class ForeignChanges:
    """The last foreign changes by target; `counts`: how many there were since the start."""

    def __init__(self, objects: Objects) -> None:
        self.counts: Counter[WorkloadRef] = Counter()
        self._objects = objects
        self._last: dict[WorkloadRef, tuple[ForeignChange, ...]] = {}

    def saw(self, change: Change, at: float) -> None:
        """An object changed at `at`."""
        match change:
            case (Workload() as old, Workload() as new) if new.replicas != old.replicas and not self._owned(new.ref):
                self._note(new.ref, new.writer, at)
            case (Hpa() as old, Hpa() as new) if new.owner_scaled_object is None:
                self._note(new.target, _bounds_writer(old, new), at)
            case (ScaledObject() as old, ScaledObject() as new):
                self._note(new.target, _bounds_writer(old, new), at)

    def of(self, ref: WorkloadRef) -> tuple[ForeignChange, ...]:
        """The last ones of a target, oldest first."""
        return self._last.get(ref, ())

    def past(self, targets: Collection[WorkloadRef]) -> tuple[ForeignPast, ...]:
        """Those of `targets`, for the checkpoint."""
        return tuple(ForeignPast(ref, self._last[ref]) for ref in sorted(self._last.keys() & set(targets)))

    def restore(self, past: Iterable[ForeignPast]) -> None:
        """Put back what `past` gave, before what was seen since."""
        for one in past:
            self._last[one.target] = (*one.changes, *self.of(one.target))[-REMEMBERED:]

    def _owned(self, ref: WorkloadRef) -> bool:
        """Whether an autoscaler chooses the replicas: then neither we nor anybody else writes them."""
        return any(self._objects.hpas_of.get(ref)) or any(
            not scaled.paused for scaled in self._objects.scaled_objects_of.get(ref)
        )

    def _note(self, ref: WorkloadRef, manager: str, at: float) -> None:
        if manager:
            self.counts[ref] += 1
            self._last[ref] = (*self.of(ref), ForeignChange(at, manager))[-REMEMBERED:]


def _bounds_writer(old: Hpa | ScaledObject, new: Hpa | ScaledObject) -> str:
    """Who changed a bound of an object that is ours by then; "" when nobody else did."""
    if old.originals is None:
        return ""
    changed = (new.minimum != old.minimum, new.maximum != old.maximum)
    return next((writer for writer, moved in zip(new.writers, changed, strict=True) if moved and writer), "")
