"""Plays the suite's tasks, each once: what was played with the same code and data is read, not played again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec

import rebalancer
from rebalancer.sim.fast import play
from rebalancer.sim.limits.bound import bound
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.product.run import Actuation
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.suite.cases import FAST_ONLY, Case, budgets, data_digest, development
from rebalancer.sim.suite.peers import BY_NAME, DIGEST_LETTERS, Peer
from rebalancer.sim.suite.row import OURS, Played, Row, played
from rebalancer.sim.suite.tuning import Found, key, stale

BOUND = "bound"
RETUNE = "python -m rebalancer.sim.suite tune"
BOUNDED = frozenset({"S2", "S3", "S7"})  # scenarios that the linear program speaks of
# What decides the outcome of a run, besides a peer's own code.
_WORLD = (
    *(f"sim/{name}.py" for name in ("controller", "fast", "fleet", "record", "scenario", "score", "serving")),
    "sim/requests/fluid.py",
    "sim/suite/row.py",
)
_MORE = {
    OURS: ("domain", "state", "planning", "act", "loop", "world", "sim/product", "sim/peers/*.py"),
    BOUND: ("sim/limits/bound.py",),
}


@dataclass(frozen=True, slots=True)
class Task:
    """One run. `tuning` of a peer that has targets; `actuation` of the product."""

    case: Case
    controller: str
    seed: int
    tuning: str | None = None
    actuation: Actuation | None = None

    @property
    def row(self) -> Row:
        """Its row, still without numbers."""
        case = self.case
        start = case.start_seconds or None
        return Row(case.scenario, case.day, case.gpus, start, self.controller, self.actuation, self.tuning, self.seed)

    def file(self, data: str) -> str:
        """The name under which its result is kept."""
        case = self.case
        name = f"{case.budget}-{case.day}-{self.controller}-{self.actuation or self.tuning}-{self.seed}"
        digest = sha256((self._code + data).encode()).hexdigest()[:DIGEST_LETTERS]
        return f"{name.replace('/', '-')}-{digest}.json"

    @property
    def _code(self) -> str:
        """Digests of what decides the outcome."""
        if self.controller in _MORE:
            return _digest_of(_WORLD + _MORE[self.controller])
        return _digest_of(_WORLD) + BY_NAME[self.controller].digest


@dataclass(frozen=True, slots=True)
class Field:
    """Who plays every case."""

    peers: tuple[Peer, ...]
    actuations: tuple[Actuation, ...] = ()
    with_bound: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be played, and what people should know of it (tunings that are missing or stale)."""

    tasks: tuple[Task, ...]
    told: tuple[str, ...]


def plan_tasks(cases: Sequence[Case], field: Field, tuned: Found, folder: Path) -> Planned:
    """Every controller on every case and seed. Raises MissingTrace."""
    told: dict[str, None] = {}
    tasks: list[Task] = []
    data = {budget: data_digest(development(budget).build(folder)) for budget in budgets(cases)}
    for case in cases:
        settings: dict[str, str | None] = {}
        for peer in field.peers:
            entry = tuned.get(key(case.budget, peer))
            if not peer.targets:
                settings[peer.name] = None
            elif entry is None:
                told[f"{key(case.budget, peer)}: not tuned, left out; {RETUNE}"] = None
            else:
                settings[peer.name] = entry.tuning
                if why := stale(entry, peer, data[case.budget]):
                    told[f"{key(case.budget, peer)}: stale, {why}; {RETUNE}"] = None
        for seed in case.seeds:
            tasks += [Task(case, name, seed, tuning) for name, tuning in settings.items()]
            if field.with_bound and case.scenario in BOUNDED:
                tasks.append(Task(case, BOUND, seed))
            if case.scenario not in FAST_ONLY:
                tasks += [Task(case, OURS, seed, actuation=actuation) for actuation in field.actuations]
        if case.scenario in FAST_ONLY and field.actuations:
            told[f"{case.scenario}: without ours, which the full world plays"] = None
    return Planned(tuple(tasks), tuple(told))


def run_task(task: Task, folder: Path, kept: Path) -> Played:
    """The result of a task, from `kept` when it is there. Raises MissingTrace."""
    scenario = task.case.build(folder, task.seed)
    path = kept / task.file(data_digest(scenario))
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Played)
    result = _play(task, scenario)
    kept.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.encode(result))
    partial.replace(path)
    return result


def _play(task: Task, scenario: Scenario) -> Played:
    if task.controller == OURS:
        actuation = task.actuation or "scale"
        return played(task.row, play_product(scenario, default_policy(scenario, actuation), actuation, task.seed))
    if task.controller == BOUND:
        return Played(msgspec.structs.replace(task.row, late_work_share=bound(scenario).late_work_share), [])
    peer = BY_NAME[task.controller]
    return played(task.row, play(scenario, peer.make(task.tuning), peer.name))


@cache
def _digest_of(patterns: tuple[str, ...]) -> str:
    root = Path(rebalancer.__file__).parent
    digest = sha256()
    for path in _files(root, patterns):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(root: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(root.glob(pattern if pattern.endswith(".py") else f"{pattern}/**/*.py"))
