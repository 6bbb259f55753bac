"""A fleet whose models all have an outlook, as the service's own look-ahead makes it of bursty work, and its plans.

Replicas of 1 to 8 GPUs, several pools of nodes with 8 GPUs each, every twentieth model on two pools. What a plan
changes has happened by the next one.
"""

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from rebalancer.app.foresight import happened
from rebalancer.domain.memory import Memory
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.snapshot import ModelView, Snapshot
from rebalancer.planning import Memo, plan
from rebalancer.state.outlook.learning import learn
from rebalancer.state.outlook.outlook import ModelTerms, Terms, outlooks
from rebalancer.state.outlook.past import F64, Past, per_second
from rebalancer.state.outlook.value import Serving, Standing
from tests.bench.scale import GPUS_PER_NODE, PER_REPLICA, SIGNALS
from tests.builders import a_model, a_policy, a_pool, a_reading, a_snapshot, some_work

GPUS_PER_MODEL = 10
SIZES = (1, 1, 1, 2, 1, 1, 4, 1, 2, 8)  # GPUs per replica, dealt out
EVERY_ON_TWO_POOLS = 20
SPARE = 0.02  # of each pool
PAST_SECONDS, LATER_SECONDS = 9000, 120
TERMS = Terms(cold_seconds=60, step_seconds=2)
TOGETHER = 50  # models per batch of outlooks


@dataclass(frozen=True, slots=True)
class Fleet:
    """`models` models of about ten GPUs each. `alike`: one-GPU replicas with one and the same outlook for all."""

    models: int
    pools: int
    alike: bool = False

    def policy(self) -> Policy:
        """A floor of one replica, an entitlement to half of what is held."""
        models = [self._model(number) for number in range(self.models)]
        gpus = dict.fromkeys((f"p{number}" for number in range(self.pools)), 0)
        for model in models:
            gpus[model.targets[0].pool] += replicas_of(model) * model.gpus_per_replica
        pools = (
            a_pool(name, -(-int(held * (1 + SPARE)) // GPUS_PER_NODE) * GPUS_PER_NODE) for name, held in gpus.items()
        )
        return a_policy(*models, pools=tuple(pools))

    def _model(self, number: int) -> Model:
        size = 1 if self.alike else SIZES[number % len(SIZES)]
        own, other = f"p{number % self.pools}", f"p{(number + 1) % self.pools}"
        several = number % EVERY_ON_TWO_POOLS == 0 and own != other and not self.alike
        return a_model(
            f"m{number:04d}",
            entitlement=max(1, GPUS_PER_MODEL // size // 2),
            gpus_per_replica=size,
            pools=(own, other) if several else (own,),
            signals=SIGNALS,
        )

    def world(self) -> "World":
        """All replicas Ready, nothing decided yet."""
        policy = self.policy()
        by_size = sorted(policy.models, key=lambda model: -model.gpus_per_replica)  # large ones find whole nodes
        there = a_snapshot(
            a_policy(*by_size, pools=policy.pools), {model.id: replicas_of(model) for model in policy.models}
        )
        busy = np.random.default_rng(1).uniform(0.3, 1.1, self.models)
        if self.alike:
            busy[:] = 0.7
        return World(policy, there, Works(policy, busy, alike=self.alike))


def replicas_of(model: Model) -> int:
    """What it holds at first."""
    return max(1, GPUS_PER_MODEL // model.gpus_per_replica)


class Works:
    """What is asked of every model: bursts of gamma work around a level that wanders."""

    def __init__(self, policy: Policy, busy: F64, *, alike: bool) -> None:
        self._models = {model.id: number for number, model in enumerate(policy.models)}
        self._levels = busy * [replicas_of(model) for model in policy.models]
        self._alike = alike
        self._past: dict[tuple[int, int], Past] = {}

    def level(self, model: str) -> float:
        """Replicas kept busy, about."""
        return float(self._levels[self._models[model]])

    def outlooks(self, held: dict[str, int], later: int) -> dict[str, Outlook]:
        """One of each of these models, which hold so many replicas, when it is `later` by some minutes."""
        if self._alike:
            (first, *_) = held
            same = self._batch([0], [held[first]], later)[0]
            return dict.fromkeys(held, same)
        found: dict[str, Outlook] = {}
        batches: dict[int, list[str]] = {}
        for name in held:
            batches.setdefault(self._models[name] // TOGETHER, []).append(name)
        for names in batches.values():
            numbers = [self._models[name] for name in names]
            found.update(zip(names, self._batch(numbers, [held[name] for name in names], later), strict=True))
        return found

    def _batch(self, numbers: list[int], held: list[int], later: int) -> list[Outlook]:
        past = self._of(numbers[0] // TOGETHER, later).of(np.array(numbers) % TOGETHER)
        ones, many = np.ones(len(numbers), dtype=np.int64), np.ones(len(numbers))
        standing = Standing(np.array(held), np.full((len(held), 0), np.inf), 0.0 * many)
        serving = Serving(2.0 * many, 0.5 * many, 30.0 * many, np.inf * many, 0.0 * many, many < 0.0, many < 0.0)
        learned = learn(past, TERMS.cold_seconds, TERMS.horizon_seconds)
        found = outlooks(past, learned, standing, ModelTerms(serving, ones, 100 * ones, many), TERMS)
        return [outlook for outlook in found if outlook is not None]

    def _of(self, batch: int, later: int) -> Past:
        known = self._past.get((batch, later))
        if known is None:
            levels = self._levels[batch * TOGETHER : (batch + 1) * TOGETHER]
            work = np.stack([_bursts(level, batch * TOGETHER + place) for place, level in enumerate(levels)])
            until = PAST_SECONDS + LATER_SECONDS * later
            known = self._past[batch, later] = per_second(work[:, :until], np.full(len(levels), 0.5))
        return known


METRICS_SECONDS = 10.0
LATERS = 3  # looks at the same work, before it begins anew


def _bursts(level: float, seed: int) -> F64:
    chance = np.random.default_rng(seed)
    t = np.arange(PAST_SECONDS + LATER_SECONDS * LATERS)
    wave = 1 + 0.3 * np.sin(2 * np.pi * t / (1700 + 13 * (seed % 97))) + 0.2 * np.sin(t / 97 + seed)
    bursts: F64 = chance.gamma(0.5, level * wave / 0.5)
    return bursts


class World:
    """Plans of a fleet, one after another. `turn` is what a bench times; the rest happens between.

    `policy`, `snapshot`, `memory`: what the next plan is made from.
    """

    def __init__(self, policy: Policy, snapshot: Snapshot, works: Works) -> None:
        self.policy, self._works = policy, works
        self.memory, self._kept = Memory(), Memo()
        self._later = dict.fromkeys((model.id for model in policy.models), 0)
        self.snapshot = snapshot
        self._decided: Plan | None = None
        self._renew(list(self._later))

    def turn(self) -> Plan:
        """One plan."""
        decision = plan(self.snapshot, self.policy, self.memory, self._kept)
        self.memory, self._decided = decision.memory, decision.plan
        return decision.plan

    def go_on(self, share: float, turn: int) -> None:
        """Somewhat later: what was decided has happened, and a `share` of the models has another outlook.

        As much later as makes every model's metrics come anew every 10 s: a fleet whose metrics are stale holds still.
        """
        if self._decided is not None and self._decided.changes:
            before = {view.id: view for view in self.snapshot.models}
            then = happened(self.snapshot, self._decided, self.policy)
            models = tuple(_serving(before[view.id], view) for view in then.models)
            self.snapshot = replace(then, models=models)
        else:
            self.snapshot = replace(self.snapshot, cycle=self.snapshot.cycle + 1, outcomes=())
        self.snapshot = replace(self.snapshot, at=self.snapshot.at + max(0.01, METRICS_SECONDS * share))
        some = _some(list(self._later), share, turn)
        for name in some:
            self._later[name] = (self._later[name] + 1) % LATERS
        self._renew(some)

    def settle(self, turns: int = 6) -> None:
        """Until plans have done what there was to do at first."""
        for _ in range(turns):
            self.turn()
            self.go_on(0.0, 0)

    def _renew(self, names: list[str]) -> None:
        held = {view.id: sum(target.replicas for target in view.targets) for view in self.snapshot.models}
        found: dict[str, Outlook] = {}
        for later in range(LATERS):
            mine = {name: held[name] for name in names if self._later[name] == later}
            if mine:
                found |= self._works.outlooks(mine, later)
        at = self.snapshot.at
        loads = []
        for load in self.snapshot.loads:
            outlook = found.get(load.model)
            if outlook is not None:
                level = outlook.level
                signals = load.signals | {
                    "concurrency": a_reading(PER_REPLICA * level, at),
                    "queue": a_reading(0.0, at),
                }
                load = replace(load, outlook=outlook, signals=signals, work=some_work(level))  # noqa: PLW2901  # renewed
            loads.append(load)
        self.snapshot = replace(self.snapshot, loads=tuple(loads))


def _serving(before: ModelView, after: ModelView) -> ModelView:
    """Starts are over at once; who did not change is the same value."""
    if before == after:
        return before
    targets = (
        replace(target, pods=tuple(replace(pod, phase="ready") for pod in target.pods)) for target in after.targets
    )
    return replace(after, targets=tuple(targets))


def _some(names: list[str], share: float, turn: int) -> list[str]:
    every = round(1 / share) if share else 0
    return names[turn % every :: every] if every else []
