"""The lower bounds of a model's autoscalers: position must not be given away by an HPA that sees less.

Where the budget is fixed the minimum is the grant (min = max pins). Where nodes can go it is the demand, as far as the
model's other targets do not hold it already, so that the sum of minimums never falls under the floor. A minimum
that falls is a decrease for every guard, for the autoscaler may follow it; while one forbids it, it stays.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from rebalancer.domain.plan import Refusal
from rebalancer.planning.guarded.guards import judge
from rebalancer.planning.guarded.release import Purpose, Release, Tally
from rebalancer.planning.seen.scene import Holder, Part, Scene

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class After:
    """One part after this plan: replicas asked for, those of them that are undoomed, doomed ones it takes off."""

    asked: int
    undoomed: int
    doomed_gone: int = 0


def wanted_minimums(scene: Scene, holder: Holder, after: dict[Key, After]) -> dict[Key, int]:
    """Lower bounds as demand wants them, before guards, for every part of the model that an autoscaler owns."""
    needed = max(holder.demand.replicas, holder.floor)
    follows = [part for part in holder.parts if _follows_demand(scene, part)]
    needed -= sum(after[part.key].undoomed for part in holder.parts if part not in follows)
    found = {part.key: max(part.least, after[part.key].asked) for part in holder.parts if part.owner is not None}
    for part in follows:
        then = after[part.key]
        own = max(0, min(then.undoomed, needed))
        needed -= own
        unseen = part.owner.minimum if part.owner is not None and holder.demand.unknown else 0
        found[part.key] = min(found[part.key], max(part.least, unseen or own + then.asked - then.undoomed))
    return found


def _follows_demand(scene: Scene, part: Part) -> bool:
    state = scene.pools.get(part.pool)
    return part.owner is not None and state is not None and state.grows


def kept_minimum(part: Part, then: After, wanted: int) -> int:
    """The minimum beside another change of the part: it falls no further than the maximum and the doomed that go."""
    if part.owner is None:
        return then.asked
    return max(wanted, min(then.asked, part.owner.minimum - then.doomed_gone))


@dataclass(frozen=True, slots=True)
class Lowered:
    """A minimum that guards let fall as far as `minimum`.

    counts: the window it used up (None: it did not fall), counted: by how many. refusal: why no further.
    """

    minimum: int
    counts: str | None
    counted: int
    refusal: Refusal | None


def lower(scene: Scene, tally: Tally, part: Part, before: int, wanted: int) -> Lowered:
    """Let the part's minimum fall from `before` towards `wanted`, one replica at a time."""
    counted, refusal, minimum = 0, None, before
    while minimum > wanted and refusal is None:
        release = Release(scene, tally, part, Purpose.MINIMUM)
        refusal = judge(release)
        if refusal is None:
            counted += release.counts == "step"
            tally.book(release)
            minimum -= 1
    if refusal is not None:
        refusal = replace(refusal, replicas_to=refusal.replicas_from - (minimum - wanted))
    fell = "step" if counted else "exempt"
    return Lowered(minimum, fell if minimum < before else None, counted, refusal)
