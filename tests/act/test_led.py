"""Writes as a leader makes them: asked for each, ended with the right to act, with the epoch on what carries one."""

import asyncio

import pytest

from rebalancer.act.led import Led, NotLeading
from rebalancer.act.originals import ANNOTATION as ORIGINALS
from rebalancer.kube.errors import Ambiguous
from rebalancer.kube.resources import DEPLOYMENTS as DEPLOYMENT
from rebalancer.kube.resources import EVENTS, OVERRIDES, PODS, Ref
from rebalancer.kube.resources import NODEPOOLS as NODEPOOL
from rebalancer.kube.resources import SCALEDOBJECTS as SCALEDOBJECT
from rebalancer.leader.lease import EPOCH
from rebalancer.sandbox.api.resources import SCALEDOBJECTS
from tests.act.rig import Rig, Seat, change, hpa, node_pool, says, scaled_object
from tests.builders import NAMESPACE


async def test_no_verb_that_writes_passes_without_the_right_to_act(rig: Rig) -> None:
    led = Led(rig.kube, Seat(why="rb-1 leads"))
    ref = Ref(DEPLOYMENT, NAMESPACE, "b")
    for write in (
        led.create(EVENTS, {"metadata": {"namespace": NAMESPACE, "name": "e"}}),
        led.patch(Ref(PODS, NAMESPACE, "b-1"), {"metadata": {}}),
        led.patch_status(Ref(OVERRIDES, NAMESPACE, "o"), {}),
        led.put_scale(ref, 4, "1"),
        led.evict(Ref(PODS, NAMESPACE, "b-1"), "uid-b-1"),
        led.delete(Ref(PODS, NAMESPACE, "b-1"), uid="uid-b-1", grace_seconds=1),
    ):
        with pytest.raises(NotLeading, match="rb-1 leads"):
            await write
    assert rig.server.audit == []
    assert (await led.get_scale(ref))["spec"]["replicas"] == rig.target("b").replicas


async def test_a_write_under_way_is_given_up_when_the_right_to_act_ends(rig: Rig) -> None:
    rig.server.faults.hang_next(1, path_part="/scale")
    led = Led(rig.kube, Seat(seconds=0.2))
    began = asyncio.get_running_loop().time()

    with pytest.raises(Ambiguous, match="the right to act ended while the write was under way"):
        await led.put_scale(Ref(DEPLOYMENT, NAMESPACE, "b"), 4, "1")

    assert asyncio.get_running_loop().time() - began < 2.0
    rig.server.faults.clear()


async def test_the_gate_reads_what_became_of_a_write_that_outlived_the_right_to_act(rig: Rig) -> None:
    rig.right.seconds = 0.3
    rig.server.faults.hang_next(1, method="PUT", path_part="/scale")

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "unknown", "the right to act ended")
    rig.server.faults.clear()


async def test_leadership_lost_between_the_last_question_and_the_write_refuses_it(rig: Rig) -> None:
    asked = 0

    def why_not() -> str | None:
        nonlocal asked
        asked += 1
        return None if asked <= 2 else "the lease was not renewed in time"

    rig.right.why_not = why_not  # type: ignore[method-assign]  # the third question is that of the write itself

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "leadership: the lease was not renewed in time")
    assert rig.writes == []


async def test_autoscalers_and_node_pools_carry_the_epoch_and_workloads_do_not(rig: Rig) -> None:
    rig.right.epoch = 17
    led = Led(rig.kube, rig.right)
    rig.store.put(scaled_object("b", 2, 9))
    rig.store.put(hpa("b", 2, 9))
    rig.store.put(node_pool())
    body = {"metadata": {"annotations": {ORIGINALS: "{}"}}}

    await led.patch(Ref(SCALEDOBJECT, NAMESPACE, "b"), body)
    await led.patch(Ref(NODEPOOL, None, node_pool()["metadata"]["name"]), body)
    await led.patch(Ref(PODS, NAMESPACE, rig.target("b").pods[0].name), {"metadata": {"annotations": {"a": "1"}}})

    assert rig.object(SCALEDOBJECTS, "b")["metadata"]["annotations"] == {ORIGINALS: "{}", EPOCH: "17"}
    assert [EPOCH in str(entry.body) for entry in rig.writes] == [True, True, False]


async def test_what_is_given_back_loses_the_epoch(rig: Rig) -> None:
    rig.right.epoch = 17
    rig.store.put(scaled_object("b", 2, 9, annotations={ORIGINALS: "{}", EPOCH: "16"}))

    body = {"metadata": {"annotations": {ORIGINALS: None, EPOCH: None}}}
    await Led(rig.kube, rig.right).patch(Ref(SCALEDOBJECT, NAMESPACE, "b"), body)

    assert not rig.object(SCALEDOBJECTS, "b")["metadata"].get("annotations")
