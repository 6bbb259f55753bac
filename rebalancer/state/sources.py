"""Which sources have been listed, and which of them have gone silent."""

from collections.abc import Collection, Iterable

from rebalancer.domain.cluster import ADVISORY, SOURCES
from rebalancer.domain.events import SourceState
from rebalancer.domain.sync import Sync

SILENT_AFTER_SECONDS = 90.0  # watch bookmarks come every minute
# A cluster may do without KEDA, AIBrix and Karpenter.
OPTIONAL = frozenset({"scaledobjects", "podautoscalers", "nodepools", "nodeclaims"})
NOT_INSTALLED = "the cluster has no such API; overrides and write stops need charts/rebalancer/crds applied"


class Sources:
    """Every source is missing until listed once, or until the cluster says that it has no such API where it may do so.

    Those are KEDA's, Karpenter's, and kinds of targets that only some clusters know: such targets are missing then.

    An API that was there and vanishes is in trouble, not absent: an API server that restarts answers 404 for a while,
    and a write stop must not be forgotten over it.

    Of advisory sources what was told last stands, and one that nobody may read is waited for no longer. `others`: those
    that are advisory besides.
    """

    def __init__(self, names: Iterable[str] = tuple(SOURCES), others: Iterable[str] = ()) -> None:
        self.advisory = ADVISORY | {*others}
        self._missing = set(names)
        self._absent: set[str] = set()
        self._trouble: dict[str, str] = {}
        self._heard_at: dict[str, float] = {}
        self._synced_at: float | None = None
        self._others: set[str] = set()

    def follow(self, names: Collection[str], now: float) -> None:
        """Expect these besides: lists of the other kinds of targets that the policy names."""
        for name in self._others - {*names}:
            self._missing.discard(name)
            self._trouble.pop(name, None)
            self._heard_at.pop(name, None)
            self._absent.discard(name)
        self._missing.update({*names} - self._others)
        self._others = {*names}
        self._synced(now)

    def listed(self, source: str, now: float) -> None:
        """A complete list came."""
        self._absent.discard(source)
        self._there(source, now)

    def heard(self, source: str, now: float) -> None:
        """A single object came: the source is alive."""
        self._heard_at[source] = now

    def reported(self, event: SourceState, now: float) -> None:
        """A source came alive, or says why it is not."""
        source = event.source
        optional = source in OPTIONAL or source in self.advisory or source in self._others
        none = event.absent or (event.denied and source in self.advisory)
        if none and optional and (source in self._missing or source in self._absent):
            self._absent.add(source)
            self._there(source, now)
            if event.trouble is not None:
                self._trouble[source] = event.trouble
        elif event.trouble is not None or event.absent:
            self._trouble[source] = event.trouble or NOT_INSTALLED
        else:
            self._trouble.pop(source, None)
            self._heard_at[source] = now

    def _there(self, source: str, now: float) -> None:
        self._trouble.pop(source, None)
        self._heard_at[source] = now
        self._missing.discard(source)
        self._synced(now)

    def _synced(self, now: float) -> None:
        if not self._missing and self._synced_at is None:
            self._synced_at = now

    def stepped(self, seconds: float) -> None:
        """The clock was set: what was heard a second ago was heard a second ago, and we have watched for as long."""
        self._heard_at = {source: heard + seconds for source, heard in self._heard_at.items()}
        if self._synced_at is not None:
            self._synced_at += seconds

    def trouble(self) -> dict[str, str]:
        """Why, for each source that said so."""
        return dict(sorted(self._trouble.items()))

    def sync(self, now: float) -> Sync:
        """The sources that are missing and those that are stale, by name."""
        silent = {source for source, heard in self._heard_at.items() if now - heard > SILENT_AFTER_SECONDS}
        stale = (silent | self._trouble.keys()) - self._missing - self._absent - self.advisory
        return Sync(missing=tuple(sorted(self._missing)), stale=tuple(sorted(stale)), synced_at=self._synced_at)
