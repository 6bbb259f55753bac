"""A peer's run, as `rebalancer simulate` asks for it by name.

`@best` searches signals and targets as the suite tunes, on this very traffic, and keeps the setting with the fewest
violations: hindsight, which is in the peer's favour.
"""

from collections.abc import Callable, Sequence

from rebalancer.sim.controller import Controller, Seen
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.score import score
from rebalancer.sim.suite.names import BEST, Entry, UnknownController
from rebalancer.sim.suite.search import COARSE, Search, SearchOutcome

MORE_RUNS = 15  # of a search, about, after its coarse steps
SIGNALS_OF_KNOB = 2.4  # that a turn of it tries, about


class _Told:
    """A controller that says how far it is."""

    def __init__(self, inner: Controller, tell: Callable[[float], None]) -> None:
        self.every_seconds = inner.every_seconds
        self._inner, self._tell = inner, tell

    def decide(self, seen: Seen) -> Sequence[int]:
        self._tell(seen.now / seen.scenario.seconds)
        return self._inner.decide(seen)


def play_entry(entry: Entry, scenario: Scenario, delay_seconds: int, tell: Callable[[float], None]) -> Record:
    """The run of a peer on the fast path; `tell` hears the share that is done, which is a guess while one is tuned.

    Raises UnknownController for a peer that is made for other scenarios.
    """
    if not entry.peer.plays(scenario.name):
        raise UnknownController(f"{entry.peer.name} plays {', '.join(sorted(entry.peer.scenarios))} only")

    def run(tuning: str | None, name: str, tell: Callable[[float], None]) -> Record:
        return play(scenario, _Told(entry.peer.make(tuning), tell), name, delay_seconds)

    if entry.tuning != BEST:
        record = run(entry.tuning, entry.name, tell)
        tell(1.0)
        return record
    done = 0
    tried = len(entry.peer.begins) + SIGNALS_OF_KNOB * len(entry.peer.knobs)
    many = MORE_RUNS + tried * len(entry.peer.targets[::COARSE])

    def tried_run(tuning: str) -> Record:
        return run(tuning, f"{entry.peer.name}:{tuning}", lambda share: tell(min(0.99, (done + share) / many)))

    def judge(tuning: str, limit: float) -> SearchOutcome | None:
        nonlocal done
        total = score(tried_run(tuning))
        done += 1
        return SearchOutcome(total.violation, total.gpu_hours) if total.violation <= limit else None

    best = tried_run(Search(entry.peer, judge).best())  # again: all runs of a search would be gigabytes of a day
    tell(1.0)
    return best
