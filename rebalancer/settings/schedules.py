"""Schedules that say something, at a time that comes, and whose floors fit the GPUs there are.

No check asks what day it is: a policy that was good yesterday must be good when the service starts again today, so a
schedule whose last day has passed is no problem.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from pydantic import ValidationError

from rebalancer.domain.schedules import Window, window_on
from rebalancer.domain.timetable import Schedule
from rebalancer.domain.zones import local
from rebalancer.settings.document import Path
from rebalancer.settings.draft import DraftFinding, DraftPart, pools_by_name

# Every weekday and every change of clocks is among the days of one year and a week; the rules of zones repeat yearly.
YEAR_DAYS = 371
ANY_YEAR = date(2027, 1, 1)


def unique_schedule_names(policy: DraftPart) -> Iterator[DraftFinding]:
    """A schedule is known by its name in its model."""
    for model in policy.parts("models"):
        seen: set[str | None] = {None}
        for schedule in model.parts("schedules"):
            name = schedule.text("name")
            if name in seen and name is not None:
                yield DraftFinding(schedule.at("name"), f"schedule {name} is used twice in the model", fix="rename one")
            seen.add(name)


def bounds_of_schedules(policy: DraftPart) -> Iterator[DraftFinding]:
    """A schedule has a floor or a cap, in order, and within what the model may have."""
    for model in policy.parts("models"):
        floor, most = model.whole("minReplicas"), model.whole("maxReplicas")
        if floor is not None and most is not None and floor > most:
            continue  # said of the model
        for schedule in model.parts("schedules"):
            low, high = schedule.whole("minReplicas"), schedule.whole("maxReplicas")
            if not schedule.given("minReplicas") and not schedule.given("maxReplicas"):
                yield DraftFinding(
                    schedule.path, "the schedule changes nothing", fix="give it minReplicas, maxReplicas or both"
                )
            elif low is not None and high is not None and low > high:
                what, fix = f"minReplicas {low} > maxReplicas {high}", "raise maxReplicas or lower minReplicas"
                yield DraftFinding(schedule.at("minReplicas"), what, f"1 to {high}", fix)
            elif low is not None and most is not None and low > most:
                what = f"minReplicas {low} > the model's maxReplicas {most}"
                yield DraftFinding(
                    schedule.at("minReplicas"), what, f"1 to {most}", "lower it or raise the model's maxReplicas"
                )
            elif high is not None and floor is not None and high < floor:
                what = f"maxReplicas {high} < the model's minReplicas {floor}, which wins"
                yield DraftFinding(
                    schedule.at("maxReplicas"), what, f"from {floor}", "raise it or lower the model's minReplicas"
                )


def windows_that_happen(policy: DraftPart) -> Iterator[DraftFinding]:
    """Windows that begin on no day, or that the change of clocks skips altogether."""
    for model in policy.parts("models"):
        for part in model.parts("schedules"):
            schedule = _valid(part)
            if schedule is None or schedule.first_date is None or schedule.last_date is None:
                continue  # one of seven days comes
            first, last = date.fromisoformat(schedule.first_date), date.fromisoformat(schedule.last_date)
            if last < first:
                what = f"lastDate {last} is before firstDate {first}: the window never happens"
                yield DraftFinding(part.at("lastDate"), what, f"from {first}")
            elif not any(_windows(schedule, _days(first, last))):
                what = f"the window never happens: it begins on no day from {first} to {last}"
                yield DraftFinding(
                    part.path, what, fix="other days, other dates, or a time that clocks do not skip there"
                )


class _Claim(NamedTuple):
    """What one model may ask for: replicas of `gpus` in any of `pools`; its `schedules` with a floor, their paths."""

    model: str
    gpus: int
    floor: int
    pools: frozenset[str]
    schedules: tuple[tuple[Schedule, Path], ...]

    @property
    def most(self) -> int:
        """GPUs of its highest floor."""
        return self.gpus * max([self.floor, *(each.min_replicas or 0 for each, _ in self.schedules)])


def scheduled_floors_fit(policy: DraftPart) -> Iterator[DraftFinding]:
    """Floors that hold at the same time fit the limits of the pools in which they can be met.

    Asked for each pool, each set of pools that one model may use, and all of them: what is refused can never fit.
    """
    limits = {name: pool.whole("gpuLimit") for name, pool in pools_by_name(policy).items()}
    claims = tuple(_claims(policy))
    places = {frozenset({name}) for name in limits} | {claim.pools for claim in claims} | {frozenset(limits)}
    for place in sorted(places, key=lambda each: (len(each), sorted(each))):
        limit = sum(limits.get(name) or 0 for name in place)
        inside = [claim for claim in claims if claim.pools <= place]
        unknown = any(limits.get(name) is None for name in place)
        if unknown or sum(claim.most for claim in inside) <= limit or sum(c.gpus * c.floor for c in inside) > limit:
            continue
        excess = _first_excess(inside, limit)
        if excess is not None:
            yield _excess(excess, sorted(place), limit)
            return


def _claims(policy: DraftPart) -> Iterator[_Claim]:
    for model in policy.parts("models"):
        name, gpus, floor = model.text("id"), model.whole("gpusPerReplica"), model.whole("minReplicas")
        pools = frozenset(pool for target in model.parts("targets") if (pool := target.text("pool")) is not None)
        valid = ((_valid(part), part.at("minReplicas")) for part in model.parts("schedules"))
        raising = tuple((one, path) for one, path in valid if one is not None and one.min_replicas is not None)
        if name is not None and gpus is not None and floor is not None and pools:
            yield _Claim(name, gpus, floor, pools, raising)


@dataclass(frozen=True, slots=True)
class _Excess:
    """A window at whose begin floors exceed the pool: the GPUs that they need by model, and the `path` of its floor."""

    window: Window
    path: Path
    needs: dict[str, int]


class _Edge(NamedTuple):
    """At `at` (UTC epoch seconds) a `window` of the claim at `place` ends or `begins`; `path`: of its floor."""

    at: float
    place: int
    window: Window
    path: Path
    begins: bool

    @property
    def order(self) -> tuple[float, bool, int, str]:
        """What ends at an instant has ended when others begin there."""
        return self.at, self.begins, self.place, self.window.schedule.name


def _first_excess(claims: list[_Claim], limit: int) -> _Excess | None:
    """The first window at whose beginning the floors of all models together need more GPUs than `limit`.

    A year of 500 models has half a million edges: each one looks at its own claim alone.
    """
    needs = Counter({claim.model: claim.gpus * claim.floor for claim in claims})
    total = needs.total()
    running: list[list[Window]] = [[] for _ in claims]
    for edge in sorted(_edges(claims), key=lambda each: each.order):
        windows = running[edge.place] = [one for one in running[edge.place] if one.ends > edge.at]
        if edge.begins:
            windows.append(edge.window)
        claim = claims[edge.place]
        need = claim.gpus * max([claim.floor, *(one.schedule.min_replicas or 0 for one in windows)])
        total += need - needs[claim.model]
        needs[claim.model] = need
        if total > limit:
            return _Excess(edge.window, edge.path, dict(needs))
    return None


def _edges(claims: list[_Claim]) -> Iterator[_Edge]:
    days = _days_of(schedule for claim in claims for schedule, _ in claim.schedules)
    for place, claim in enumerate(claims):
        for schedule, path in claim.schedules:
            for window in _windows(schedule, days):
                yield _Edge(window.begins, place, window, path, begins=True)
                yield _Edge(window.ends, place, window, path, begins=False)


def _excess(excess: _Excess, pools: list[str], limit: int) -> DraftFinding:
    schedule = excess.window.schedule
    begins = f"{local(excess.window.begins, schedule.time_zone):%a %Y-%m-%d %H:%M} {schedule.time_zone}"
    shown = sorted(excess.needs.items(), key=lambda need: (-need[1], need[0]))[:5]
    who = ", ".join(f"{model} {gpus}" for model, gpus in shown)
    what = (
        f"when window {schedule.name} begins ({begins}) floors need {sum(excess.needs.values())} GPUs of"
        f" {' and '.join(pools)}, gpuLimit is {limit} ({who})"
    )
    return DraftFinding(excess.path, what, fix="lower a floor, part the windows, or raise gpuLimit")


def _valid(part: DraftPart) -> Schedule | None:
    """The schedule, when each of its fields is as the schema says."""
    try:
        return Schedule.model_validate(part.raw, by_alias=True, by_name=False)
    except ValidationError:
        return None


def _windows(schedule: Schedule, days: Iterable[date]) -> Iterator[Window]:
    return (window for day in days if (window := window_on(schedule, day)) is not None)


def _days(first: date, last: date) -> list[date]:
    """Days from `first` to `last`, at most a year of them."""
    return [first + timedelta(days=n) for n in range(min((last - first).days + 1, YEAR_DAYS))]


def _days_of(schedules: Iterable[Schedule]) -> list[date]:
    """A year that stands for all, and the days that any schedule names, with those around them."""
    days = set(_days(ANY_YEAR, date.max))
    for schedule in schedules:
        first, last = schedule.first_date, schedule.last_date
        if first is not None:
            begin = date.fromisoformat(first) - timedelta(days=2)
            days.update(_days(begin, date.max if last is None else date.fromisoformat(last) + timedelta(days=2)))
        elif last is not None:
            end = date.fromisoformat(last)
            days.update(_days(end - timedelta(days=YEAR_DAYS - 1), end))
    return sorted(days)
