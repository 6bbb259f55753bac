"""Changes by somebody else to numbers that we write: a target's replicas, or the bounds of its autoscaler.

The field managers that the API server notes say whose a change was (`ingest.objects.meta.writer`). Somebody who puts
our own numbers back repairs: that is no foreign change, and it ends the fight once it has stood for a while.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.autoscalers import Hpa, ScaledObject
from rebalancer.domain.cluster import Workload
from rebalancer.domain.instant import Instant
from rebalancer.domain.snapshot import REPAIRED_AFTER_SECONDS, ForeignChange
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state.objects import Change, Objects

REMEMBERED = 2  # what the guard `foreign` asks for

Numbers = tuple[int | None, ...]  # the replicas, or the minimum and the maximum
Written = Workload | Hpa | ScaledObject  # what carries numbers that we write


class ForeignPast(Struct, frozen=True):
    """The last foreign changes of one target that was written to or changed; for the checkpoint, too.

    target: the target's namespace, kind and name.
    changes: the last two foreign changes, oldest first.
    ours: the numbers that we asked for last: replicas, or minimum and maximum; None: unknown.
    repaired_at: since when others have put them back, None where they have not.
    desired: replicas that we answer its ScaledObject, None where none were asked for that way.
    other_kind: what we asked for last of the other kind of numbers: bounds, while KEDA is paused; None: unknown.
    stood: the numbers that stood there when we looked last; None: unknown.
    """

    target: WorkloadRef
    changes: tuple[ForeignChange, ...]
    ours: Numbers | None = None
    repaired_at: Instant | None = None
    desired: int | None = None
    other_kind: Numbers | None = None
    stood: Numbers | None = None

    def of_kind(self, numbers: Numbers) -> "ForeignPast":
        """With `ours` of the kind of `numbers`, unknown where none of them was asked for."""
        if self.ours is None or len(self.ours) == len(numbers):
            return self
        other = self.other_kind if self.other_kind is not None and len(self.other_kind) == len(numbers) else None
        return replace(self, ours=other, other_kind=self.ours)


class ForeignChanges:
    """The last foreign changes by target; `counts`: how many there were since the start.

    `is_target`: whether the policy names it. What it never named is not ours to watch, nor to remember.
    """

    def __init__(self, objects: Objects, is_target: Callable[[WorkloadRef], bool]) -> None:
        self.counts: Counter[WorkloadRef] = Counter()
        self._objects = objects
        self._is_target = is_target
        self._past: dict[WorkloadRef, ForeignPast] = {}

    def note_write(self, ref: WorkloadRef, numbers: Numbers) -> None:
        """Notes `numbers` as ours from now on: a write of them was acknowledged.

        A watch may never show them: who writes over them at once is shown in their place, and may put them back later.
        """
        past = self._past.get(ref) or ForeignPast(ref, ())
        self._past[ref] = replace(past.of_kind(numbers), ours=numbers)

    def answers(self, ref: WorkloadRef, desired: int | None) -> None:
        """From now on `desired` is what we answer the target's ScaledObject; None: the replicas that there are."""
        if desired is not None or ref in self._past:
            self._past[ref] = replace(self._past.get(ref) or ForeignPast(ref, ()), desired=desired)

    def succeed(self, past: Iterable[ForeignPast]) -> None:
        """Another replica led until now: what it asked for is ours. What others did was seen here, too."""
        for one in past:
            if one.ours is not None:
                self.note_write(one.target, one.ours)
            self.answers(one.target, self._still(one.target, one.desired))

    def saw(self, change: Change, at: float) -> None:
        """An object changed at `at`."""
        match change:
            case (None, Hpa(owner_scaled_object=str())):
                pass  # KEDA's own: it follows the ScaledObject, whoever wrote there
            case (None, (Workload() | Hpa() | ScaledObject()) as new) if _target(new) in self._past:
                self._appeared(new, at)
                past = self._past[_target(new)]
                self.answers(past.target, self._still(past.target, past.desired))
            case ((Workload() | Hpa() | ScaledObject()) as old, None) if _target(old) in self._past:
                self._gone(old)
            case (Workload() as old, Workload() as new) if not self._owned(new.ref):
                self._changed(old, new, at)
            case (Hpa() as old, Hpa() as new) if new.owner_scaled_object is None and old.originals is not None:
                self._changed(old, new, at)
            case (ScaledObject() as old, ScaledObject() as new) if old.originals is not None:
                self._changed(old, new, at)

    def of(self, ref: WorkloadRef) -> ForeignPast | None:
        """The last foreign changes of a target; None where nobody changed it, and we did not write to it."""
        return self._past.get(ref)

    def past(self, targets: Collection[WorkloadRef]) -> tuple[ForeignPast, ...]:
        """The last foreign changes of `targets`, for the checkpoint."""
        return tuple(self._past[ref] for ref in sorted(self._past.keys() & set(targets)))

    def restore(self, past: Iterable[ForeignPast]) -> None:
        """Put back what `past` gave, before what was seen since."""
        for each in past:
            one = replace(each, desired=self._still(each.target, each.desired))
            since = self._past.get(one.target)
            if since is None:
                self._past[one.target] = one
            else:
                changes = (*one.changes, *since.changes)[-REMEMBERED:]
                self._past[one.target] = replace(since, changes=changes, desired=one.desired)

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds: what others did is as old as before.

        Dated by a clock that was half an hour ahead, two changes would keep us away for that half hour.
        """
        for ref, past in self._past.items():
            changes = tuple(ForeignChange(one.at + seconds, one.manager) for one in past.changes)
            repaired_at = None if past.repaired_at is None else past.repaired_at + seconds
            self._past[ref] = replace(past, changes=changes, repaired_at=repaired_at)

    def _still(self, ref: WorkloadRef, desired: int | None) -> int | None:
        """What was answered before us, unless more runs by now: then nobody followed it, or KEDA has gone from it.

        A decrease is decided by a plan that sees the replicas, with the guards of today.
        """
        workload = self._objects.workload(ref)
        more = desired is not None and workload is not None and workload.replicas > desired
        return None if more else desired

    def _owned(self, ref: WorkloadRef) -> bool:
        """Whether an autoscaler chooses the replicas: then neither we nor anybody else writes them."""
        return any(self._objects.hpas_of.get(ref)) or any(
            not scaled.paused for scaled in self._objects.scaled_objects_of.get(ref)
        )

    def _gone(self, old: Written) -> None:
        """What comes under its name is another one, with numbers of its own."""
        past = self._past[_target(old)]
        self._past[past.target] = replace(past, stood=None)
        if isinstance(old, Workload):
            self.answers(past.target, None)

    def _appeared(self, new: Written, at: float) -> None:
        """After a restart: others may have set numbers or put ours back, and we may have written, while nobody looked.

        What stands there with nobody else's name is what we asked for last, whatever an older checkpoint says. What
        stands there with somebody's, and did not before, is a change as of now: an older checkpoint knows of one less
        of a fight that had begun by then, and calls home for a model that we stand down from.
        """
        numbers, writers = _numbers(new), _writers(new)
        past = self._past[_target(new)].of_kind(numbers)
        if past.ours is None:
            return
        each = zip(past.ours, numbers, writers, strict=True)
        past = replace(past, ours=tuple(our if writer else now for our, now, writer in each))
        if past.changes and past.repaired_at is None and past.ours == numbers and any(writers):
            past = replace(past, repaired_at=at)
        elif (manager := self._unseen(past, new)) is not None:
            self.counts[past.target] += 1
            past = _fought(past, at, manager)
        self._past[past.target] = replace(past, stood=numbers)

    def _unseen(self, past: ForeignPast, new: Written) -> str | None:
        """Who set a number there that is neither ours nor the one that stood there; None: nobody, or nobody knows."""
        numbers, ours = _numbers(new), past.ours
        owned = self._owned(new.ref) if isinstance(new, Workload) else new.originals is None
        if owned or ours is None or past.stood is None or len(past.stood) != len(numbers):
            return None
        each = zip(ours, past.stood, numbers, _writers(new), strict=True)
        return next((writer for our, was, now, writer in each if writer and now not in {our, was}), None)

    def _changed(self, old: Written, new: Written, at: float) -> None:
        """Tell our own writes, repairs and foreign changes apart, number by number."""
        ref, before, after = _target(new), _numbers(old), _numbers(new)
        if ref not in self._past and not self._is_target(ref):
            return
        past = (self._past.get(ref) or ForeignPast(ref, ())).of_kind(after)
        ours = before if past.ours is None else past.ours
        numbers = zip(ours, before, after, _writers(new), strict=True)
        moved = [(our, now, writer) for our, was, now, writer in numbers if now != was]
        by_others = [(our, now, writer) for our, now, writer in moved if writer]
        foreign = next((writer for our, now, writer in by_others if now != our), None)
        if foreign is not None:
            self.counts[ref] += 1
            self._past[ref] = _fought(replace(past, ours=ours), at, foreign)
        elif by_others and after == ours:
            self._past[ref] = replace(past, repaired_at=at)
        elif moved and not by_others and ref in self._past:
            self.note_write(ref, after)  # as the server has them: an HPA's minimum of 0 is 1 there
        if ref in self._past:
            self._past[ref] = replace(self._past[ref], stood=after)


def _fought(past: ForeignPast, at: float, manager: str) -> ForeignPast:
    """With one more change by somebody else."""
    changes = () if _over(past, at) else past.changes
    return replace(past, changes=(*changes, ForeignChange(at, manager))[-REMEMBERED:], repaired_at=None)


def _over(past: ForeignPast, at: float) -> bool:
    """Whether the fight had ended by `at`, so that a new change begins another."""
    return past.repaired_at is not None and at - past.repaired_at >= REPAIRED_AFTER_SECONDS


def _target(written: Written) -> WorkloadRef:
    return written.ref if isinstance(written, Workload) else written.target


def _numbers(written: Written) -> Numbers:
    return (written.replicas,) if isinstance(written, Workload) else (written.minimum, written.maximum)


def _writers(written: Written) -> tuple[str, ...]:
    """The field manager that set each of the numbers, "" for us."""
    return (written.writer,) if isinstance(written, Workload) else written.writers
