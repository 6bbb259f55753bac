"""Plays the suite's tasks, each once: what was played with the same code and data is read, not played again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec

import rebalancer
from rebalancer.sim.fast import play
from rebalancer.sim.product import default_policy, play_product
from rebalancer.sim.product.run import Actuation
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.suite.cases import Case, data_digest, development
from rebalancer.sim.suite.peers import BY_NAME, DIGEST_LETTERS, Peer
from rebalancer.sim.suite.row import OURS, Played, Row, played
from rebalancer.sim.suite.tuning import Found, key, stale

# What decides the outcome of a run, besides a peer's own code.
_WORLD = (
    *(f"sim/{name}.py" for name in ("controller", "fast", "fleet", "record", "scenario", "score", "serving")),
    "sim/suite/row.py",
)
_PRODUCT = ("domain", "state", "planning", "act", "loop", "world", "sim/product")


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
        return _digest_of(_WORLD + _PRODUCT if self.controller == OURS else _WORLD) + (
            "" if self.controller == OURS else BY_NAME[self.controller].digest
        )


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be played, and what people should know of it (tunings that are missing or stale)."""

    tasks: tuple[Task, ...]
    told: tuple[str, ...]


def plan_tasks(
    cases: Sequence[Case], peers: Sequence[Peer], actuations: Sequence[Actuation], tuned: Found, folder: Path
) -> Planned:
    """Every controller on every case and seed. Raises MissingTrace."""
    told: dict[str, None] = {}
    tasks = []
    data = {
        budget: data_digest(development(budget).build(folder))
        for budget in dict.fromkeys(case.budget for case in cases)
    }
    for case in cases:
        for seed in case.seeds:
            for peer in peers:
                entry = tuned.get(key(case.budget, peer))
                if peer.targets and entry is None:
                    told[f"{key(case.budget, peer)}: not tuned, left out"] = None
                    continue
                if peer.targets and entry and (why := stale(entry, peer, data[case.budget])):
                    told[f"{key(case.budget, peer)}: stale, {why}"] = None
                tasks.append(Task(case, peer.name, seed, entry.tuning if peer.targets and entry else None))
            tasks += [Task(case, OURS, seed, actuation=actuation) for actuation in actuations]
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
