"""Whether we may write at all, and whether the object is still what the plan saw."""

import asyncio

import pytest
from msgspec.structs import replace

from rebalancer.domain.cluster import CLOCK, READINGS
from rebalancer.domain.sync import Sync, Unseen
from rebalancer.sandbox.api.resources import DEPLOYMENTS, WRITESTOPS
from tests.act.rig import Rig, change, deployment, hpa, node_pool, node_pool_change, says, write_stop
from tests.builders import NAMESPACE, a_write_stop, an_autoscaler

# --- may we write at all


async def test_nothing_is_written_without_leadership(rig: Rig) -> None:
    rig.right.why = "pod rebalancer-1 leads"

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "leadership: pod rebalancer-1 leads")
    assert rig.writes == []


async def test_leadership_lost_while_the_intent_was_on_its_way_stops_the_write(rig: Rig) -> None:
    def lose() -> None:
        rig.right.why = "the lease was not renewed in time"

    rig.notebook.before_answer = lose

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "leadership")
    assert rig.writes == []


async def test_a_write_stop_that_no_watch_has_shown_yet_stops_the_write(rig: Rig) -> None:
    rig.store.put(write_stop())

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "write-stop: stop by alice: incident 42")
    assert rig.writes == []


async def test_a_write_stop_between_two_changes_stops_the_second(rig: Rig) -> None:
    def press_after_the_first_write(_: object) -> None:
        if not rig.store.list(WRITESTOPS):
            rig.store.put(write_stop())
            rig.clock.passed += 1.1

    rig.store.subscribe(press_after_the_first_write)

    first, second = await rig.apply(change(rig.target("b"), 4), change(rig.show("a", replicas=3, pods=()), 4))

    assert says(first, "written")
    assert says(second, "refused", "write-stop")
    assert rig.written_objects == ["b"]


async def test_a_write_stop_pressed_while_the_intent_was_on_its_way_stops_the_write(rig: Rig) -> None:
    def press() -> None:
        rig.store.put(write_stop())
        rig.clock.passed += 1.1

    rig.notebook.before_answer = press

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "write-stop")
    assert rig.writes == []


async def test_a_write_stop_pressed_meanwhile_stops_a_node_pools_write_too(rig: Rig) -> None:
    def press() -> None:
        rig.store.put(write_stop())
        rig.clock.passed += 1.1

    rig.notebook.before_answer = press
    rig.store.put(node_pool())

    (outcome,) = await rig.apply(node_pool_change("hold"))

    assert says(outcome, "refused", "write-stop")
    assert rig.writes == []


async def test_nothing_is_written_while_write_stops_cannot_be_read(rig: Rig) -> None:
    rig.server.faults.fail_next(3, 500, path_part="writestops")

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "write-stop: cannot be read")
    assert rig.writes == []


@pytest.mark.parametrize("changes", [1, 2])  # the second one waits for the read of the first
async def test_a_process_that_was_stopped_while_it_read_write_stops_acts_on_no_old_answer(
    rig: Rig, changes: int
) -> None:
    rig.server.faults.hang_next(1, path_part="writestops")
    releases = [change(rig.target("b"), 4), change(rig.target("a"), 2)][:changes]
    applied = asyncio.ensure_future(rig.apply(*releases))
    while not rig.server.faults.hanging:
        await asyncio.sleep(0)

    rig.clock.passed += 2.1
    rig.server.faults.release()

    assert all(says(outcome, "refused", "write-stop: cannot be read") for outcome in await applied)
    assert rig.writes == []


async def test_one_list_of_write_stops_serves_the_writes_of_a_second(rig: Rig) -> None:
    gate = rig.gate()
    await rig.apply_by(gate, change(rig.target("b"), 4))
    rig.server.faults.fail_next(1000, 500, path_part="writestops")

    (within,) = await rig.apply_by(gate, change(rig.target("b"), 3))
    rig.clock.passed += 1.1
    (later,) = await rig.apply_by(gate, change(rig.target("b"), 2))

    assert says(within, "written")
    assert says(later, "refused", "write-stop: cannot be read")


async def test_a_write_stop_that_the_state_knows_is_enough(rig: Rig) -> None:
    rig.facts = replace(rig.facts, write_stop=a_write_stop())

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "write-stop")


@pytest.mark.parametrize("sync", [Sync(missing=("pods",)), Sync(stale=("pods",), synced_at=1.0)])
async def test_nothing_is_written_while_a_source_is_missing_or_silent(rig: Rig, sync: Sync) -> None:
    rig.facts = replace(rig.facts, sync=sync)

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "unsynced")
    assert "pods" in outcome.detail
    assert rig.writes == []


@pytest.mark.parametrize("name", ["b", "a"])
async def test_nothing_is_written_in_a_pool_of_which_something_cannot_be_looked_at(rig: Rig, name: str) -> None:
    rig.store.put(node_pool())
    rig.facts = replace(rig.facts, unseen=(Unseen("model", name, ("a100",), "TypeError: no number"),))

    (raised,) = await rig.apply(change(rig.target("b"), 4))
    (limited,) = await rig.apply(node_pool_change("limit", limit_from=None, limit_to=8))

    assert says(raised, "refused", f"unsynced: model {name} cannot be looked at: TypeError: no number")
    assert says(limited, "written"), "it is another pool's"
    assert rig.written_objects == ["spot"]


async def test_readings_that_may_be_missing_are_plannings_to_weigh_and_hold_up_no_write(rig: Rig) -> None:
    rig.facts = replace(rig.facts, sync=Sync(stale=(READINGS,), synced_at=1.0))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "written")


async def test_a_clock_that_is_off_is_plannings_to_weigh_and_holds_up_no_raise(rig: Rig) -> None:
    rig.facts = replace(rig.facts, sync=Sync(stale=(CLOCK,), synced_at=1.0))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "written")


# --- is the object still what the plan saw


async def test_an_object_made_again_under_its_name_is_not_written(rig: Rig) -> None:
    rig.store.remove(DEPLOYMENTS, "b", NAMESPACE)
    rig.store.put(deployment("b", 5, uid="another"))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "recreated")
    assert rig.writes == []


async def test_an_object_that_is_gone_is_not_written(rig: Rig) -> None:
    rig.store.remove(DEPLOYMENTS, "b", NAMESPACE)

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "gone")


async def test_replicas_that_somebody_changed_are_decided_anew(rig: Rig) -> None:
    rig.store.put(deployment("b", 6))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "moved: deployment/serving/b asks for 6 replicas, the plan saw 5")
    assert rig.writes == []


async def test_our_own_write_that_no_watch_has_shown_yet_is_what_the_plan_saw(rig: Rig) -> None:
    rig.store.put(deployment("b", 4))
    target = rig.show("b", unconfirmed_replicas=4)  # replicas still reads 5

    (outcome,) = await rig.apply(change(target, 3))

    assert says(outcome, "written")
    assert rig.replicas("b") == 3


async def test_scale_is_never_written_under_a_live_hpa(rig: Rig) -> None:
    rig.store.put(hpa("b", 1, 10))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "foreign: HPA b scales deployment/serving/b")
    assert rig.writes == []


async def test_an_hpa_of_another_target_does_not_matter(rig: Rig) -> None:
    rig.store.put(hpa("a", 1, 10))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "written")


async def test_a_model_that_asked_for_scale_is_refused_while_an_autoscaler_owns_its_target(rig: Rig) -> None:
    models = tuple(
        model.model_copy(update={"actuation": "scale"}) if model.id == "b" else model for model in rig.policy.models
    )
    rig.policy = rig.policy.model_copy(update={"models": models})
    target = rig.show("b", autoscaler=an_autoscaler())

    (outcome,) = await rig.apply(change(target, 4))

    assert says(outcome, "refused", "foreign: ScaledObject b owns b")
