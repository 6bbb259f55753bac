"""Who owns the numbers that we would write for a target: found from the objects themselves, before the first write.

A controller that is known to write the number back refuses the target. Whoever may do so under conditions that cannot
be seen, and whoever applies the number from manifests, is told with the way out and refuses nothing: where they do
write, the guard `foreign` stands down after two changes.
"""

from collections.abc import Iterator

from msgspec import UNSET, Struct

from rebalancer.domain.arithmetic import asleep
from rebalancer.domain.parents import LEAVES, REVERTS, Parent, applier_of, parent_of
from rebalancer.domain.snapshot import AppliedView, AutoscalerView, MetricView, OwnerView, TargetView
from rebalancer.domain.words import listed

METRIC_PAGE = "docs/metric.md"


class OwnerClaim(Struct, frozen=True):
    """Somebody else's claim on a number that we would write.

    refused: whether nothing is written because of it.
    why: who, of which object, and what they do with the number.
    way_out: what a person does about it.
    by: the parent or the tool, as `KIND NAME`.
    """

    refused: bool
    why: str
    way_out: str
    by: str

    def __str__(self) -> str:
        return f"{self.why}; {self.way_out}"


def claims(target: TargetView) -> tuple[OwnerClaim, ...]:
    """All claims on the target's numbers, those that refuse it first."""
    if target.metric is not UNSET:
        every = [*_rivals(target), *_metric(target, target.metric), *_idle(target)]
    elif target.owners or target.applied or target.autoscaler:
        every = [*_rivals(target), *_parents(target), *map(_applied, target.applied), *_idle(target), *_asleep(target)]
    else:
        return ()
    return tuple(sorted(every, key=lambda claim: not claim.refused))


def refusing(target: TargetView) -> OwnerClaim | None:
    """The first claim for which nothing is written to the target, None where there is none."""
    return next((claim for claim in claims(target) if claim.refused), None)


def written(target: TargetView) -> str:
    """By what the target is moved: `the bounds of ScaledObject chat`, `the replicas of Deployment chat`."""
    autoscaler = _acting(target)
    if autoscaler is not None and target.by_metric:
        return f"the answer to the metrics-api trigger of {autoscaler.kind} {autoscaler.name}"
    if autoscaler is not None:
        return f"the bounds of {autoscaler.kind} {autoscaler.name}"
    return f"the replicas of {target.kind} {target.name}"


def _acting(target: TargetView) -> AutoscalerView | None:
    """The autoscaler whose bounds are written; a paused one has none that reach anybody."""
    return None if target.autoscaler is None or target.autoscaler.paused else target.autoscaler


def _rivals(target: TargetView) -> Iterator[OwnerClaim]:
    """Two autoscalers of one target each set their own number, whatever their bounds are."""
    autoscaler = target.autoscaler
    if autoscaler is None or not autoscaler.beside:
        return
    names = listed([f"{autoscaler.kind} {autoscaler.name}", *autoscaler.beside])
    why = f"{names} scale {target.kind} {target.name}, and each sets its own number"
    yield OwnerClaim(refused=True, why=why, way_out="delete all but one of them", by=listed(autoscaler.beside))


def _metric(target: TargetView, metric: MetricView) -> Iterator[OwnerClaim]:
    """Nothing of the target is written: its ScaledObject follows our answer exactly, or it is refused."""
    autoscaler = _acting(target)
    if target.missing or (autoscaler is None and target.autoscaler is not None):
        return  # paused: told as that
    what = f"{target.kind} {target.name}" if autoscaler is None else f"{autoscaler.kind} {autoscaler.name}"
    for fault in metric.faults:
        why = f"{what} does not follow our answer (actuation metric): {fault}"
        yield OwnerClaim(refused=True, why=why, way_out=f"see {METRIC_PAGE}", by=what)
    for limit in () if metric.faults else metric.limits:
        cause, _, todo = limit.partition(": ")
        why = f"{what} follows our answer, but {cause}"
        yield OwnerClaim(refused=False, why=why, way_out=todo or f"see {METRIC_PAGE}", by=what)


def _parents(target: TargetView) -> Iterator[OwnerClaim]:
    """The controller of the object that is written, and autoscalers of others that point at the target."""
    autoscaler = _acting(target)
    kind = target.kind if autoscaler is None else autoscaler.kind
    for owner in target.owners:
        row = parent_of(owner.group, owner.kind)
        if owner.of_kind == kind or (row is not None and row.by_reference):
            yield from _of_unknown(owner) if row is None else _of_parent(owner, row)


def _of_parent(owner: OwnerView, row: Parent) -> Iterator[OwnerClaim]:
    verdict = row.verdict(owner.of_kind, owner.mode)
    if verdict == LEAVES:
        return
    what = "is scaled by" if row.by_reference and owner.of_kind != "HorizontalPodAutoscaler" else "belongs to"
    why = f"{owner.of_kind} {owner.of_name} {what} {owner.kind} {owner.name}, which {row.does}"
    yield OwnerClaim(refused=verdict == REVERTS, why=why, way_out=row.way_out, by=f"{owner.kind} {owner.name}")


def _of_unknown(owner: OwnerView) -> Iterator[OwnerClaim]:
    what, by = f"{owner.of_kind} {owner.of_name}", f"{owner.kind} {owner.name}"
    why = f"{what} belongs to {by} ({owner.group or 'core'}), of which nobody here knows whether it writes numbers back"
    yield OwnerClaim(refused=False, why=why, way_out="in shadow, change one by hand and see whether it stays", by=by)


def _applied(applied: AppliedView) -> OwnerClaim:
    """A manifest holds the number; whether its tool ignores the difference stands in the tool's own object."""
    row = applier_of(applied.manager)
    if row is None:
        raise ValueError(f"{applied.manager} is none of the tools in parents.APPLIERS")
    fields, what = listed(applied.fields), f"{applied.of_kind} {applied.of_name}"
    who = f"{row.who} ({applied.by})" if applied.by else row.who
    todo = row.way_out.format(
        kind=applied.of_kind, fields=fields, paths=listed([f"/spec/{key}" for key in applied.fields])
    )
    why = (
        f"{who} applies {fields} of {what} from a manifest and writes them again {row.again} unless told to ignore them"
    )
    return OwnerClaim(refused=False, why=why, way_out=todo, by=who)


def _idle(target: TargetView) -> Iterator[OwnerClaim]:
    """What an idleReplicaCount means beside a floor, said before KEDA follows it."""
    autoscaler = _acting(target)
    if autoscaler is None or autoscaler.idle is None or asleep(target) is not None:
        return
    what = f"{autoscaler.kind} {autoscaler.name}"
    why = f"KEDA takes {target.name} to the idleReplicaCount {autoscaler.idle} of {what} while no trigger is active"
    todo = "remove idleReplicaCount where the floor is to hold at all times"
    yield OwnerClaim(refused=False, why=f"{why}, whatever minimum is written", way_out=todo, by=what)


def _asleep(target: TargetView) -> Iterator[OwnerClaim]:
    """What it means that we have left the last replica to the autoscaler, there or gone."""
    autoscaler = _acting(target)
    if autoscaler is None or autoscaler.originals is None or autoscaler.minimum > 0 or not autoscaler.sleeps:
        return
    what = f"{autoscaler.kind} {autoscaler.name}"
    why = f"{what} takes {target.name} to 0 replicas and back by its own metric, as long as nobody needs one"
    yield OwnerClaim(refused=False, why=why, way_out="give the model a floor where one replica is to stay", by=what)
