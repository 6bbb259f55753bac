"""What people ask for over HTTP, and what the service says it would do."""

from typing import Annotated

from msgspec import Meta, Struct, field

from rebalancer.domain.instant import Instant

Name = Annotated[str, Meta(min_length=1, max_length=253)]
Reason = Annotated[str, Meta(min_length=1, max_length=256)]


class Subject(Struct, frozen=True, forbid_unknown_fields=True):
    """What an override is about, as in the Override object: a model, a node or a pool (exclude: a model besides)."""

    model: Name | None = None
    node: Name | None = None
    pool: Name | None = None


class OverrideRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """An override to be, which ends `for_seconds` after it is made.

    kind: pause, freeze, pin, cap, floor, drain, exclude or standUp.
    target: what it is about.
    reason: why, in the person's words.
    value: replicas of a pin, a cap or a floor; None for the other kinds.
    for_seconds: seconds that it lasts. None: the policy's default (`overrides.defaultSeconds`, 30 minutes unless the
        policy says otherwise), of a standUp the window of the guard `foreign`.
    namespace: namespace where the Override is to stand. None: that of the model, without a model the service's own.
    allow_below_floor: whether a pin or a cap may take the model below its floor.
    preview: hash of the preview that the person looked at: where the plan has changed since, the answer is 409 and a
        new preview must be looked at. None: the plan is not compared with any preview.
    confirm: the name that the person typed, as a drain, a pool and going below the floor want it; None where no name is
        wanted.
    """

    kind: str
    target: Subject
    reason: Reason
    value: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    for_seconds: Annotated[float, Meta(gt=0, le=604_800)] | None = None
    namespace: Name | None = None
    allow_below_floor: bool = False
    preview: str | None = None
    confirm: str | None = None


class Effect(Struct, frozen=True):
    """One number of replicas that would come out differently.

    when: `now` (with the next cycle) or `then` (with the one after it).
    text: what would happen, in words.
    model: id of the model.
    replicas_from: replicas that its target asks for before.
    replicas_to: replicas that it would ask for.
    at: when the last replica that it gets is Ready; None where it gets none, or that is unknown.
    """

    when: str
    text: str = field(name="said")
    model: str | None = None
    replicas_from: int | None = None
    replicas_to: int | None = None
    at: Instant | None = None


class Preview(Struct, frozen=True):
    """What a decision would do now: an override, the end of one, or the end of the write stops.

    preview: hash of what was shown, to send with the request.
    name: name of the override; "" where writes are resumed.
    namespace: namespace of the override; "" where writes are resumed.
    actor: who would decide.
    expires_at: when the override ends; where writes are resumed the same instant as `at`.
    effects: the numbers of replicas that would come out differently; empty where the override would be refused.
    conflicts: other overrides in force on the same subject, each with which of the two counts, strongest first.
    refused: why the override would be refused, None where it would not.
    confirm: the name that a person must type; `resume` where writes are resumed; None where nothing is to be typed.
    unmet_before: replicas that all models together are short of two cycles from now without the decision.
    unmet_after: replicas that they are short of then with it; as without it where it would be refused.
    lines: what the command line prints, `costs` and `gains` included; in shadow it says first that nothing is written.
    costs: models that have fewer replicas by it, and how late that makes them, a sentence each.
    gains: models that have more replicas by it, and what that spares, a sentence each.
    at: the service's clock, None from an older version.
    """

    preview: str
    name: str
    namespace: str
    actor: str
    expires_at: Instant
    effects: tuple[Effect, ...] = ()
    conflicts: tuple[str, ...] = ()
    refused: str | None = None
    confirm: str | None = None
    unmet_before: int = 0
    unmet_after: int = 0
    lines: tuple[str, ...] = field(default=(), name="said")
    costs: tuple[str, ...] = ()
    gains: tuple[str, ...] = ()
    at: Instant | None = None


class StopRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Stop all writes. Asks nothing but a reason: the red button never prompts."""

    reason: Reason


class ResumeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Resume writes. `confirm` must be the word resume."""

    confirm: str
