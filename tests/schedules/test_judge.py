"""The judge of schedules notices who breaks its rules: each of them is broken on purpose once."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.act import checks
from rebalancer.act.gate import Gate
from rebalancer.act.override_status import OverrideStatus
from rebalancer.act.permission import Permission
from rebalancer.app.past import Read, Start, read_start
from rebalancer.domain.outcome import Intent
from rebalancer.domain.policy import Policy
from rebalancer.kafka.topic_past import PastUnreadable
from rebalancer.kube.resources import Object
from rebalancer.leader.candidate import Candidate
from rebalancer.leader.right import Alone
from rebalancer.loop import cycle
from rebalancer.planning.actions import evictions
from rebalancer.planning.overrides.rulings import Ruling
from rebalancer.world.port import WorldPort
from tests.schedules import api, replica
from tests.schedules.faults import Fault
from tests.schedules.play import BRIEF, WIDE, Schedule, a_schedule, play
from tests.schedules.replica import Replica
from tests.schedules.stage import Stage
from tests.schedules.virtual import START

pytestmark = pytest.mark.slow  # 15 s

SEED = 6


def test_a_service_that_knows_no_floor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    begins = Replica.__init__

    def without_floors(one: Replica, name: str, policy: Policy, *rest: Any) -> None:  # noqa: ANN401  # as it comes
        models = tuple(model.model_copy(update={"min_replicas": 0}) for model in policy.models)
        begins(one, name, policy.model_copy(update={"models": models}), *rest)

    falls_silent = (
        Fault(22.0, "traffic changes", "leader", 0.1, 0.01),
        Fault(24.0, "traffic changes", "leader", 0.5, 0.01),
        Fault(26.0, "traffic changes", "leader", 0.9, 0.95),
    )
    schedule = Schedule(a_schedule(3, BRIEF).spec, falls_silent, 260.0, BRIEF)
    assert play(schedule).verdict is None
    monkeypatch.setattr(Replica, "__init__", without_floors)
    verdict = play(schedule).verdict
    assert verdict is not None
    assert (verdict.rule, verdict.text) == ("a", "a serves with 1 and loses 1; its floor is 1")


def _right_never_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Candidate, "may_act", lambda self, _now: self.epoch is not None)
    patch.setattr(Candidate, "lapsed", lambda _self, _now: False)


def _nobody_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Candidate, "_free", lambda self, _now: self.lease is not None)


def _gate_asks_nobody(patch: pytest.MonkeyPatch) -> None:
    def careless(*args: Any, **ports: Any) -> Gate:  # noqa: ANN401  # as the gate is made
        return Gate(*args, **{**ports, "right": Alone()})

    patch.setattr(replica, "Gate", careless)


def _writes_arrive_after_half_a_minute(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(api, "LATE_SECONDS", 30.0)


def _and_every_version_is_the_right_one(patch: pytest.MonkeyPatch) -> None:
    _writes_arrive_after_half_a_minute(patch)
    patch.setattr(api, "admit", lambda *_: None)
    patch.setattr(WorldPort, "_at_revision", lambda *_: None)


CUT_OFF = Fault(60.0, "API server silent", "leader", 0.5, 0.9)
# The first leader writes from 8.273 s on, and Events of it from 8.282 s on.
STOPPED_AS_IT_WRITES = Fault(8.27, "paused", "leader", 0.0, 0.9)
LATE_WRITE, LATE_EVENT = (Fault(at, "API server answers badly", "leader", 0.9, 0.9) for at in (8.27, 8.2795))
KILLED = Fault(9.0, "killed", "leader", 0.0, 0.0)


@pytest.mark.parametrize(
    ("undo", "seed", "faults", "why"),
    [
        (_right_never_ends, 6, (CUT_OFF,), "two replicas may act at one instant"),
        (_nobody_waits, 6, (CUT_OFF,), "two replicas may act at one instant"),
        (_gate_asks_nobody, 12, (STOPPED_AS_IT_WRITES,), "and may not: the lease was not renewed in time"),
        (_and_every_version_is_the_right_one, 6, (LATE_WRITE, KILLED), "is taken where term 1800000001 wrote"),
        (_writes_arrive_after_half_a_minute, 6, (LATE_EVENT, KILLED), "s after term 1800000001 began"),
    ],
)
def test_a_second_writer_is_noticed(
    undo: Callable[[pytest.MonkeyPatch], None],
    seed: int,
    faults: tuple[Fault, ...],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedule = Schedule(a_schedule(seed).spec, faults, 120.0, BRIEF)
    assert play(schedule).verdict is None
    undo(monkeypatch)
    verdict = play(schedule).verdict
    assert verdict is not None
    assert verdict.rule == "w"
    assert why in verdict.text


def test_a_service_that_hears_of_a_write_stop_by_its_watches_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(_: Permission) -> list[Object]:
        return []

    faults = (
        Fault(21.0, "watches silent", "leader", 0.5, 0.6),
        Fault(22.0, "writes stopped", "leader", 0.5, 0.95),
        Fault(23.0, "everybody is busy", "leader", 0.1, 0.95),
    )
    schedule = Schedule(a_schedule(6).spec, faults, 80.0, WIDE)
    assert play(schedule).verdict is None
    monkeypatch.setattr(Permission, "_read_stops", none)
    verdict = play(schedule).verdict
    assert verdict is not None
    assert verdict.rule == "s"


PINNED = Fault(21.0, "model pinned", "leader", 0.0, 0.2)  # a, of a floor of 1, to 0 replicas, for 9.5 s


def _no_status_is_told(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        pass

    patch.setattr(OverrideStatus, "tell", nothing)


def _no_cordon_is_taken_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evictions, "_over", lambda *_: "")


def _a_person_may_go_below_a_floor(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ruling, "floor_of", lambda *_: 0)
    patch.setattr(checks, "_own_floor", lambda *_: 0)


@pytest.mark.parametrize(
    ("undo", "fault", "rule", "why"),
    [
        (_no_status_is_told, PINNED, "d", "is told to be nothing, not Expired"),
        (_no_status_is_told, replace(PINNED, y=0.8), "d", "is told to be nothing, not InForce"),
        (_a_person_may_go_below_a_floor, replace(PINNED, x=0.75, y=0.8), "a", "its floor is 1"),
        (
            _no_cordon_is_taken_back,
            Fault(21.0, "machine is taken, undrained", "leader", 0.1, 0.1),
            "d",
            "x1 is cordoned by machine, and nothing is told of it",
        ),
    ],
)
def test_who_forgets_an_override_or_a_cordon_or_a_pinned_models_floor_is_noticed(
    undo: Callable[[pytest.MonkeyPatch], None], fault: Fault, rule: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = Schedule(a_schedule(SEED).spec, (fault,), 60.0, WIDE)
    assert play(schedule).verdict is None
    undo(monkeypatch)
    verdict = play(schedule).verdict
    assert verdict is not None
    assert verdict.rule == rule
    assert why in verdict.text


def test_a_cycle_that_plans_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise KeyError("a model")

    monkeypatch.setattr(cycle, "decide_apart", raises)
    verdict = play(Schedule(a_schedule(SEED).spec, (), 40.0)).verdict
    assert verdict is not None
    assert verdict.rule == "f"


def test_a_service_that_never_rests_is_noticed_whatever_a_sum_of_instants_rounds_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Stage, "restless", lambda *_: "it never does")
    for at in (25.375, 30.203):
        faults = (Fault(at, "traffic changes", "leader", 0.5, 0.1),)
        verdict = play(Schedule(a_schedule(SEED).spec, faults, 40.0, BRIEF)).verdict
        assert verdict is not None
        assert (verdict.rule, verdict.text) == ("d", "it never does")


def test_a_replica_that_never_comes_up_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def once(read: Read, policy: Policy, now: float, *rest: Any) -> Start:  # noqa: ANN401  # as it comes
        if now > START:
            raise PastUnreadable("its topics are another's")
        return await read_start(read, policy, now, *rest)

    monkeypatch.setattr(replica, "read_start", once)
    verdict = play(Schedule(a_schedule(SEED).spec, (Fault(30.0, "killed", "standby", 0.0, 0.0),), 40.0, BRIEF)).verdict
    assert verdict is not None
    assert (verdict.rule, verdict.text) == ("d", "b never came up")


def test_two_processes_that_intend_under_one_name_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Intent, "identity", property(lambda _self: ("a write", 0.0)))
    faults = (
        Fault(22.0, "everybody is busy", "leader", 0.1, 0.9),
        Fault(40.0, "killed", "leader", 0.0, 0.0),
        Fault(60.0, "several pods crash", "leader", 0.1, 0.9),
        Fault(65.0, "somebody writes once", "leader", 0.0, 0.9),
    )
    verdict = play(Schedule(a_schedule(12).spec, faults, 90.0)).verdict
    assert verdict is not None
    assert verdict.rule == "t"
