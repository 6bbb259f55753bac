"""What happened, as values: marks of the timeline, cycles with what they did, and the points of a model's chart."""

from msgspec import Struct, field

from rebalancer.domain.instant import Instant


class ShiftStep(Struct, frozen=True):
    """One write of a shift: when, of which model, and its sentence."""

    at: Instant
    model: str
    text: str = field(name="said")


class TimelineEvent(Struct, frozen=True):
    """One mark of the timeline. `kind`: release, grant, notice, refusal, override, stop, node.

    `shift`: the change that released for somebody; of a grant that ends shifts all of theirs, separated by blanks: its
    sentence tells release and grant, so a list that holds it leaves those releases out.
    `id`: names it in links, over restarts too. `steps`: of a grant that ends shifts its releases and itself. `waiting`:
    of a refusal the models that are short because of it.
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
    """One cycle that did or refused something new; `more`: events beyond the 50 that are kept of one cycle."""

    cycle: int
    at: Instant
    timeline: tuple[TimelineEvent, ...] = field(name="happenings")
    more: int = 0


class Point(Struct, frozen=True):
    """One step of the chart; None = unknown then."""

    at: Instant
    demand: int | None
    allocation: int | None
    ready: int | None
