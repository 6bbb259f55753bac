"""One watch: the changes of a resource from a revision on, as lines, with bookmarks, until its time is over."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from rebalancer.sandbox.api.resources import Obj, Target
from rebalancer.sandbox.api.selection import Selection
from rebalancer.sandbox.api.status import StatusError, integer
from rebalancer.sandbox.api.store import Revision, Store

TIMEOUT_SECONDS = 1800  # when the client names none, as the API server's --min-request-timeout
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_encode = msgspec.json.Encoder().encode


class Watch:
    """Reads the store's log at its own pace: a client too slow for the history kept is told 410, as in Kubernetes.

    Somebody must call `tick` with the clock's monotonic seconds now and then: bookmarks and the end come from there.
    """

    def __init__(self, store: Store, target: Target, query: Mapping[str, str], opened_monotonic: float) -> None:
        """Raises StatusError for a query that makes no sense, or from a revision that does not exist yet."""
        self._store = store
        self._target = target
        self._selection = Selection.parse(target.namespace, query)
        self._from_revision = integer(query.get("resourceVersion") or 0, "resourceVersion")
        if self._from_revision > store.revision:
            raise StatusError(504, f"Too large resource version: {self._from_revision}, current: {store.revision}")
        self._initial = query.get("sendInitialEvents", "").lower() == "true"
        self._bookmarks = query.get("allowWatchBookmarks", "").lower() in {"true", "1"}
        self._bookmark_due = False
        self._told_monotonic = opened_monotonic
        self._end_monotonic = opened_monotonic + integer(
            query.get("timeoutSeconds") or TIMEOUT_SECONDS, "timeoutSeconds"
        )
        self._position = 0
        self._over = False
        self._woken = asyncio.Event()

    def tick(self, monotonic: float, bookmark_seconds: float) -> None:
        """Make a bookmark due after `bookmark_seconds` without one, and end the watch when its time is over."""
        if self._bookmarks and monotonic >= self._told_monotonic + bookmark_seconds:
            self._told_monotonic = monotonic
            self._bookmark_due = True
            self._woken.set()
        if monotonic >= self._end_monotonic:
            self.close()

    def close(self) -> None:
        """End the stream after what is known now, with a last bookmark where bookmarks are wanted."""
        self._over = self._bookmark_due = True
        self._woken.set()

    async def stream(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write the lines of this watch until it is over. An expired revision becomes an ERROR line, then the end."""
        unsubscribe = self._store.subscribe(self._wake)
        try:
            await write(self._opening())
            while not self._over:
                await self._woken.wait()
                self._woken.clear()
                lines = self._news()
                if lines:
                    await write(lines)
        except StatusError as error:
            await write(_line("ERROR", _encode(error.status())))
        finally:
            unsubscribe()

    def _wake(self, change: Revision) -> None:
        if change.resource == self._target.resource:
            self._woken.set()

    def _opening(self) -> bytes:
        """Without a revision to go on from, everything there is comes first, as ADDED."""
        log = self._store.log(self._target.resource)
        if self._from_revision and not self._initial:
            self._position = log.position_after(self._from_revision)
            return self._news()
        self._position = log.end
        lines = [_line("ADDED", last.raw) for last in self._store.select(self._target.resource, self._selection)]
        if self._initial and self._bookmarks:
            lines.append(self._bookmark({INITIAL_EVENTS_END: "true"}))
        return b"".join(lines)

    def _news(self) -> bytes:
        """The lines of all changes since the last call, and the bookmark that is due."""
        log = self._store.log(self._target.resource)
        changes = log.since(self._position)
        self._position = log.end
        lines = [line for change in changes if (line := self._event_line(change))]
        if self._bookmark_due and self._bookmarks:
            lines.append(self._bookmark({}))
        self._bookmark_due = False
        return b"".join(lines)

    def _event_line(self, change: Revision) -> bytes:
        """A change as this selection sees it: an object that comes to match is ADDED, one that ceases to is DELETED."""
        before = change.previous is not None and self._selection.matches(change.previous)
        after = change.kind != "DELETED" and self._selection.matches(change.obj)
        if after:
            return _line("MODIFIED" if before else "ADDED", change.raw)
        return _line("DELETED", change.raw) if before else b""

    def _bookmark(self, annotations: Mapping[str, str]) -> bytes:
        resource = self._target.resource
        metadata: Obj = {"resourceVersion": str(self._store.revision)}
        if annotations:
            metadata["annotations"] = annotations
        return _line(
            "BOOKMARK", _encode({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata})
        )


def _line(kind: str, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), raw)
