"""Random worlds of constant load: Poisson arrivals at fixed rates, many of them near a whole number of replicas.

The product plays each from its first second. What the first 25 minutes teach it is not judged; from then on it decides
every 5 s and whenever an event wakes it. Then no model should move more often than once in a load time and a cooldown.
"""

from dataclasses import dataclass

import numpy as np

from rebalancer.domain.policy import Policy
from rebalancer.sim.product import default_policy
from rebalancer.sim.product.clock import still
from rebalancer.sim.product.notes import notes
from rebalancer.sim.product.run import Product
from rebalancer.sim.product.stage import STARTED_AT, Stage
from rebalancer.sim.scenario import Scenario, ScenarioModel

LEARNING_SECONDS, JUDGED_SECONDS = 1500, 900
QUICK_SECONDS, SLOW_SECONDS = 5.0, 30.0  # between plans, judged and while it learns
CLASSES = ("realtime", "interactive", "interactive", "batch")
STARTS = (30, 60, 60, 120, 180)
WORKS_OF_ONE = (0.1, 0.3, 0.5, 1.0, 2.0)  # replica-seconds of a request
SLOTS = (4.0, 8.0, 16.0, 64.0)
SECONDS = LEARNING_SECONDS + JUDGED_SECONDS


@dataclass(frozen=True, slots=True)
class Course:
    """One model's life while judged: seconds in which its replicas changed, of a window of `window_seconds`."""

    model: str
    busy: float
    own: int
    window_seconds: float
    moves: tuple[int, ...]

    @property
    def windows(self) -> range:
        """Where a window of the judged time ends: with every plan."""
        return range(LEARNING_SECONDS + int(self.window_seconds), SECONDS, int(QUICK_SECONDS))

    @property
    def broken(self) -> int:
        """Windows with more than one move in them."""
        return sum(self._moves_until(end) > 1 for end in self.windows)

    def _moves_until(self, end: int) -> int:
        return sum(end - self.window_seconds < move <= end for move in self.moves)


@dataclass(frozen=True, slots=True)
class Life:
    """What came of a world. `late`: share of the requests while judged."""

    seed: int
    gpus: int
    courses: tuple[Course, ...]
    late: float

    @property
    def moves(self) -> int:
        """Of all models."""
        return sum(len(course.moves) for course in self.courses)

    @property
    def windows(self) -> int:
        """Of all models."""
        return sum(len(course.windows) for course in self.courses)

    @property
    def broken(self) -> int:
        """Of all models."""
        return sum(course.broken for course in self.courses)


def draw(seed: int, *, look_ahead: bool = True) -> tuple[Scenario, Policy]:
    """Two to four models on 6 to 16 GPUs that own all of them or a part, busy with 40 to 100 % of what there is.

    `look_ahead`: of the policy; without it votes decide in the same world.
    """
    chance = np.random.default_rng(seed)
    models = int(chance.integers(2, 5))
    gpus = int(chance.integers(max(6, 2 * models), 17))
    owned = gpus if chance.random() < 0.6 else max(models, int(gpus * chance.uniform(0.5, 0.9)))
    own = chance.multinomial(owned - models, np.full(models, 1.0 / models)) + 1
    start = int(chance.choice(STARTS))
    busy = chance.dirichlet(np.full(models, 3.0)) * chance.uniform(0.4, 1.0) * gpus
    near = np.maximum(1.0, busy.round()) + chance.normal(0.0, 0.08, models)
    busy = np.maximum(0.3, np.where(chance.random(models) < 0.6, near, busy))
    served = tuple(
        _model(chance, f"m{number}", float(busy[number]), int(own[number]), start) for number in range(models)
    )
    scenario = Scenario("constant", str(seed), served, (gpus,), SECONDS)
    policy = default_policy(scenario)
    ruled = [
        model.model_copy(update={"entitlement": int(count), "workload_class": str(chance.choice(CLASSES))})
        for model, count in zip(policy.models, own, strict=True)
    ]
    return scenario, policy.model_copy(update={"models": tuple(ruled), "look_ahead": look_ahead})


def _model(chance: np.random.Generator, name: str, busy: float, own: int, start_seconds: int) -> ScenarioModel:
    work_of_one = float(chance.choice(WORKS_OF_ONE))
    requests = chance.poisson(busy / work_of_one, SECONDS).astype(np.float64)
    slots = float(chance.choice(SLOTS))
    return ScenarioModel(name, requests * work_of_one, requests, first=own, start_seconds=start_seconds, slots=slots)


def live(seed: int, *, look_ahead: bool = True) -> Life:
    """The world's life from its first second to its last."""
    scenario, policy = draw(seed, look_ahead=look_ahead)
    stage = Stage(scenario, policy)
    with still() as runner:
        runner.run(_played(stage, policy))
    late = stage.record("ours").late[:, LEARNING_SECONDS:].sum()
    came = sum(model.requests[LEARNING_SECONDS:].sum() for model in scenario.models)
    courses = tuple(_course(stage, policy, number) for number in range(len(scenario.models)))
    return Life(seed, scenario.gpus, courses, float(late / max(1.0, came)))


async def _played(stage: Stage, policy: Policy) -> None:
    quick, slow = (policy.model_copy(update={"plan_every_seconds": each}) for each in (QUICK_SECONDS, SLOW_SECONDS))
    async with notes(None, quick, "", STARTED_AT) as recorder:
        product = Product(stage, quick, recorder)
        for second in range(SECONDS):
            product.ports.policy = slow if second < LEARNING_SECONDS - SLOW_SECONDS else quick
            await product.live(second)
            stage.note(second)
        stage.world.advance(STARTED_AT + SECONDS)


def _course(stage: Stage, policy: Policy, number: int) -> Course:
    served, ruled = stage.scenario.models[number], policy.models[number]
    moves = np.flatnonzero(np.diff(stage.desired[number])) + 1
    window = served.start_seconds + getattr(policy.classes, ruled.workload_class).cooldown_seconds
    judged = tuple(int(move) for move in moves if move >= LEARNING_SECONDS)
    return Course(served.name, float(served.work.mean()), ruled.entitlement, window, judged)
