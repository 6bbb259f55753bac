"""Every day some dozens of schedules of faults; `python -m tests.schedules` plays as many as one likes."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from rebalancer.app import past
from rebalancer.app.checkpoints import Checkpoints
from rebalancer.planning.allocation import idle, seating
from rebalancer.planning.allocation.out_order import OutOrder
from rebalancer.planning.shares import swings
from rebalancer.state import offered
from rebalancer.state.outlook import scenarios
from tests.machine.verdicts import Verdict
from tests.schedules import __main__ as command
from tests.schedules.faults import KINDS, OF_REPLICAS, OF_WIDE, Fault, Whom
from tests.schedules.play import BRIEF, WIDE, Played, Schedule, a_schedule, play

pytestmark = pytest.mark.slow  # 20 s

SEEDS = range(1, 10)
BRIEF_SEEDS = range(1, 13)
WIDE_SEEDS = range(1, 7)
SEED = 6  # of many faults, and several terms
AN_HOUR = (3598.0 / 1798.0) ** 0.5  # what the fault makes 3600 s of
FORWARD, BACK = 0.1, 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_no_schedule_breaks_a_rule(seed: int) -> None:
    played = play(a_schedule(seed))
    assert played.verdict is None, f"python -m tests.schedules --tell --seed {seed}: {played.verdict}"


def test_no_brief_schedule_breaks_a_rule() -> None:
    verdicts = {seed: play(a_schedule(seed, BRIEF)).verdict for seed in BRIEF_SEEDS}
    broken = {seed: verdict for seed, verdict in verdicts.items() if verdict is not None}
    assert not broken, f"python -m tests.schedules --brief --tell --seed {min(broken)}: {broken}"


def test_no_wide_schedule_breaks_a_rule() -> None:
    verdicts = {seed: play(a_schedule(seed, WIDE)).verdict for seed in WIDE_SEEDS}
    broken = {seed: verdict for seed, verdict in verdicts.items() if verdict is not None}
    assert not broken, f"python -m tests.schedules --wide --tell --seed {min(broken)}: {broken}"


@pytest.mark.timeout(240)  # another process compiles what simulates
def test_the_same_seed_leaves_the_same_trace_whatever_the_process() -> None:
    here = play(a_schedule(SEED))
    code = f"from tests.schedules.play import a_schedule, play; print(play(a_schedule({SEED})).digest)"
    hashing = os.environ | {"PYTHONHASHSEED": "1"}
    arguments = [sys.executable, "-W", "ignore", "-c", code]
    other = subprocess.run(arguments, env=hashing, capture_output=True, text=True, check=True)  # noqa: S603  # our own
    assert other.stdout.split()[-1] == here.digest


def test_what_is_drawn_has_every_kind_of_fault() -> None:
    drawn = {fault.name for seed in range(300) for fault in a_schedule(seed).faults}
    assert drawn == set(KINDS)
    wide = {fault.name for seed in range(300) for fault in a_schedule(seed, WIDE).faults}
    assert wide == {*KINDS, *OF_WIDE}


@pytest.mark.parametrize("name", OF_REPLICAS)
def test_a_fault_of_a_replica_meets_one(name: str) -> None:
    quiet = a_schedule(SEED)
    played = play(Schedule(quiet.spec, (Fault(30.0, name, "leader", 0.4, 0.1),), 40.0))
    assert played.met[name] == 1
    assert played.verdict is None


@pytest.mark.parametrize("whom", ["leader", "standby"])
@pytest.mark.parametrize("way", [FORWARD, BACK])
def test_one_acts_and_the_same_goes_on_whichever_clock_is_set_by_an_hour(whom: Whom, way: float) -> None:
    spec = a_schedule(SEED).spec
    set_by_an_hour = play(Schedule(spec, (Fault(30.0, "clock set", whom, AN_HOUR, way),), 200.0))
    assert set_by_an_hour.met["clock set"] == 1
    assert set_by_an_hour.verdict is None
    assert set_by_an_hour.counts["terms"] == 1


# Schedules that broke a rule once, each cut down to what did it, and what mended it: undone, it is noticed again.
SILENT_WATCH = (
    Fault(42.375, "watches silent", "leader", 0.6723059979150233, 0.8654537717039673),
    Fault(46.576, "killed", "leader", 0.4533921137506153, 0.5873072398158761),
    Fault(52.426, "samples lost", "standby", 0.011988533546029911, 0.8979097598909427),
    Fault(97.924, "everybody is busy", "leader", 0.0902576741213924, 0.8032736229165506),
    Fault(111.126, "pod crashes", "leader", 0.7223246202462734, 0.8038197530968104),
    Fault(138.114, "API server away", "leader", 0.8242072864623206, 0.809653750163586),
)
UNMARKED = (
    Fault(145.563, "node goes before its pods", "leader", 0.5804150751423741, 0.14011383765661356),
    Fault(151.184, "API server silent", "leader", 0.9574721939634997, 0.2808811016305227),
    Fault(160.545, "pod hangs in Terminating", "leader", 0.8748095079451572, 0.47144628572603464),
    Fault(195.81, "killed", "leader", 0.6610661871623741, 0.027897174700860727),
)


def _promises_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(past, "count_unheard", lambda *_: None)


def _thinks_it_chooses(patch: pytest.MonkeyPatch) -> None:
    """With four things as they were then.

    A start may have lost a model's past, who gave takes back at once, a rise is foreseen from where it has led to, and
    nobody is started whose requests wait before no replica.
    """
    patch.setattr(offered, "UNSERVED", 0.0)
    patch.setattr(scenarios, "_under_ceiling", lambda of, _: of)
    patch.setattr(seating, "OutOrder", lambda target, **_: OutOrder(target, marked=True))
    for each in (swings, idle):
        patch.setattr(each, "givers", lambda _: frozenset())
    memory = Checkpoints.memory

    async def alone(checkpoints: Checkpoints) -> None:
        checkpoints._recorded.update(one.id for one in checkpoints._cycle_ports.policy.models)  # noqa: SLF001  # a mutant
        await memory(checkpoints)

    patch.setattr(Checkpoints, "memory", alone)


@pytest.mark.parametrize(
    ("seed", "faults", "undo", "rule"),
    [(301363, SILENT_WATCH, _promises_twice, "b"), (300607, UNMARKED, _thinks_it_chooses, "d")],
)
def test_what_a_schedule_found_is_found_again_where_its_mend_is_undone(
    seed: int,
    faults: tuple[Fault, ...],
    undo: Callable[[pytest.MonkeyPatch], None],
    rule: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedule = replace(a_schedule(seed), faults=faults)
    assert play(schedule).verdict is None
    undo(monkeypatch)
    verdict = play(schedule).verdict
    assert verdict is not None
    assert verdict.rule == rule


def test_terms_rise_where_a_clock_was_ahead_and_the_lease_and_all_who_knew_it_are_gone() -> None:
    faults = (
        Fault(2.0, "clock set", "leader", 0.3, 0.1),
        Fault(40.0, "everybody is busy", "leader", 0.1, 0.9),
        Fault(70.0, "killed", "leader", 0.0, 0.0),
        Fault(70.0, "killed", "standby", 0.0, 0.0),
        Fault(70.0, "Lease deleted", "leader", 0.0, 0.0),
        Fault(95.0, "several pods crash", "leader", 0.1, 0.9),
        Fault(100.0, "somebody writes once", "leader", 0.0, 0.9),
    )
    assert play(Schedule(a_schedule(12).spec, faults, 150.0)).verdict is None


def test_a_schedule_is_cut_down_to_the_faults_that_break_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = a_schedule(SEED)
    guilty = {schedule.faults[1], schedule.faults[-1]}

    def breaks(one: Schedule) -> Played:
        return Played(verdict=Verdict("w", 0.0, "both together") if guilty <= {*one.faults} else None)

    monkeypatch.setattr(command, "play", breaks)
    assert {*command.shortened(schedule, "w").faults} == guilty
