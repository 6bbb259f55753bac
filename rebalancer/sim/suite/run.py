"""Plays the suite's tasks, each once: what was played with the same code and data is read, not played again."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

import msgspec

from rebalancer.loop.clock import RealClock
from rebalancer.sim.limits.bound import bound
from rebalancer.sim.product import PlanTimes
from rebalancer.sim.product.run import Actuation
from rebalancer.sim.suite.cases import SuiteCase, budgets, data_digest, development
from rebalancer.sim.suite.given import EXACT
from rebalancer.sim.suite.peers import BY_NAME, DIGEST_LETTERS, LIMITS, TOLD_THE_FUTURE, Peer
from rebalancer.sim.suite.rounds import Round, cpu_seconds, rounds
from rebalancer.sim.suite.row import BOUND, OURS, Played, Row, played
from rebalancer.sim.suite.sources import digest_of, digest_of_values
from rebalancer.sim.suite.tuning import Found, entrants, key, stale
from rebalancer.sim.suite.worlds import WORLDS, Arena, World, open_arena
from rebalancer.sim.traces.folder import MissingTrace

RETUNE = "python -m rebalancer.sim.suite tune"
BOUNDED = frozenset({"S2", "S3", "S7"})  # scenarios that the linear program speaks of
_OF_EVERY = ("rebalancer.sim.suite.row", "rebalancer.sim.suite.worlds", "rebalancer.sim.suite.given")
_OF_WORLD: Mapping[World, tuple[str, ...]] = {
    "fluid": ("rebalancer.sim.fluid.fast",),
    "requests": ("rebalancer.sim.requests.world",),
    "batching": ("rebalancer.sim.batching.world",),
}
_OF_OURS: Mapping[World, tuple[str, ...]] = {
    "fluid": ("rebalancer.sim.product", "rebalancer.sim.suite.told"),
    "requests": ("rebalancer.sim.product", "rebalancer.sim.requests.plug"),
    "batching": ("rebalancer.sim.product", "rebalancer.sim.batching.plug"),
}
# They import every controller and every world: what a run takes from them is named besides.
_LEAVES = frozenset({"rebalancer.sim.suite.peers", "rebalancer.sim.suite.worlds"})


@dataclass(frozen=True, slots=True)
class Task:
    """One run.

    case: what is played.
    controller: who plays: `ours`, the name of a peer, or `bound`.
    seed: seed of what chance decides.
    tuning: the setting of a peer that has targets, as "signal@target"; None for all others.
    actuation: how the product acts, None for all others.
    world: the world in which the case is played.
    """

    case: SuiteCase
    controller: str
    seed: int
    tuning: str | None = None
    actuation: Actuation | None = None
    world: World = "fluid"

    @property
    def row(self) -> Row:
        """The run's row, still without numbers."""
        case = self.case
        start = case.start_seconds or None
        who = self.controller, self.actuation, self.tuning, self.seed, self.world
        return Row(case.scenario, case.day, case.gpus, start, *who, given=case.given.name)

    def file(self, contents: str) -> str:
        """The name under which its result is kept; `contents`: digest of all values that it is played with."""
        case = self.case
        who = f"{self.controller}-{self.actuation or self.tuning}-{self.seed}-{self.world}-{case.given.name}"
        digest = sha256((digest_of(self.modules, _LEAVES) + contents).encode()).hexdigest()[:DIGEST_LETTERS]
        return f"{f'{case.budget}-{case.day}-{who}'.replace('/', '-')}-{digest}.json"

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the modules whose code decides the outcome, with all that they import."""
        if self.controller == BOUND:
            return "rebalancer.sim.limits.bound", "rebalancer.sim.suite.row"
        if self.controller == OURS:
            return _OF_EVERY + _OF_OURS[self.world]
        return _OF_EVERY + _OF_WORLD[self.world] + tuple(each.__name__ for each in BY_NAME[self.controller].modules)

    @property
    def cpu_seconds(self) -> float:
        """About what it takes."""
        return cpu_seconds(self.case, self.world, self.controller)


@dataclass(frozen=True, slots=True)
class Field:
    """The controllers that play every case, and in which worlds.

    peers: the peers that play.
    actuations: the ways of acting in which the product plays, empty where it does not play.
    with_bound: whether the lower bound is worked out too.
    worlds: the worlds in which cases are played.
    settings: "signal@target" by peer, for peers that are not played as they were tuned.
    """

    peers: tuple[Peer, ...]
    actuations: tuple[Actuation, ...] = ()
    with_bound: bool = False
    worlds: tuple[World, ...] = WORLDS
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be played, and what people should know of it (tunings that are missing or stale)."""

    tasks: tuple[Task, ...]
    warnings: tuple[str, ...]


def plan_tasks(
    cases: Sequence[SuiteCase], field: Field, tuned: Found, folder: Path, *, without_missing: bool = False
) -> Planned:
    """Every controller on every case, in every world and with every seed that it has (`rounds`).

    Raises MissingTrace; `without_missing`: cases whose traces are not there are left out, and told.
    """
    warnings: dict[str, None] = {}
    tasks: list[Task] = []
    if without_missing:
        cases = [case for case in cases if _is_there(case, folder, warnings)]
    data = {budget: data_digest(development(budget).build(folder)) for budget in budgets(cases)}
    for case in cases:
        settings = _settings(case, field, tuned, data[case.budget], warnings)
        for each in rounds(case):
            if each.world in field.worlds:
                tasks += _played_in(each, case, field, settings)
    return Planned(tuple(tasks), tuple(warnings))


def players(case: SuiteCase, peers: Iterable[Peer]) -> Iterator[Peer]:
    """The peers of `peers` that play the case. Who knows the future is told nothing wrong or late."""
    for peer in entrants(case.budget, peers):
        if case.given == EXACT or peer.name not in LIMITS | TOLD_THE_FUTURE:
            yield peer


def _settings(
    case: SuiteCase, field: Field, tuned: Found, data: str, warnings: dict[str, None]
) -> dict[str, str | None]:
    """The tuning of every peer that has one or needs none."""
    settings: dict[str, str | None] = {}
    for peer in players(case, field.peers):
        entry = tuned.get(key(case.budget, peer))
        if peer.name in field.settings:
            settings[peer.name] = field.settings[peer.name]
        elif not peer.targets:
            settings[peer.name] = None
        elif entry is None:
            warnings[f"{key(case.budget, peer)}: not tuned, left out; {RETUNE}"] = None
        else:
            settings[peer.name] = entry.tuning
            if why := stale(entry, peer, data):
                warnings[f"{key(case.budget, peer)}: stale, {why}; {RETUNE}"] = None
    return settings


def _played_in(each: Round, case: SuiteCase, field: Field, settings: Mapping[str, str | None]) -> Iterator[Task]:
    world, seed, actuations = each
    for name, tuning in settings.items():
        yield Task(case, name, seed, tuning, world=world)
    if field.with_bound and world == "fluid" and case.scenario in BOUNDED and case.is_plain:
        yield Task(case, BOUND, seed)
    for actuation in actuations:
        if actuation in field.actuations:
            yield Task(case, OURS, seed, actuation=actuation, world=world)


def _is_there(case: SuiteCase, folder: Path, warnings: dict[str, None]) -> bool:
    try:
        case.build(folder)
    except MissingTrace as error:
        warnings[f"{case.scenario} {case.day} {case.gpus}: left out, {error}"] = None
        return False
    return True


def run_task(task: Task, folder: Path, results: Path) -> Played:
    """The result of a task, from `results` when it is there. Raises MissingTrace."""
    arena = open_arena(task.case, task.world, folder, task.seed)
    path = results / task.file(digest_of_values(arena.contents))
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Played)
    result = _play(task, arena)
    results.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.encode(result))
    partial.replace(path)
    return result


def run_all(play: Callable[[Task], Played], tasks: Sequence[Task], processes: int) -> Iterator[tuple[Task, Played]]:
    """Each task with its result as they end; `play` is `run_task` with the rest of its arguments.

    The longest are begun first, so that no core waits for a last long one.
    """
    longest_first = sorted(tasks, key=lambda task: -task.cpu_seconds)
    one = partial(_with_task, play)
    if processes == 1:
        yield from map(one, longest_first)
        return
    with get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(one, longest_first)


def _with_task(play: Callable[[Task], Played], task: Task) -> tuple[Task, Played]:
    return task, play(task)


def _play(task: Task, arena: Arena) -> Played:
    if task.controller == BOUND:
        share = bound(arena.scenario).late_work_share
        return Played(msgspec.structs.replace(task.row, late_work_share=share), [])
    row = task.row
    if task.controller == OURS:
        times = PlanTimes(RealClock().monotonic)
        run = arena.ours(task.actuation or "scale", task.seed, times)
        row = msgspec.structs.replace(row, plan_p99_ms=times.p99_ms)
    else:
        peer = BY_NAME[task.controller]
        run = arena.peer(peer.make(task.case.given.tuning(task.tuning)), peer.name)
    return msgspec.structs.replace(played(row, run.record, run.minutes), slow=run.slow)
