"""A history: a world and what happens to it, step by step. The same history plays the same way, so it can be cut."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from rebalancer.sim.product.clock import still
from tests.machine import recipes
from tests.machine.beyond import AHEAD_STEPS, SinceStart, beyond
from tests.machine.deeds import APART, DEEDS, LATE, Deed
from tests.machine.stage import CHECKPOINT_STEPS, STEP_SECONDS, Stage
from tests.machine.verdicts import Verdict
from tests.machine.worlds import WorldSpec, a_spec, rate_of

STEPS = (60, 80, 160)
QUIET_STEPS = 62  # of 10 s: ten minutes and a little
QUIET_STEP_SECONDS = 10.0
REST_SECONDS = 120.0
RESTART, CLOCK = "service restarts", "clock steps"
RESTARTED_STEPS = 24  # of 5 s
LATE_STEPS = 24  # of 5 s: so long a late deed waits for a plan that writes
OTHERS_STEPS = 5


class History(Struct, frozen=True):
    """A world, what disturbs it, and for how many steps."""

    spec: WorldSpec
    deeds: tuple[Deed, ...]
    steps: int


Watch = Callable[[Stage, str], None]


class Played(Struct):
    """What became of a history. `met`: steps in which each deed hit something."""

    steps: int = 0
    met: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    verdict: Verdict | None = None


def a_history(
    seed: int, *, apart: bool = False, names: Iterable[str] | None = None, cooked: Sequence[str] = ()
) -> History:
    """The history of that seed: of deeds with these names only, or by one of the recipes `cooked`."""
    rng = random.Random(f"deeds/{seed}")
    recipe = rng.choice(cooked) if cooked else ""
    spec = a_spec(seed, apart=apart, spot=recipe in recipes.OF_KARPENTER, several=bool(recipe))
    if recipe in recipes.OWNERS:
        spec = replace(spec, models=tuple(replace(one, owner=recipes.OWNERS[recipe]) for one in spec.models))
    if recipe in recipes.SLOW_LAUNCHES:
        spec = replace(spec, launch_seconds=recipes.SLOW_LAUNCH_SECONDS)
    if recipe:
        spec = replace(spec, marks=recipe not in recipes.WITHOUT_MARKS, mistaken=recipe in recipes.MISTAKEN)
        spec = replace(spec, slow_steps=recipe in recipes.SLOW_STEPS)
        return _by_recipe(spec, recipe, rng)
    known = list(names or (APART if apart else DEEDS))
    weights = [3.0 if name == "traffic changes" else 1.0 for name in known]
    deeds: list[Deed] = []
    steps = rng.choice(STEPS)
    for step in range(2, steps):
        for _ in range(2):
            if rng.random() < spec.density / 2 or (step % 20 == 2 and rng.random() < 0.5):
                name = rng.choices(known, weights)[0]
                late = name in LATE and rng.random() < 0.3
                deeds.append(Deed(step, name, rng.random(), rng.random(), late))
    return History(spec, tuple(deeds), steps)


def _by_recipe(spec: WorldSpec, name: str, rng: random.Random) -> History:
    """The recipe's deeds, now and then with something else among them."""
    deeds = list(recipes.deeds(name, 2, rng))
    steps = max(deeds[-1].step, recipes.length(name)) + rng.choice((30, 50))
    if rng.random() < 0.3:
        deeds.append(Deed(rng.randrange(2, steps), rng.choice(list(DEEDS)), rng.random(), rng.random()))
    return History(spec, tuple(deeds), steps)


def nobody(_stage: Stage, _what: str) -> None:
    """Watches nothing."""


def play(history: History, watch: Watch = nobody) -> Played:
    """Live through it, to the first verdict or to the end of the quiet after it. `watch` is told of each step."""
    with still() as runner:
        return runner.run(_play(history, watch))


async def _play(history: History, watch: Watch) -> Played:
    stage, played = Stage(history.spec), Played()
    by_step: dict[int, list[Deed]] = {}
    for deed in history.deeds:
        by_step.setdefault(deed.step, []).append(deed)
    for step in range(history.steps):
        await _step(stage, by_step.get(step, ()), played, watch)
        if stage.oracle.verdicts:
            return _over(stage, played)
    stage.heal()
    stage.oracle.touched(stage.everything)
    watch(stage, "healed")
    for _ in range(2):  # a last surplus may go late; whoever still moves in the second quiet never rests
        for _ in range(QUIET_STEPS):
            await _turn(stage, QUIET_STEP_SECONDS, None, played)
            watch(stage, "")
            if stage.oracle.verdicts:
                return _over(stage, played)
        if stage.oracle.quiet_seconds >= REST_SECONDS:
            break
    stage.oracle.judge_rest(REST_SECONDS)
    return _over(stage, played)


def play_apart(history: History, watch: Watch = nobody) -> Played:
    """Two worlds, one disturbed in its first pool only: the plans of the other pool are the same to the end.

    In both the other pool's users come and go, so that it has something to decide at all times. `watch` is told of the
    disturbed one.
    """
    with still() as runner:
        return runner.run(_play_apart(history, watch))


async def _play_apart(history: History, watch: Watch) -> Played:
    mine, other = (pool.name for pool in history.spec.pools)
    stage, twin, played = Stage(history.spec, (mine,)), Stage(history.spec, (mine,)), Played()
    theirs = {model.name for model in history.spec.models if model.pool == other}
    rng = random.Random(f"others/{history.spec.seed}")
    for step in range(history.steps):
        if step % OTHERS_STEPS == 0:
            _turn_users((stage, twin), rng.choice(sorted(theirs)), rng.random())
        await _step(stage, [deed for deed in history.deeds if deed.step == step], played, watch)
        await _turn(twin, STEP_SECONDS, None, played)
        with_it, without = _plans(stage, theirs), _plans(twin, theirs)
        if with_it != without:
            stage.oracle.fail("e", f"pool {other} was left alone: its plan is {with_it}, without the deeds {without}")
        if any(verdict.rule in {"e", "f"} for verdict in stage.oracle.verdicts):
            break
    stage.oracle.verdicts = [verdict for verdict in stage.oracle.verdicts if verdict.rule in {"e", "f"}]
    return _over(stage, played)


def _turn_users(stages: Iterable[Stage], model: str, share: float) -> None:
    """As many as keep this share of 1.6 times its entitlement busy."""
    for stage in stages:
        stage.turn(model, rate_of(1.6 * share * stage.models[model].entitlement), 20.0)


def play_restarted(history: History, watch: Watch = nobody) -> Played:
    """Two worlds in which the same happens; in one the service restarts, and takes no more than it does in the other.

    Judged over two minutes after the restart, by replicas that serve and stay, and that are needed where memory could
    not be made again (`beyond`). Others may go in one world only: the cycles of before the start are not known here
    (`docs/restart.md`, what is not promised). Later what one has written and the other has not makes them two worlds.
    `watch` is told of the one that restarts.
    """
    with still() as runner:
        return runner.run(_play_restarted(history, watch, without_cycles=False))


def play_without_cycles(history: History, watch: Watch = nobody) -> Played:
    """The same where each start finds an older checkpoint and the writes since, and no memory can be made again."""
    with still() as runner:
        return runner.run(_play_restarted(history, watch, without_cycles=True))


async def _play_restarted(history: History, watch: Watch, *, without_cycles: bool) -> Played:
    rng = random.Random(f"restart/{history.spec.seed}")
    restarts = [deed.step for deed in history.deeds if deed.name == RESTART]
    at, back = rng.randrange(CHECKPOINT_STEPS + 1, history.steps), rng.choice([0, 0, 1, 3, 9])
    at = max(CHECKPOINT_STEPS + 1, restarts[-1]) if restarts else at
    disk_lost, large = rng.random() < 0.5 or without_cycles, rng.random() < 0.6 or without_cycles
    stage, twin, played = Stage(history.spec), Stage(history.spec), Played()
    # A clock that was set since makes the twin hear late for minutes; who starts after it knows no other habit.
    deeds = [deed for deed in history.deeds if deed.name != RESTART and (deed.name != CLOCK or deed.step >= at)]
    before, sides, remade = (Counter[str](), Counter[str]()), list[tuple[SinceStart, SinceStart]](), True
    for step in range(at + RESTARTED_STEPS + AHEAD_STEPS):
        if step == at:
            remade = stage.restart(back, disk_lost=disk_lost, large=large).remade
            played.met[RESTART] += 1
            watch(stage, RESTART)
            before = stage.oracle.lost.copy(), twin.oracle.lost.copy()
        now = [deed for deed in deeds if deed.step == step]
        await _step(stage, now, played, watch)
        await _step(twin, now, Played(), nobody)
        if step >= at:
            mine, its = (one.oracle.lost - was for one, was in zip((stage, twin), before, strict=True))
            needed = None if remade else stage.oracle.needed()
            sides.append((SinceStart(mine, stage.oracle.serving(), needed), SinceStart(its, twin.oracle.serving())))
            if more := beyond(sides):
                where = "its own disk" if not disk_lost else "another node, without cycles" if large else "another node"
                what = f"restarted on {where}, {back} checkpoints back, it takes {dict(more)} more"
                stage.oracle.fail("r", f"{what} within {(step - at) * STEP_SECONDS:.0f} s")
        if stage.oracle.verdicts:
            break
    return _over(stage, played)


def _plans(stage: Stage, models: set[str]) -> list[tuple[object, ...]]:
    """What the last plan asks for and says of these models."""
    if stage.decision is None:
        return []
    plan = stage.decision.plan
    asked = ((one.model, one.kind, one.replicas_from, one.replicas_to) for one in plan.changes)
    said = ((one.model, one.demand, one.allocation, one.granted) for one in plan.models)
    return [one for one in (*asked, *said) if one[0] in models]


async def _step(stage: Stage, deeds: Iterable[Deed], played: Played, watch: Watch) -> None:
    for deed in deeds:
        if deed.late:
            stage.late.append((stage.steps, deed))
        else:
            _happen(stage, deed, played)
            watch(stage, deed.name)

    def between() -> None:
        for _, deed in stage.late:
            _happen(stage, deed, played)
            watch(stage, f"{deed.name}, late")
        stage.late.clear()

    stage.late[:] = [(since, deed) for since, deed in stage.late if stage.steps - since < LATE_STEPS]
    await _turn(stage, STEP_SECONDS, between if stage.late else None, played)
    watch(stage, "")


async def _turn(stage: Stage, seconds: float, between: Callable[[], None] | None, played: Played) -> None:
    try:
        await stage.live(seconds, between)
    except Exception as error:  # what a cycle raises is a verdict
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        if where is not None and where.tb_frame.f_code.co_filename.rpartition("/")[0].endswith("disturbed"):
            raise
        line = "" if where is None else f" at {where.tb_frame.f_code.co_filename.split('/')[-1]}:{where.tb_lineno}"
        stage.oracle.fail("f", f"a cycle raised {type(error).__name__}: {error}{line}")
    played.steps += 1


def _happen(stage: Stage, deed: Deed, played: Played) -> None:
    touched = DEEDS[deed.name](stage, deed.x, deed.y)
    if touched is not None:
        stage.oracle.touched(touched)
        stage.calm.disturbed()
        played.met[deed.name] += 1


def _over(stage: Stage, played: Played) -> Played:
    played.verdict = next(iter(stage.oracle.verdicts), None)
    played.counts = stage.oracle.counts
    return played
