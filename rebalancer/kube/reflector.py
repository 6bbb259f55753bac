"""Keeps a sink up to date with one resource, through whatever the network does.

List, then watch from there. A watch that breaks goes on from the last revision seen; one that can no
longer go on starts with a new list. What the client library's watch does instead under each of these
faults is in its issues #136, #325, #308, #321 and #291; the tests carry their numbers.
"""

import math
import random
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, NoReturn, Protocol, TypeVar

from rebalancer.kube.errors import (
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Silent,
    Temporary,
    Unauthorized,
)
from rebalancer.kube.pace import Pacer, WatchPace
from rebalancer.kube.reader import KubeReader, Patience
from rebalancer.kube.resources import Resource
from rebalancer.kube.wire import RAW, Changes, T, name_in
from rebalancer.obs.clock import Clock

FRUITLESS_WATCHES: Final = 3
"""After so many watches in a row without a line only a list can tell what is true."""

TroubleKind = Literal[
    "absent", "forbidden", "gone", "invalid", "malformed", "rejected", "silent", "unauthorized", "unreachable"
]

_KINDS: Final[dict[type[KubeError], TroubleKind]] = {
    NotFound: "absent",
    Forbidden: "forbidden",
    Gone: "gone",
    Invalid: "invalid",
    Unauthorized: "unauthorized",
    Temporary: "unreachable",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a resource cannot be followed at the moment, for machines and for people.

    kind: one word for the cause. `absent`: not installed (as a CRD may be). `malformed`: objects that the type asked
        for does not fit, which exist nevertheless. `rejected`: the sink itself failed. `silent`: a watch said nothing
        for too long. The others: what the API server answered, or `unreachable`.
    message: sentence for people.
    objects: `malformed` objects that a list leaves out, each as `NAMESPACE/NAME`; else empty.
    changed: the `malformed` object that a watch told of, as `NAMESPACE/NAME`; else "".
    """

    kind: TroubleKind
    message: str
    objects: tuple[str, ...] = ()
    changed: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Told what happens to a resource, in order; `now` is when we learnt it, UTC epoch seconds.

    Its methods return at once. One that raises makes the reflector list again, after a wait.
    """

    def relisted(self, resource: Resource, items: Sequence[T_contra], resource_version: str, now: float) -> None:
        """All objects that there are: what is not among `items` is gone."""

    def changed(self, resource: Resource, obj: T_contra, now: float) -> None:
        """The object was added or modified."""

    def gone(self, resource: Resource, obj: T_contra, now: float) -> None:
        """The object was deleted; `obj` is its last state."""

    def alive(self, resource: Resource, now: float) -> None:
        """All that happened until about now was told: the watch spoke, if only by a bookmark."""

    def trouble(self, resource: Resource, reason: Trouble, now: float) -> None:
        """Told at each failed try; the next `relisted`, `changed` or `alive` ends it.

        `malformed` is told before the `relisted` that leaves those objects out, and in place of a `changed`; it is
        no trouble of the others.
        """


@dataclass
class Reflector(Generic[T]):
    """Follows one resource, in one namespace or the whole cluster; with a `name` that one object of it.

    client: what lists and watches.
    resource: kind of the objects that are followed.
    sink: what is told of each change.
    clock: the clock by which it waits, and dates what it tells.
    rng: random numbers that spread the waits.
    namespace: the namespace, None: the whole cluster.
    name: name of the one object that is followed, "": all objects.
    into: the msgspec type of the objects.
    pace: how often it may ask, and how long it waits.
    """

    client: KubeReader
    resource: Resource
    sink: Sink[T]
    clock: Clock
    rng: random.Random
    namespace: str | None = None
    name: str = ""
    into: type[T] = RAW
    pace: WatchPace = field(default_factory=WatchPace)

    def __post_init__(self) -> None:
        self._pacer = Pacer(self.pace, self.clock, self.rng)
        self._resource_version = ""
        self._resync_monotonic = math.inf
        self._broken = False

    async def run(self) -> NoReturn:
        """Follow for ever. Raises nothing but cancellation, and what `sink.trouble` raises."""
        while True:
            await self._pacer.turn()
            try:
                await self._relist()
                await self._follow()
            except Silent as error:  # no failure of the server's, as far as we know: list at once
                self._trouble("silent", str(error))
            except KubeError as error:
                self._put_off(error)
            except Exception as error:  # noqa: BLE001 - a sink that fails once must not end the watch
                self._trouble("rejected", f"{type(error).__name__}: {error}")
                self._pacer.failed()

    async def _relist(self) -> None:
        """One try: the waits between tries are ours, not the client's."""
        listing = await self.client.list(self.resource, self.namespace, name=self.name, into=self.into, attempts=1)
        if listing.malformed:
            names = tuple(name_in(text) for text in listing.malformed)
            self._malformed(Trouble("malformed", _few(listing.malformed), names))
        self.sink.relisted(self.resource, listing.items, listing.resource_version, self.clock.now())
        self._resource_version = listing.resource_version
        self._broken = False
        if self.pace.resync_seconds is not None:
            self._resync_monotonic = self.clock.monotonic() + self.pace.resync_seconds

    async def _follow(self) -> None:
        """Watch, and watch again where that broke off, until it is better to list."""
        while True:
            try:
                if not await self._watch():
                    self._put_off(Temporary("the watch ended without a line"))
            except Temporary as error:
                self._put_off(error)
            if self._resync_due() or self._pacer.failures >= FRUITLESS_WATCHES:
                return
            await self._pacer.turn()

    async def _watch(self) -> bool:
        """One watch, to its end; whether it said anything."""
        spoke = False
        changes = self.client.stream(
            self.resource,
            self._resource_version,
            namespace=self.namespace,
            name=self.name,
            into=self.into,
            patience=self._patience(),
        )
        async with aclosing(changes):
            async for batch in changes:
                if not batch:
                    self._taken_up()
                    continue
                self._tell(batch)
                spoke = True
                if self._resync_due():
                    break
        return spoke

    def _taken_up(self) -> None:
        """The server took up a watch that had broken: on a quiet resource its next word may be a minute away."""
        if self._broken:
            self._broken = False
            self.sink.alive(self.resource, self.clock.now())

    def _tell(self, batch: Changes[T]) -> None:
        now = self.clock.now()
        for change in batch:
            if _older(change.resource_version, self._resource_version):
                raise Gone(f"the watch went back from revision {self._resource_version} to {change.resource_version}")
            if change.malformed:
                self._malformed(Trouble("malformed", change.malformed, changed=name_in(change.malformed)))
            elif change.obj is not None:
                tell = self.sink.gone if change.kind == "DELETED" else self.sink.changed
                tell(self.resource, change.obj, now)
            self._resource_version = change.resource_version
        self._broken = False
        self.sink.alive(self.resource, now)
        self._pacer.succeeded()

    def _put_off(self, error: KubeError) -> None:
        self._broken = True
        self.sink.trouble(self.resource, trouble_of(error), self.clock.now())
        wait = error.retry_after_seconds if isinstance(error, Temporary) else None
        absent = isinstance(error, NotFound)
        self._pacer.failed(at_least_seconds=self.pace.absent_seconds if absent else wait)

    def _malformed(self, trouble: Trouble) -> None:
        self.sink.trouble(self.resource, trouble, self.clock.now())

    def _trouble(self, kind: TroubleKind, message: str) -> None:
        self.sink.trouble(self.resource, Trouble(kind, message), self.clock.now())

    def _resync_due(self) -> bool:
        """Asked when something was heard, so up to a minute late on a quiet resource."""
        return self.clock.monotonic() >= self._resync_monotonic

    def _patience(self) -> Patience:
        return Patience(self.pace.idle_seconds, self.rng.uniform(*self.pace.watch_seconds))


def _older(revision: str, than: str) -> bool:
    """Whether a stale server has told it. What is no number, as of another server's making, says nothing."""
    return revision.isdecimal() and than.isdecimal() and int(revision) < int(than)


def trouble_of(error: KubeError) -> Trouble:
    """An error as the trouble that it is to whoever follows a resource."""
    return Trouble(_KINDS.get(type(error), "unreachable"), str(error))


def _few(names: Sequence[str]) -> str:
    """The first three, and how many more."""
    shown = "; ".join(names[:3])
    return f"{shown}; and {len(names) - 3} more" if len(names) > 3 else shown  # noqa: PLR2004 - those 3
