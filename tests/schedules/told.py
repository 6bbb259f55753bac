"""What an API server tells of its objects to whoever watches them."""

from rebalancer.domain.cluster import ClusterObject
from rebalancer.domain.events import Event, ObjectChanged, ObjectGone, SourceState


class Told:
    """One object that changed, or a bookmark where `thing` is None."""

    __slots__ = ("gone", "source", "thing")

    def __init__(self, source: str, thing: ClusterObject | None, *, gone: bool = False) -> None:
        self.source, self.thing, self.gone = source, thing, gone

    def event(self, now: float) -> Event:
        """As the process hears it."""
        if self.thing is None:
            return SourceState(self.source, now)
        return (ObjectGone if self.gone else ObjectChanged)(self.source, now, self.thing)
