"""Schedules of the policy as a source of rulings: what they say now, and in words what they do and what comes next."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.schedules import ScheduledBounds, Turn, Window, next_turn, standing_at, stands_until
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.zones import local

MINUTE_SECONDS = 60  # dates change at a full minute in every zone, and with them the words
KEPT_AT_MOST = 4096


@dataclass(frozen=True)
class Scheduled:
    """The rulings of a model's schedules at an instant, in numbers and in words.

    model: its entry in the policy.
    lead_seconds: seconds by which a floor counts before its window begins.
    at: the instant.
    until: before this instant nothing of it changes.
    standing: the bounds that hold.
    turn: the next change of the bounds, None where none comes within 8 days.
    """

    model: Model
    lead_seconds: float
    at: float
    until: float
    standing: ScheduledBounds
    turn: Turn | None

    @cached_property
    def floor_words(self) -> str:
        """`floor 6 by schedule rush until 10:00 Europe/Berlin (09:00 UTC)`; "" when the policy's own floor counts."""
        window = self.standing.floor_by
        return "" if window is None else f"floor {window.schedule.min_replicas} {self._by(window)}"

    @cached_property
    def cap_words(self) -> str:
        """`cap 12 by schedule rush until 10:00 Europe/Berlin (09:00 UTC)`, and whether a floor outweighs it."""
        window = self.standing.cap_by
        most = None if window is None else window.schedule.max_replicas
        if window is None or most is None:
            return ""
        beaten = f", outweighed by the floor {self.standing.floor}" if most < self.standing.floor else ""
        return f"cap {most} {self._by(window)}{beaten}"

    @cached_property
    def words(self) -> str:
        """The bounds and their next change in words, in the zone of the first schedule; "" when nothing is near."""
        words = [self.floor_words, self.cap_words]
        if self.turn is not None:
            when = clock_in(self.turn.at, self.model.schedules[0].time_zone, self.at)
            words.append(f"next {when}: {self._bounds(self.turn.standing)}")
        return "; ".join(word for word in words if word)

    def _by(self, window: Window) -> str:
        zone, name = window.schedule.time_zone, window.schedule.name
        span = f"until {clock_in(window.ends, zone, self.at)}"
        if self.at < window.begins:
            span = f"from {clock_in(window.begins, zone, self.at)}, asked for one start earlier"
        return f"by schedule {name} {span}" + (f" ({window.schedule.reason})" if window.schedule.reason else "")

    def _bounds(self, standing: ScheduledBounds) -> str:
        """`floor 2, no cap`: a cap is one that a schedule sets."""
        cap = f"cap {standing.cap}" if standing.cap < self.model.max_replicas else "no cap"
        return f"floor {standing.floor}, {cap}"


def resolve_schedules(snapshot: Snapshot, policy: Policy) -> dict[str, Scheduled]:
    """Per id of the models that have schedules.

    A floor is asked for one slow start (nine of ten take at most so long, where known) and one planning period before
    its window: the plan that asks may come that much later, and a floor that is late is missing.
    """
    measured = {  # journals of an older version know one figure
        view.id: view.load_seconds if view.slow_load_seconds is None else view.slow_load_seconds
        for view in snapshot.models
    }
    by_model = {}
    for model in policy.models:
        if model.schedules:
            start = measured.get(model.id)
            lead = (model.load_seconds if start is None else start) + policy.plan_every_seconds
            by_model[model.id] = _cached(model, snapshot.at, lead)
    return by_model


def scheduled_at(model: Model, at: float, lead_seconds: float) -> Scheduled:
    """The rulings of the schedules of `model` at `at`."""
    until = min(stands_until(model, at, lead_seconds), (at // MINUTE_SECONDS + 1) * MINUTE_SECONDS)
    standing, turn = standing_at(model, at, lead_seconds), next_turn(model, at, lead_seconds)
    return Scheduled(model, lead_seconds, at, until, standing, turn)


# Zones and words of 100 models cost 9 ms, and a plan every 10 s finds them as they were. By the identity of the model,
# which the value itself keeps alive: to hash its schedules costs as much as to look them up.
_CACHE: dict[int, Scheduled] = {}


def _cached(model: Model, at: float, lead_seconds: float) -> Scheduled:
    """`scheduled_at`, made anew only when it says something else."""
    known = _CACHE.get(id(model))
    if known is None or known.lead_seconds != lead_seconds or not known.at <= at < known.until:
        if len(_CACHE) >= KEPT_AT_MOST:
            _CACHE.clear()
        known = _CACHE[id(model)] = scheduled_at(model, at, lead_seconds)
    return known


def clock_in(instant: float, zone: str, at: float) -> str:
    """An instant as clocks in `zone` show it, and in UTC; with the date where that is not the one of `at`."""
    there, here = (_clock(local(instant, name), local(at, name)) for name in (zone, "UTC"))
    return f"{there} {zone}" if zone == "UTC" else f"{there} {zone} ({here} UTC)"


def _clock(then: datetime, now: datetime) -> str:
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%a %Y-%m-%d %H:%M}"
