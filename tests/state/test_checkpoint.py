"""A restart finds again what was known, and what comes once more is not counted twice."""

import pytest

from rebalancer.domain.events import Event
from rebalancer.domain.memory import Loss, Memory, ModelMemory
from rebalancer.domain.readings import ModelLoad
from rebalancer.state import ClusterState, checkpoint
from tests.builders import NOW, a_model, a_policy
from tests.state.objects import (
    a_cluster_node,
    a_pending_pod,
    a_ready_pod,
    a_sample,
    a_state,
    a_workload,
    at_offset,
    changed,
    feed,
    listed,
)

MEMORY = Memory(models={"b": ModelMemory(demand=3, losses=(Loss(NOW - 10, 1, "step"),))})
OFFSETS = {("metrics", 0): 120, ("notices", 0): 3}


def history(minutes: int = 10) -> list[Event]:
    """Two pods, a sample each every 5 s until NOW, with offsets from 0 on."""
    samples = [
        a_sample(pod=pod, at=NOW - 60.0 * minutes + 5.0 * n, running=6.0, finished=2.0 * n)
        for n in range(1, 12 * minutes + 1)
        for pod in ("b-1", "b-2")
    ]
    return [at_offset(sample, offset) for offset, sample in enumerate(samples)]


def a_start() -> ClusterState:
    return a_state(None, a_cluster_node(), a_workload(replicas=2), a_ready_pod("b-1"), a_ready_pod("b-2"))


def load(state: ClusterState, now: float = NOW) -> ModelLoad:
    return next(load for load in state.peek(now).loads if load.model == "b")


def test_a_restart_brings_back_windows_and_load_times() -> None:
    state = feed(a_start(), *history())
    pod = a_pending_pod("b-3")
    feed(state, changed(pod), changed(a_ready_pod("b-3", resource_version="2", created_at=NOW - 90, ready_at=NOW - 50)))
    fresh = a_start()
    fresh.restore_rings("b", state.rings_bytes("b"))
    assert load(fresh).work == load(state).work
    assert load(fresh).interval_seconds == 5.0
    assert next(model for model in fresh.peek(NOW).models if model.id == "b").load_seconds == 40.0


def test_records_that_come_again_after_a_restart_are_not_counted_twice() -> None:
    records = history()
    state = feed(a_start(), *records)
    fresh = a_start()
    fresh.restore_rings("b", state.rings_bytes("b"))
    feed(fresh, *records[100:])
    assert fresh.rings_bytes("b") == state.rings_bytes("b")
    assert load(fresh).signals == load(state).signals


def test_records_after_the_checkpoint_are_added_where_the_rings_were_written_earlier() -> None:
    records = history()
    everything, half = feed(a_start(), *records), feed(a_start(), *records[:200])
    fresh = a_start()
    fresh.restore_rings("b", half.rings_bytes("b"))
    feed(fresh, *records[150:])
    assert load(fresh).work == load(everything).work


def test_replayed_history_is_not_live() -> None:
    fresh = ClusterState(a_policy(), started_at=NOW + 1)
    feed(fresh, listed("pods", a_ready_pod("b-1")), *history(), now=NOW + 1)
    assert load(fresh, NOW + 1).intervals_live == 0
    assert load(fresh, NOW + 1).work.long == pytest.approx(1.5)


def test_the_topic_gives_back_memory_cycle_and_where_to_read_on() -> None:
    state = feed(a_start(), *history(1))
    state.restore_offsets({("metrics", 0): 24, ("metrics", 1): 9})
    entries = [
        checkpoint.rings_entry("b", state.rings_bytes("b")),
        checkpoint.memory_entry(MEMORY, 41, NOW, OFFSETS),
    ]
    restored = checkpoint.read(entries, ["a", "b"], NOW + 60)
    assert (restored.memory, restored.cycle, restored.at) == (MEMORY, 41, NOW)
    assert restored.offsets == {("metrics", 0): 24, ("metrics", 1): 9, ("notices", 0): 3}
    assert restored.rings == {"b": state.rings_bytes("b")}
    assert restored.problems == ()


def test_nothing_to_read_is_a_fresh_start() -> None:
    assert checkpoint.read([], ["b"], NOW) == checkpoint.Restored()


def test_a_model_silent_for_longer_than_its_rings_holds_nothing_up() -> None:
    state = feed(a_start(), *history(1))
    state.restore_offsets({("metrics", 0): 24})
    entries = [checkpoint.rings_entry("b", state.rings_bytes("b")), checkpoint.memory_entry(MEMORY, 1, NOW, OFFSETS)]
    assert checkpoint.read(entries, ["b"], NOW + 8 * 3600).offsets == OFFSETS


def test_models_that_left_the_policy_and_forgotten_keys_are_passed_over() -> None:
    state = feed(a_start(), *history(1))
    entry = checkpoint.rings_entry("b", state.rings_bytes("b"))
    assert checkpoint.read([entry], ["a"], NOW).rings == {}
    assert checkpoint.read([entry, (entry[0], b""), (entry[0], None)], ["b"], NOW).rings == {}


@pytest.mark.parametrize("key", [b"memory", b"rings/b"])
@pytest.mark.parametrize("harm", ["cut", "flip", "other"])
def test_a_damaged_entry_is_reported_and_the_one_before_stands(key: bytes, harm: str) -> None:
    state = feed(a_start(), *history(1))
    good = dict(
        [checkpoint.memory_entry(MEMORY, 41, NOW, OFFSETS), checkpoint.rings_entry("b", state.rings_bytes("b"))]
    )
    value = bytearray(good[key])
    match harm:
        case "cut":
            value = value[:-5]
        case "flip":
            value[len(value) // 2] ^= 0x80
        case _:
            value = bytearray(b"{}" * 40)
    restored = checkpoint.read([*good.items(), (key, bytes(value))], ["b"], NOW)
    assert len(restored.problems) == 1
    assert key.decode() in restored.problems[0]
    assert restored.memory == MEMORY
    assert restored.rings == {"b": good[b"rings/b"]}


def test_damaged_rings_are_refused_and_harm_nothing() -> None:
    state = feed(a_start(), *history())
    before = load(state)
    with pytest.raises(ValueError, match="damaged"):
        state.restore_rings("b", state.rings_bytes("b")[:-1] + b"x")
    assert load(state) == before


def test_a_model_that_is_not_in_the_policy_has_no_rings() -> None:
    with pytest.raises(KeyError):
        a_state(a_policy(a_model("a"))).rings_bytes("b")
