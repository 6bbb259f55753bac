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
    """An override to be. `for_seconds` None: the policy's default (30 min). `namespace` None: the model's own.

    `preview` is the hash of the preview the person looked at: when the plan has changed since, the answer is 409 and
    a new preview must be looked at. `confirm`: the name to type for drain, below floor and pool.
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
    """One change that would come. `when`: now or then (what follows); `at`: when it is Ready (None: unknown)."""

    when: str
    text: str = field(name="said")
    model: str | None = None
    replicas_from: int | None = None
    replicas_to: int | None = None
    at: Instant | None = None


class Preview(Struct, frozen=True):
    """What an override would do now. `preview`: hash to send with the request. `confirm`: the name to type, None: none.

    `conflicts`: overrides it would supersede or that outrank it; `refused`: why it would be refused (None: no).
    `unmet_before`, `unmet_after`: replicas that all models together are short of. `lines`: what the CLI prints.
    `costs`: who has fewer replicas by it, and how late that makes them, a sentence each; `gains`: who has more, and
    what that spares; `lines` have them too. `at`: the service's clock; None from an older version.
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
