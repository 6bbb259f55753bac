"""The reading verbs of the Kubernetes API; a read is tried again while that can help."""

import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, Self

from rebalancer.kube.access import Access
from rebalancer.kube.calls import ATTEMPTS, Caller
from rebalancer.kube.errors import Gone
from rebalancer.kube.resources import Call, Object, Ref, Resource
from rebalancer.kube.transport import Transport
from rebalancer.kube.wire import RAW, Changes, LineSplitter, Page, T, change_decoder, decode_list
from rebalancer.obs.clock import Clock

PAGE_SECONDS: Final = 15.0
"""Deadline of one page of a list."""

LIST_RESTARTS: Final = 2


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All objects of a resource at one revision.

    `malformed` names the objects that `into` does not fit, and why: they exist, yet are not in `items`.
    """

    items: list[T]
    resource_version: str
    malformed: list[str]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one watch lasts."""

    idle_seconds: float = 75.0
    """Without a byte for this long it may be dead: bookmarks come each minute."""
    watch_seconds: float = 300.0
    """The server is asked to end it after this long."""


DEFAULT_PATIENCE: Final = Patience()


class KubeReader:
    """Reads and can do nothing else: who is handed one cannot change the cluster, whatever its rights.

    Make it inside a running event loop; close it, or use it as an async context manager.
    Every call ends within its deadline with a result or a KubeError (`rebalancer.kube.errors`).
    Objects are plain JSON dicts unless a call is told a msgspec type by `into`.
    """

    def __init__(self, access: Access, clock: Clock, rng: random.Random) -> None:
        self._transport = Transport(access, clock)
        self._caller = Caller(self._transport, clock, rng)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    @property
    def server_offset_seconds(self) -> float | None:
        """Server's clock minus ours at the last reply, within a second; None before the first."""
        return self._transport.server_offset_seconds

    @property
    def login_trouble(self) -> str | None:
        """Why our login could not be read again, None where it could; the one before stays in use."""
        return self._transport.login_trouble

    def stepped(self, seconds: float) -> None:
        """Our clock was set by so many seconds."""
        self._transport.stepped(seconds)

    @property
    def errors(self) -> Mapping[str, int]:
        """Calls that failed since the start, by the name of their error in lower case, or `timeout`."""
        return self._transport.errors

    def identify(self, user_agent: str) -> None:
        """Be known by this User-Agent in the server's audit log from now on."""
        self._transport.user_agent = user_agent

    async def get(self, ref: Ref) -> Object:
        """Read one object. Raises NotFound."""
        return await self._caller.read_object(Call("get", ref.resource, ref.path))

    async def get_scale(self, ref: Ref) -> Object:
        """Read the `autoscaling/v1` Scale of a target. Raises NotFound."""
        return await self._caller.read_object(Call("get", ref.resource, ref.path, "scale"))

    async def discover(self, api_version: str) -> Object:
        """The APIResourceList of a group's version: its kinds and their subresources. Raises NotFound."""
        group, _, version = api_version.rpartition("/")
        resource = Resource(group, version, "", namespaced=False, kind="APIResourceList")
        return await self._caller.read_object(Call("get", resource, f"/apis/{api_version}"))

    async def list(  # noqa: PLR0913  # what is asked for, and how
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        name: str = "",
        limit: int = 500,
        into: type[T] = RAW,
        attempts: int = ATTEMPTS,
    ) -> Listing[T]:
        """Read all objects of a namespace or the cluster, as of now (a consistent read), in pages.

        `name`: the one that is wanted; with a right to that name alone no other may be listed. A page token that
        expired starts the list afresh, twice at most; then that is Gone. Raises NotFound when the resource is not
        installed.
        """
        restarts_left = LIST_RESTARTS
        while True:
            pages: list[Page[T]] = []
            try:
                async for page in self._pages(resource, namespace, name, limit, into, attempts):
                    pages.append(page)  # noqa: PERF401 - what came before an error is looked at
                return _joined(pages)
            except Gone:
                if not pages or not restarts_left:
                    raise
                restarts_left -= 1

    async def stream(  # noqa: PLR0913  # what is asked for, and how
        self,
        resource: Resource,
        resource_version: str,
        *,
        namespace: str | None = None,
        name: str = "",
        into: type[T] = RAW,
        patience: Patience = DEFAULT_PATIENCE,
    ) -> AsyncGenerator[Changes[T], None]:
        """One watch: yields what each chunk of bytes completed, ends when the server ends it; `name` as in `list`.

        The first yield is empty: the server has taken the watch up, so that what follows will be told.
        Close it with `contextlib.aclosing`. Raises Gone (list again), Silent (so too) or Temporary (the
        connection broke: watch again). A line cut off by the end was never an event.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(round(patience.watch_seconds)),
            **_named(name),
        }
        call = Call("watch", resource, resource.path(namespace), query=query)
        lines, decode = LineSplitter(), change_decoder(into)
        async with self._transport.chunks(call, patience.idle_seconds) as chunks:
            yield []
            async for chunk in chunks:
                if whole := lines.feed(chunk):
                    yield [decode(line) for line in whole]

    async def _pages(  # noqa: PLR0913  # what is asked for, and how
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        limit: int,
        into: type[T],
        attempts: int,
    ) -> AsyncGenerator[Page[T], None]:
        def decode(body: bytes) -> Page[T]:
            return decode_list(body, into)

        token: dict[str, str] = {}
        while True:
            query = {"limit": str(limit), **_named(name), **token}
            call = Call("list", resource, resource.path(namespace), query=query)
            page = await self._caller.read(call, decode, attempts, PAGE_SECONDS)
            yield page
            if not page.continue_token:
                return
            token = {"continue": page.continue_token}


def _named(name: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={name}"} if name else {}


def _joined(pages: Sequence[Page[T]]) -> Listing[T]:
    items = [item for page in pages for item in page.items]
    return Listing(items, pages[0].resource_version, [text for page in pages for text in page.malformed])
