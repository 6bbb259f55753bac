"""What `kubectl describe` shows of us."""

import asyncio
from typing import Any

import pytest

from rebalancer.act.gate import Gate
from rebalancer.domain.plan import Change, NodePoolChange
from rebalancer.sandbox.api.resources import EVENTS
from tests.act.rig import Rig, change, node_pool, node_pool_change
from tests.builders import NAMESPACE


def told(rig: Rig) -> list[Any]:
    return list(rig.store.list(EVENTS))


async def apply_and_post(rig: Rig, gate: Gate, *changes: Change | NodePoolChange) -> list[Any]:
    await rig.apply_by(gate, *changes)
    await gate.events.post()
    return told(rig)


async def test_a_write_is_told_on_its_target(rig: Rig) -> None:
    (event,) = await apply_and_post(rig, rig.gate(), change(rig.target("b"), 4, reason="surplus,\nsays the test"))

    regarding = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE, "name": "b", "uid": "uid-b"}
    assert event["regarding"] == regarding
    assert event["note"] == "b surplus, says the test (5 -> 4)"
    assert (event["reason"], event["type"], event["action"]) == ("ReplicasReleased", "Normal", "Rebalance")
    assert (event["reportingController"], event["reportingInstance"]) == ("rebalancer.io/rebalancer", "rebalancer")
    assert event["eventTime"] == "2027-01-15T08:00:00.000000Z"
    assert event["metadata"]["namespace"] == NAMESPACE


async def test_events_about_a_node_pool_live_in_the_default_namespace(rig: Rig) -> None:
    rig.store.put(node_pool())

    (event,) = await apply_and_post(rig, rig.gate(), node_pool_change("hold"))

    assert (event["metadata"]["namespace"], event["reason"]) == ("default", "ConsolidationHeld")
    assert event["regarding"]["kind"] == "NodePool"
    assert "namespace" not in event["regarding"]


async def test_the_same_thing_is_told_once_in_five_minutes(rig: Rig) -> None:
    gate = rig.gate()
    rig.server.faults.fail_next(3, 403, method="PUT")
    release = change(rig.target("b"), 4)

    await apply_and_post(rig, gate, release)
    rig.clock.passed += 299.0
    twice = await apply_and_post(rig, gate, release)
    rig.clock.passed += 2.0
    again = await apply_and_post(rig, gate, release)

    assert [len(twice), len(again)] == [1, 2]
    assert {(event["reason"], event["type"]) for event in again} == {("WriteFailed", "Warning")}


@pytest.mark.parametrize("set_by", [7200.0, -7200.0])
async def test_a_clock_that_is_set_makes_nobody_wait_longer_or_be_told_twice(rig: Rig, set_by: float) -> None:
    gate = rig.gate()
    rig.server.faults.fail_next(3, 403, method="PUT")
    release = change(rig.target("b"), 4)

    await apply_and_post(rig, gate, release)
    rig.clock.set_by = set_by
    rig.clock.passed += 299.0
    twice = await apply_and_post(rig, gate, release)
    rig.clock.passed += 2.0
    again = await apply_and_post(rig, gate, release)

    assert [len(twice), len(again)] == [1, 2]


async def test_a_floor_that_the_gate_had_to_hold_is_a_warning(rig: Rig) -> None:
    (event,) = await apply_and_post(rig, rig.gate(), change(rig.target("b"), 1))

    assert (event["reason"], event["type"]) == ("WriteRefused", "Warning")
    assert "its floor is 2" in event["note"]


async def test_what_the_next_cycle_puts_right_is_not_told(rig: Rig) -> None:
    rig.server.faults.fail_next(3, 409, method="PUT")

    assert await apply_and_post(rig, rig.gate(), change(rig.target("b"), 4)) == []


async def test_a_note_is_one_line_within_the_servers_limit(rig: Rig) -> None:
    (event,) = await apply_and_post(rig, rig.gate(), change(rig.target("b"), 4, reason="ü" * 2000))

    assert len(event["note"].encode()) <= 1024


async def test_no_write_waits_for_an_event(rig: Rig) -> None:
    rig.server.faults.hang_next(100, method="POST", path_part="/events")
    gate = rig.gate()
    posting = asyncio.create_task(gate.events.run())

    first = await rig.apply_by(gate, change(rig.target("b"), 4))
    await asyncio.sleep(0)
    second = await rig.apply_by(gate, change(rig.target("a"), 2))

    assert [outcome.status for outcome in (*first, *second)] == ["written", "written"]
    posting.cancel()
    await asyncio.gather(posting, return_exceptions=True)
    rig.server.faults.clear()


async def test_run_posts_what_is_told_later(rig: Rig) -> None:
    gate = rig.gate()
    posted = asyncio.Event()
    rig.store.subscribe(lambda each: posted.set() if each.resource == EVENTS else None)
    posting = asyncio.create_task(gate.events.run())

    await rig.apply_by(gate, change(rig.target("b"), 4))
    async with asyncio.timeout(5):
        await posted.wait()

    assert len(told(rig)) == 1
    posting.cancel()
    await asyncio.gather(posting, return_exceptions=True)


async def test_events_that_find_no_room_are_dropped_and_counted(rig: Rig) -> None:
    gate = rig.gate()
    outcome = (await rig.apply_by(gate, change(rig.target("b"), 4)))[0]

    for n in range(1100):
        gate.events.tell(change(rig.target("b"), 4, reason=f"reason {n}"), outcome)

    assert gate.events.dropped == 101


async def test_a_server_that_takes_no_events_costs_the_events_alone(rig: Rig) -> None:
    rig.server.faults.fail_next(1, 403, method="POST")
    gate = rig.gate()

    assert await apply_and_post(rig, gate, change(rig.target("b"), 4)) == []
    assert gate.events.dropped == 1
