"""The requests that one replica carries within its SLO, learnt within minutes from replicas under load.

A full replica runs all it can, and that number *is* its capacity. One that keeps its latency carries at least as many
requests as run on it; where a load breaks the latency that lighter loads keep, and no queue is to blame, it carries at
most that load. The policy's figure is where this begins: a guess with a width, worth a second and a half of full
replicas, and no more than the cache would hold by the share of it that running requests hold. Of 128 requests with long
prompts a 7B model's holds 8.

The middle is a mean of logarithms, because a figure is wrong by a factor. Evidence that agrees with it makes it firmer,
up to ten minutes' worth; evidence against it wears it away within a minute or two, so another engine or other prompts
are learnt as quickly as the first ones. Loads below it that were kept say nothing: they only bear out a bound above
them.
"""

from math import exp, floor, log, sqrt
from typing import NamedTuple

from rebalancer.domain.readings import Carries

# The figure is off by a factor of two as often as not (standard deviation 0.7 in logarithms), half a minute of full
# samples by 15 %: 1 / 0.49 against 1 / (30 x 0.0225) in a second.
FIGURE_SECONDS = 1.5
FIGURE_WIDTH = 0.7
SAMPLE_SECONDS = 30.0  # of samples that say one thing together: what runs now runs on
SAMPLE_WIDTH = 0.15
MEMORY_SECONDS = 600.0  # of evidence, after which it fades
WEARS_SECONDS = 40.0  # of evidence to the contrary, which leaves 37 % of what was believed
AGREES = 0.1  # difference of logarithms that contradicts nothing
MORE = 0.05  # difference from which on what is carried in time is more than was believed
SURE_SECONDS = 12.0  # of full replicas, from which on what is carried in time is no longer a guess: three looks, faded
GUESS = 1.25  # times what was carried in time: the median of what carries "at least so much", where no more is known
WIDTHS = 1.28  # standard deviations either side: four of five lie within

STEP = 0.05  # of logarithms: loads are told apart by 5 %
FORGOTTEN_SECONDS = 0.1
LATENCY_SECONDS = 3_600.0  # of kept and broken latencies, after which they fade
# Carried in time without ever having been full: enough to go on where the policy says nothing. Ten minutes of it have
# faded to 550 s by then with looks every 5 s, to 548 with one a minute.
KNOWN_SECONDS = 545.0
BROKEN_SECONDS = 60.0  # of broken latencies beyond what contradicts them, before a load is held to be what breaks it
TOLERATED = 0.05  # of the evidence: latencies of a minute's window are late at each edge
LIGHT_WITHIN = 0.8  # of lighter loads that must have been within the SLO for the load to be what broke it
SETTLE_SECONDS = 30.0
REACH = log(2.0)  # that one look may claim beyond what is believed: it may be garbled, and what is true comes again
IDLE = 0.05  # of what is carried: below, a latency says nothing of loads
NOWHERE = 1_000_000  # a place above all loads
MOST_LOG = 100.0  # of requests on a replica: e^100 of them are on none


class Sums(NamedTuple):
    """Evidence about the logarithm of the requests that a replica carries, as fading sums over seconds.

    full: seconds of full replicas.
    at_least: seconds of other replicas that say how many they carry at least.
    logs: sum over these seconds of the logarithm.
    squares: sum over these seconds of its square.
    figure: weight that the policy's figure still has, in seconds.
    """

    full: float = 0.0
    at_least: float = 0.0
    logs: float = 0.0
    squares: float = 0.0
    figure: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of evidence, without the policy's figure."""
        return self.full + self.at_least


class CapacityPast(NamedTuple):
    """A `Capacity` for the checkpoint.

    prior: the policy's figure in requests, 0 where it has none.
    learnt: requests that a replica was taken to carry, 0 where that was unknown.
    readings: number of looks at loaded replicas that taught it.
    within: seconds in which the latency met the SLO, by load in steps of 5 % from `lowest` on.
    late: seconds in which it did not, by the same loads.
    carried: the `Sums`.
    lowest: logarithm of the lowest load over 0.05, rounded down; None: an older version's, whose loads are not known.
    cache: fading sums of requests times seconds and of the cache's share times seconds, and the requests that it would
        hold (0: unknown).
    """

    prior: float
    learnt: float
    readings: int
    within: tuple[float, ...] = ()
    late: tuple[float, ...] = ()
    carried: tuple[float, ...] = ()
    lowest: int | None = None
    cache: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def check(self) -> None:
        """Raises ValueError for sums that no loads have: whoever computed with them would fail in every cycle."""
        sums = Sums(*self.carried[: len(Sums._fields)])
        seconds = sums.seconds
        if (
            len(self.carried) > len(Sums._fields)
            or min(sums.full, sums.at_least, sums.squares, sums.figure) < 0.0
            or abs(sums.logs) > MOST_LOG * seconds
            or sums.squares > MOST_LOG**2 * seconds
        ):
            raise ValueError(f"no loads have the sums {self.carried}")


class Capacity:
    """The requests that one replica of a model carries; `learnt`: the middle, None while nothing is known.

    `prior`: the policy's figure, None where it has none; `readings`: how many looks at loaded replicas spoke.
    `cached_requests`: how many the cache would hold, by what those that run hold of it; 0: unknown.
    """

    __slots__ = (
        "_cache_used",
        "_figure",
        "_fresh",
        "_guess",
        "_late",
        "_middle",
        "_most",
        "_requests_cached",
        "_sums",
        "_within",
        "cached_requests",
        "learnt",
        "prior",
        "readings",
    )

    def __init__(self, prior: float | None, before: CapacityPast | None = None) -> None:
        """`before`: what was seen before, whatever the figure was then: a figure is a guess, and that is not."""
        self.prior = prior
        self._requests_cached, self._cache_used, self.cached_requests = (
            (0.0, 0.0, 0.0) if before is None else before.cache
        )
        self._begin()
        self.readings, self._fresh = 0, 0.0
        self._within: dict[int, float] = {}
        self._late: dict[int, float] = {}
        self._sums = Sums()
        if before is not None and before.lowest is not None:
            self.readings, self._sums = before.readings, Sums(*before.carried)
            self._within = {before.lowest + place: one for place, one in enumerate(before.within) if one}
            self._late = {before.lowest + place: one for place, one in enumerate(before.late) if one}
        if before is None or before.lowest is None or before.prior != (prior or 0.0):
            self._sums = self._sums._replace(figure=0.0 if prior is None else FIGURE_SECONDS)
        self._most = self._bound()
        self._conclude()

    def saw(self, carried: float, seconds: float, *, full: bool, within: bool | None) -> None:
        """Each replica carried so many requests (more than 0) for `seconds` (a pod's: its share of the model).

        `full`: throughout; `within`: whether the latency kept the SLO, None where that says nothing of the load.
        """
        size, middle = log(carried), self._middle
        if within is not None and carried > IDLE * (self.learnt or 0.0):
            place, histogram = floor(size / STEP), self._within if within else self._late
            histogram[place] = histogram.get(place, 0.0) + seconds
        if full:
            self._believe(size, seconds, middle, full=True)
        elif within:
            least = size + self._more_than(size)
            if self._carried_in_time_alone and middle is not None and least > middle + REACH:
                self._sums = Sums()
            if middle is None or least > middle + MORE:
                self._believe(least, seconds, middle, full=False)
        if full or (within is not None and (self.learnt is None or carried >= 0.5 * self.learnt)):
            self.readings += 1
        self._fresh += seconds
        if self._fresh >= SETTLE_SECONDS:
            self._settle()

    def cached(self, carried: float, use: float, seconds: float) -> None:
        """Each replica's requests, `carried` of them, held the share `use` (more than 0) of its cache."""
        stays = exp(-seconds / MEMORY_SECONDS)
        self._requests_cached = stays * self._requests_cached + seconds * carried
        self._cache_used = stays * self._cache_used + seconds * use
        holds = self._requests_cached / self._cache_used
        if abs(holds - self.cached_requests) > MORE * self.cached_requests:
            self.cached_requests = holds
            self._begin()
            self._conclude()

    def _begin(self) -> None:
        """Begins with the policy's figure, or with the requests that the cache holds if these are fewer."""
        self._guess = self.prior
        if self.prior is not None and self.cached_requests:
            self._guess = min(self.prior, self.cached_requests)
        self._figure = None if self._guess is None else log(self._guess)

    def _believe(self, size: float, seconds: float, middle: float | None, *, full: bool) -> None:
        """Adds `seconds` of evidence that a replica carries exp(`size`) requests."""
        if middle is not None:
            size = min(max(size, middle - REACH), middle + REACH)
        agrees = middle is None or abs(size - middle) <= AGREES
        stays = exp(-seconds / (MEMORY_SECONDS if agrees else WEARS_SECONDS))
        old, new = self._sums, seconds * size
        self._sums = Sums(
            full=stays * old.full + (seconds if full else 0.0),
            at_least=stays * old.at_least + (0.0 if full else seconds),
            logs=stays * old.logs + new,
            squares=stays * old.squares + new * size,
            figure=stays * old.figure,
        )
        self._conclude()

    def _more_than(self, size: float) -> float:
        """Logarithm by which a replica may carry more than it does in time, where the policy's figure is no guide.

        An engine carries more than that and no more than its cache holds: half way between, where the policy is silent.
        """
        if self._sums.full >= SURE_SECONDS or (self._figure is not None and size <= self._figure + MORE):
            return 0.0
        if self._figure is None and self.cached_requests:
            return max(log(GUESS), 0.5 * (log(self.cached_requests) - size))
        return log(GUESS)

    def _conclude(self) -> None:
        """Finds the logarithm of the middle, whatever bound latencies show, and the likely figure with that bound."""
        sums = self._sums
        seconds = sums.figure + sums.seconds
        self._middle = (sums.logs + sums.figure * (self._figure or 0.0)) / seconds if seconds else None
        self.learnt = self._likely()

    def _likely(self) -> float | None:
        middle = self._middle
        if middle is None or (self.prior is None and not self._known):
            return None
        likely = exp(middle) if self._sums.seconds or self._guess is None else self._guess
        return likely if self._most == NOWHERE else min(likely, exp(STEP * self._most))

    @property
    def _carried_in_time_alone(self) -> bool:
        """Whether all that is known is that a replica carries at least so much: nobody has seen it full.

        Loads far below what it carries in time now are then no evidence against it. Averaged with an hour at a tenth of
        a request, two requests that were carried in time counted as eleven replicas' work after 5 s, as two after 60.
        """
        return self.prior is None and self._sums.full < SURE_SECONDS

    @property
    def _known(self) -> bool:
        """Whether the evidence is enough where the policy has no figure."""
        return self._sums.full >= SURE_SECONDS or sum(self._within.values()) >= KNOWN_SECONDS

    def _settle(self) -> None:
        stays = exp(-self._fresh / LATENCY_SECONDS)
        self._fresh = 0.0
        self._within, self._late = (
            {place: stays * one for place, one in histogram.items() if one >= FORGOTTEN_SECONDS}
            for histogram in (self._within, self._late)
        )
        self._most = self._bound()
        self._conclude()

    def _bound(self) -> int:
        """The load that divides kept from broken latencies best, where lighter loads were kept; else NOWHERE."""
        if not self._late:
            return NOWHERE
        light = heavy = 0.0  # seconds below that were kept, and that were broken
        above_within, above_late = sum(self._within.values()), sum(self._late.values())
        best, most = NOWHERE, max(BROKEN_SECONDS, TOLERATED * (above_within + above_late))
        for place in sorted(self._within.keys() | self._late.keys()):
            gain = above_late - above_within
            if gain > most and light >= max(BROKEN_SECONDS, LIGHT_WITHIN * (light + heavy)):
                best, most = place, gain
            within, late = self._within.get(place, 0.0), self._late.get(place, 0.0)
            light, heavy, above_within, above_late = (
                light + within,
                heavy + late,
                above_within - within,
                above_late - late,
            )
        return best

    @property
    def carries(self) -> Carries | None:
        """The interval with its middle; None while nothing is known."""
        if self.learnt is None:
            return None
        sums = self._sums
        seconds = sums.seconds
        spread = max(0.0, sums.squares / seconds - (sums.logs / seconds) ** 2) if seconds else 0.0
        doubt = FIGURE_WIDTH**2 * sums.figure / (sums.figure + seconds) if sums.figure else 0.0
        doubt += SAMPLE_WIDTH**2 * SAMPLE_SECONDS / (SAMPLE_SECONDS + seconds)
        width = exp(WIDTHS * sqrt(doubt + spread))
        return Carries(
            prior=self.prior,
            learnt=round(self.learnt, 6),
            readings=self.readings,
            low=round(self.learnt / width, 6),
            high=round(self.learnt * width, 6) if self._most < NOWHERE or sums.full or not sums.at_least else None,
            cached=round(self.cached_requests, 6) if self._guess is not None and self._guess != self.prior else None,
        )

    @property
    def past(self) -> CapacityPast:
        """The capacity for the checkpoint."""
        places = self._within.keys() | self._late.keys()
        lowest, most = (min(places), max(places)) if places else (0, -1)
        span = range(lowest, most + 1)
        within, late = (
            tuple(round(histogram.get(place, 0.0), 1) for place in span) for histogram in (self._within, self._late)
        )
        cache = self._requests_cached, self._cache_used, self.cached_requests
        carried = tuple(self._sums)
        return CapacityPast(self.prior or 0.0, self.learnt or 0.0, self.readings, within, late, carried, lowest, cache)
