"""The port by which people decide over HTTP: overrides and the write stop, and what either is answered with."""

from typing import Protocol

from msgspec import Struct

from rebalancer.api.ports.requests import OverrideRequest, Preview, ResumeRequest, StopRequest
from rebalancer.domain.instant import Instant
from rebalancer.domain.people import Override, WriteStop


class Overrides(Struct, frozen=True):
    """All overrides there are, whatever their phase.

    instance: name of the replica of the service that answers, "" where the command line read them by itself.
    leader: name of the replica of the service that acts; "" where none does, or it is not known.
    overrides: the overrides, by namespace and name; by name first from a service that only observes.
    gone: overrides whose object is no more, the last 200 that the service remembers, in the order in which they went:
        `Deleted` by a person before their end, or `Expired` and tidied up after it.
    at: the service's clock, by which they end; None from an older version.
    """

    instance: str
    leader: str
    overrides: tuple[Override, ...] = ()
    gone: tuple[Override, ...] = ()
    at: Instant | None = None


class Accepted(Struct, frozen=True):
    """The answer to a request for an override.

    instance: name of the replica of the service that answers.
    leader: name of the replica of the service that acts; "" where none does, or it is not known yet.
    created: whether this request made the Override; false where an earlier one with its Idempotency-Key did.
    override: the Override object as it is stored.
    """

    instance: str
    leader: str
    created: bool
    override: Override


class Writes(Struct, frozen=True):
    """Whether writes are stopped.

    instance: name of the replica of the service that answers.
    leader: name of the replica of the service that acts; "" where none does, or it is not known yet.
    write_mode: `shadow` (nothing is written, stopped or not) or `act`.
    stopped: whether there is a write stop.
    stops: the write stops, oldest first, with who pressed each and since when; empty where writes are not stopped. A
        service that only observes shows the oldest alone.
    """

    instance: str
    leader: str
    write_mode: str
    stopped: bool
    stops: tuple[WriteStop, ...] = ()


class RequestOrigin(Struct, frozen=True):
    """The caller of a request, and what tells its repeats.

    actor: name of the caller, as authentication says.
    key: the request's Idempotency-Key, the same for each of its repeats.
    """

    actor: str
    key: str


class Declined(Exception):
    """A request not done: HTTP status, what was wrong, what to do, where; `preview` when the plan has changed."""

    def __init__(  # noqa: PLR0913  an answer has these parts
        self,
        status: int,
        error: str,
        fix: str = "",
        where: str = "",
        *,
        preview: Preview | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.fix = fix
        self.where = where
        self.preview = preview
        self.retry_after_seconds = retry_after_seconds


class OperatorPort(Protocol):
    """Where decisions of people become objects. Every method raises Declined."""

    def namespace_of(self, request: OverrideRequest) -> str:
        """Where the override would stand: as asked, else its model's namespace, else the service's own."""
        ...

    async def overrides(self) -> Overrides:
        """All overrides."""
        ...

    async def preview(self, request: OverrideRequest, requester: RequestOrigin) -> Preview:
        """What the override would do now; nothing is written."""
        ...

    async def create(self, request: OverrideRequest, requester: RequestOrigin) -> Accepted:
        """Make the Override object, or find the one that this key made before."""
        ...

    async def delete(self, namespace: str, name: str, actor: str) -> None:
        """Take an override back."""
        ...

    async def end_preview(self, namespace: str, name: str, actor: str) -> Preview:
        """What would come if it were taken back now; nothing is written."""
        ...

    async def writes(self) -> Writes:
        """Whether writes are stopped, by whom and since when."""
        ...

    async def stop(self, request: StopRequest, requester: RequestOrigin) -> Writes:
        """Stop all writes; works before the cluster is known and while Kafka is away."""
        ...

    async def resume(self, request: ResumeRequest, actor: str) -> Writes:
        """Take every write stop away."""
        ...

    async def resume_preview(self, actor: str) -> Preview:
        """The first plan that would be written on resume."""
        ...
