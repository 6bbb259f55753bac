"""A schedule: a world, and what fails in it at which instant. The same one plays the same way, so it can be cut."""

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from tests.machine.verdicts import Verdict
from tests.machine.worlds import WorldSpec, a_spec
from tests.schedules.faults import KINDS, OF_REPLICAS, OF_WIDE, Fault, Whom, befall
from tests.schedules.stage import ROUNDING_SECONDS, Stage
from tests.schedules.virtual import VirtualLoop

WARM_SECONDS: Final = 20.0
QUIET_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 30.0
# What was told before a fault is heard before it: else a replica is judged by a fault of the same instant.
HEARD_SECONDS: Final = 0.001


class Length(Struct, frozen=True):
    """How long a schedule takes, in seconds.

    faults_seconds: one of these is drawn, in which faults come; every_seconds: one of these, between two of them.
    settled_seconds: after all is healed, until it is first looked whether there is rest.
    rest_seconds: for so long before that nothing may have been written.
    wide: the share of faults that only wide schedules have; above 0 nodes keep their journals and are drained, too.
    """

    faults_seconds: tuple[float, ...]
    every_seconds: tuple[float, ...]
    settled_seconds: float
    rest_seconds: float
    wide: float = 0.0


LONG: Final = Length((120.0, 240.0, 420.0), (3.0, 6.0, 12.0, 25.0), settled_seconds=180.0, rest_seconds=120.0)
BRIEF: Final = Length((20.0, 40.0, 80.0), (3.0, 6.0, 12.0), settled_seconds=60.0, rest_seconds=60.0)
"""Some seven faults instead of thirty, in a third of the time: what fails is often two or three that meet."""
WIDE: Final = replace(BRIEF, wide=0.2)
"""Brief ones in which people act, too, and a process finds the journal of the one before it on its node."""


class Schedule(Struct, frozen=True):
    """A world, the faults in the order in which they come, and the second at which everything is healed."""

    spec: WorldSpec
    faults: tuple[Fault, ...]
    seconds: float
    length: Length = LONG


class Played(Struct):
    """What became of it. `met`: faults that met something. `trace`: what happened, a line each; `seconds`: virtual."""

    seconds: float = 0.0
    met: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    verdict: Verdict | None = None
    trace: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Of the trace."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]


def a_schedule(seed: int, length: Length = LONG) -> Schedule:
    """The schedule of that seed: few faults or many, half of them of replicas and their links."""
    rng = random.Random(f"schedule/{seed}")
    spec = replace(a_spec(seed), per="model")
    seconds = rng.choice(length.faults_seconds)
    every_seconds = rng.choice(length.every_seconds)
    faults: list[Fault] = []
    at = WARM_SECONDS
    while (at := at + rng.expovariate(1.0 / every_seconds)) < WARM_SECONDS + seconds:
        if length.wide and rng.random() < length.wide:
            name = rng.choice(list(OF_WIDE))
        else:
            name = rng.choice(list(OF_REPLICAS) if rng.random() < 0.6 else KINDS[len(OF_REPLICAS) :])
        whom: Whom = "leader" if rng.random() < 0.7 else "standby"
        faults.append(Fault(round(at, 3), name, whom, rng.random(), rng.random()))
    return Schedule(spec, tuple(faults), WARM_SECONDS + seconds, length)


def play(schedule: Schedule, begun: Callable[[Stage], None] = lambda _stage: None) -> Played:
    """Live through it, to the first verdict or until it is at rest. `begun` is called when both replicas have begun."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_play(schedule, begun))


async def _play(schedule: Schedule, begun: Callable[[Stage], None]) -> Played:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    stage = Stage(schedule.spec, loop, wide=schedule.length.wide > 0.0)
    for seat in stage.seats:
        seat.start()
    begun(stage)
    for fault in schedule.faults:
        await stage.live(fault.at)
        await asyncio.sleep(HEARD_SECONDS)
        if stage.verdicts():
            break
        met = stage.befell = befall(stage, fault)
        stage.trace(f"== {fault.name}{'' if met else ', which meets nothing'}")
        stage.met[fault.name] += met
    await stage.live(schedule.seconds)
    stage.heal()
    stage.trace("== healed")
    await _rest(stage, schedule.length, schedule.seconds + QUIET_SECONDS)
    stage.end()
    await asyncio.sleep(1.0)
    for failure in loop.failures:
        stage.fail("f", failure)
    verdict = next(iter(stage.verdicts()), None)
    stage.trace(f"verdict: {verdict}")
    counts = stage.terms.counts + sum((seat.view.counts for seat in stage.seats), Counter())
    return Played(loop.time(), stage.met, counts, verdict, tuple(stage.lines))


async def _rest(stage: Stage, length: Length, latest: float) -> None:
    """Until it is at rest; a verdict where it is not in time."""
    await stage.live(min(latest, stage.loop.time() + length.settled_seconds))
    while not stage.verdicts():
        restless = stage.restless(length.rest_seconds)
        if not restless:
            return
        if stage.loop.time() >= latest - ROUNDING_SECONDS:
            stage.fail("d", restless)
            return
        await stage.live(min(latest, stage.loop.time() + LOOK_SECONDS))
