"""How the product's state hears of the world: every change at once, metric samples when they come."""

from rebalancer.domain.cluster import SOURCES
from rebalancer.domain.events import Event, ObjectChanged, ObjectGone, ObjectsListed, SourceState
from rebalancer.state import ClusterState
from rebalancer.world import World
from rebalancer.world.values import value

ALIVE_EVERY_SECONDS = 60.0  # as watch bookmarks come


class Ears:
    """Takes over what is there when made, then whatever `hear` finds new."""

    def __init__(self, world: World, state: ClusterState) -> None:
        self._world = world
        self._state = state
        self._alive_at = world.now
        world.take_samples()
        listed: dict[str, list[object]] = {source: [] for source in SOURCES}
        state.apply_all([ObjectsListed(source, world.now) for source in listed], world.now)
        self.hear()

    def hear(self) -> None:
        """Changes first: a sample of a pod counts once the pod is known."""
        world, now = self._world, self._world.now
        events: list[Event] = []
        if now - self._alive_at >= ALIVE_EVERY_SECONDS:
            self._alive_at = now
            events += [SourceState(source, now) for source in SOURCES]
        for thing, gone in world.take_changes():
            source, seen = value(thing, world.revision(thing))
            events.append((ObjectGone if gone else ObjectChanged)(source, now, seen))
        events += world.take_notices()
        events += world.take_samples()
        if events:
            self._state.apply_all(events, now)
