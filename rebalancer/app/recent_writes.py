"""What the leader before us asked targets for lately, and our own watches may not have shown yet."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rebalancer.domain.outcome import UNKNOWN, WRITTEN, Outcome
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.snapshot import TargetView
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state import ClusterState
from rebalancer.state.holdings import UNHEARD_SECONDS
from rebalancer.state.views import is_bounded


class RecentWrite(NamedTuple):
    """A number that a target was asked for not long ago.

    model: whose target it is.
    target: the workload.
    before: the numbers that it had lately before it, replicas or the maximum of its autoscaler.
    replicas: the same after.
    minimum: of an autoscaler the minimum beside it; None where none is bounded.
    at: when the API server had it.
    """

    model: str
    target: WorkloadRef
    before: tuple[int, ...]
    replicas: int
    minimum: int | None
    at: float


def targets_of(policy: Policy) -> dict[str, tuple[Model, WorkloadRef]]:
    """By the name that intents have for them."""
    return {
        f"{one.kind.lower()}/{model.namespace}/{one.name}": (model, WorkloadRef(model.namespace, one.kind, one.name))
        for model in policy.models
        for one in model.targets
    }


def recent_writes(outcomes: Iterable[Outcome], policy: Policy, now: float) -> tuple[RecentWrite, ...]:
    """The newest number that each target was asked for, as far as a watch may still be about to show it.

    One of which nobody knows whether it was written, as the leader died over it, may be what a watch shows: it is none
    of those from before, though the target may have had it lately as well.
    """
    targets, newest = targets_of(policy), dict[WorkloadRef, RecentWrite]()
    for outcome in sorted(outcomes, key=lambda one: one.at):
        intent = outcome.intent
        if outcome.status == WRITTEN and intent.object in targets and now - outcome.at < UNHEARD_SECONDS:
            model, ref = targets[intent.object]
            bounds = intent.minimum_to if model.actuation != "scale" else None
            before = (*(newest[ref].before if ref in newest else ()), intent.replicas_from)
            newest[ref] = RecentWrite(model.id, ref, before, intent.replicas_to, bounds, min(outcome.at, now))
        elif outcome.status == UNKNOWN and intent.object in targets and targets[intent.object][1] in newest:
            write = newest[targets[intent.object][1]]
            before = tuple(each for each in write.before if each != intent.replicas_to)
            newest[write.target] = write._replace(before=before)
    return tuple(newest.values())


def count_unheard(recent: Sequence[RecentWrite], state: ClusterState, now: float) -> None:
    """Counts each write whose target the state still shows with an earlier number, until it shows the new one.

    It counts for 90 s at most. A watch may have been silent for 75 s before anybody knows; GPUs that the leader before
    us had promised in that time were promised once more, and pods pended.
    """
    views = {_ref(target): target for model in state.peek(now).models for target in model.targets} if recent else {}
    for write in recent:
        target = views.get(write.target)
        if target is not None and _shown(target) in {*write.before} - {write.replicas}:
            state.note_write(write.model, write.target, write.replicas, write.at, minimum=write.minimum)


def _ref(target: TargetView) -> WorkloadRef:
    return WorkloadRef(target.namespace, target.kind, target.name)


def _shown(target: TargetView) -> int:
    """The number that we write, as the watches show it: the maximum where an autoscaler is bounded, else replicas."""
    autoscaler = target.autoscaler
    return autoscaler.maximum if autoscaler is not None and is_bounded(autoscaler) else target.replicas
