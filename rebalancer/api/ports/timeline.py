"""What happened, as values: marks of the timeline, cycles with what they did, and the points of a model's chart."""

from msgspec import Struct, field

from rebalancer.domain.instant import Instant


class ShiftStep(Struct, frozen=True):
    """One write of a shift: when, of which model, and its sentence."""

    at: Instant
    model: str
    text: str = field(name="said")


class TimelineEvent(Struct, frozen=True):
    """One mark of the timeline.

    at: when it happened.
    kind: release, grant, notice, refusal, override, stop (of the writes, or their resuming) or node (a write to a
        NodePool, a node or a replica on it).
    text: what happened, in words; without the model's name where `model` has it.
    cycle: number of the cycle that it belongs to.
    model: id of the model that it is about, None where it is about no single model.
    pool: name of the pool that it is about, None where it names none.
    shift: of a release for somebody the id of its change; of a grant that ends shifts the ids of all those releases,
        separated by blanks: its sentence tells release and grant, so a list that holds it leaves those releases out.
        None for all others.
    id: names it in links, over restarts too; "" before it is in the history.
    steps: of a grant that ends shifts its releases and itself; empty for all others.
    waiting: of a refusal the ids of models that are short because of it; empty for all others.
    """

    at: Instant
    kind: str
    text: str = field(name="said")
    cycle: int
    model: str | None = None
    pool: str | None = None
    shift: str | None = None
    id: str = ""
    steps: tuple[ShiftStep, ...] = ()
    waiting: tuple[str, ...] = ()


class DecisionRow(Struct, frozen=True):
    """One cycle that did or refused something new.

    cycle: number of the cycle.
    at: when the first of its events happened.
    timeline: its events, the first 50.
    more: number of its events beyond those, which are not kept.
    """

    cycle: int
    at: Instant
    timeline: tuple[TimelineEvent, ...] = field(name="happenings")
    more: int = 0


class Point(Struct, frozen=True):
    """One minute of a model's chart.

    at: when the minute began.
    demand: replicas that the model needed, None where that was unknown.
    allocation: replicas that it was to have before guards, None where that was unknown.
    ready: Ready replicas, None where that was unknown.
    """

    at: Instant
    demand: int | None
    allocation: int | None
    ready: int | None
