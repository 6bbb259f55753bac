"""A restart finds again what was known, and what comes once more is not counted twice."""

import zlib
from contextlib import suppress

import msgspec
import pytest
from msgspec.structs import replace

from rebalancer.domain.events import Event, MetricSample, Position
from rebalancer.domain.memory import Loss, Memory, ModelMemory
from rebalancer.domain.readings import ModelLoad
from rebalancer.state import ClusterState, checkpoint, chunks
from rebalancer.state.checkpoint import ModelPast
from rebalancer.state.rings import Rings
from tests.builders import NOW, a_model, a_policy
from tests.state.objects import (
    a_cluster_node,
    a_pending_pod,
    a_ready_pod,
    a_sample,
    a_state,
    a_told_notice,
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


def of_topic(sample: Event, topic: str, offset: int) -> Event:
    assert isinstance(sample, MetricSample)
    return replace(sample, position=Position(topic, 0, offset))


def a_start() -> ClusterState:
    return a_state(None, a_cluster_node(), a_workload(replicas=2), a_ready_pod("b-1"), a_ready_pod("b-2"))


def load(state: ClusterState, now: float = NOW) -> ModelLoad:
    return next(load for load in state.peek(now).loads if load.model == "b")


def test_a_restart_brings_back_windows_and_load_times() -> None:
    state = feed(a_start(), *history())
    for name in ("b-3", "b-4", "b-5"):
        ready = a_ready_pod(name, resource_version="2", created_at=NOW - 90, ready_at=NOW - 50)
        feed(state, changed(a_pending_pod(name)), changed(ready))
    fresh = a_start()
    fresh.restore_rings("b", state.rings_bytes("b"))
    assert load(fresh).work == load(state).work
    assert load(fresh).interval_seconds == 5.0
    (then,) = (model for model in fresh.peek(NOW).models if model.id == "b")
    (before,) = (model for model in state.peek(NOW).models if model.id == "b")
    assert (then.load_seconds, then.starts) == (40.0, before.starts)
    assert [(start.count, start.median_seconds) for start in then.starts] == [(3, 40.0)]


def test_records_that_come_again_after_a_restart_are_not_counted_twice() -> None:
    records = history()
    state = feed(a_start(), *records)
    fresh = a_start()
    fresh.restore_rings("b", state.rings_bytes("b"))
    feed(fresh, *records[100:])
    assert fresh.rings_bytes("b") == state.rings_bytes("b")
    assert load(fresh).signals == load(state).signals


def test_samples_of_one_record_are_all_counted_and_none_of_them_twice_after_a_restart() -> None:
    apart = history()
    together = [of_topic(sample, "metrics", offset // 2) for offset, sample in enumerate(apart)]
    state = feed(a_start(), *together)
    one, two = (ModelPast.from_bytes(each.rings_bytes("b")) for each in (feed(a_start(), *apart), state))
    assert two.rings == one.rings
    fresh = a_start()
    fresh.restore_rings("b", state.rings_bytes("b"))
    feed(fresh, *together[100:])
    assert fresh.rings_bytes("b") == state.rings_bytes("b")


def test_samples_of_one_instant_from_two_topics_are_both_counted() -> None:
    of_one = feed(a_start(), *history())
    apart = [
        of_topic(record, "telegraf", offset // 2) if offset % 2 else of_topic(record, "metrics", 10_000 + offset)
        for offset, record in enumerate(history())
    ]
    of_two = feed(a_start(), *apart)
    one, two = (ModelPast.from_bytes(state.rings_bytes("b")) for state in (of_one, of_two))
    assert two.rings == one.rings
    fresh = a_start()
    fresh.restore_rings("b", of_two.rings_bytes("b"))
    feed(fresh, *apart[100:])
    assert fresh.rings_bytes("b") == of_two.rings_bytes("b")


def test_offsets_of_an_older_checkpoint_hold_for_every_topic_it_names() -> None:
    past = ModelPast(b"", seen={0: 7}, offsets={"metrics/0": 9, "metrics/1": 4, "telegraf/0": 3})
    assert past.seen_offsets == {("metrics", 0): 7, ("telegraf", 0): 7}


def test_records_after_the_checkpoint_are_added_where_the_rings_were_written_earlier() -> None:
    records = history()
    everything, half = feed(a_start(), *records), feed(a_start(), *records[:200])
    fresh = a_start()
    fresh.restore_rings("b", half.rings_bytes("b"))
    feed(fresh, *records[150:])
    assert load(fresh).work == load(everything).work


def test_what_a_replica_carries_is_learnt_again_by_the_pods_that_served_then() -> None:
    # One full pod runs 2 requests until a second one is Ready; the checkpoint is older than that. Read again by the two
    # pods of today the same samples would teach nothing, or half of it.
    everything, fresh = _lived_on(running=2.0)
    assert load(fresh).carries == load(everything).carries
    assert load(fresh).work == load(everything).work


def test_what_is_read_again_teaches_no_more_than_is_believed_since_pods_that_served_may_have_gone() -> None:
    everything, fresh = _lived_on(running=6.0)
    known, again = load(everything).carries, load(fresh).carries
    assert known is not None
    assert again is not None
    assert known.learnt == pytest.approx(6.0, rel=0.05)
    assert again.learnt <= 4.0  # the policy's


def _lived_on(running: float) -> tuple[ClusterState, ClusterState]:
    """A state that lived through two minutes of a full pod, and one that began at their end from their beginning."""
    samples = (
        a_sample(at=NOW - 5.0 * n, running=running, finished=24.0 - n, gauges={"waiting": 9.0}) for n in range(24)
    )
    records = [at_offset(sample, offset) for offset, sample in enumerate(reversed(list(samples)))]
    one, second = a_ready_pod("b-1", ready_at=NOW - 300.0), a_ready_pod("b-2", ready_at=NOW - 8.0)
    everything = a_state(None, a_cluster_node(), a_workload(replicas=2), one)
    kept = feed(everything, *records[:1]).rings_bytes("b")
    feed(everything, *records[1:-2], changed(second), *records[-2:])
    fresh = a_state(None, a_cluster_node(), a_workload(replicas=2), one, second, started_at=NOW)
    fresh.restore_rings("b", kept)
    feed(fresh, *records)
    return everything, fresh


def test_replayed_history_is_not_live() -> None:
    fresh = ClusterState(a_policy(), started_at=NOW + 1)
    feed(fresh, listed("pods", a_ready_pod("b-1")), *history(), now=NOW + 1)
    assert load(fresh, NOW + 1).intervals_live == 0
    assert load(fresh, NOW + 1).work.long == pytest.approx(1.5)


def test_the_topic_gives_back_memory_cycle_and_where_to_read_on() -> None:
    state = feed(a_start(), *history(1))
    state.offsets = {("metrics", 0): 24, ("metrics", 1): 9}
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
    state.offsets = {("metrics", 0): 24}
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


@pytest.mark.parametrize("key", [b"memory", b"rings/b"])
def test_whichever_bit_of_an_entry_turned_a_start_reads_on_and_reports_it_where_it_is_unreadable(key: bytes) -> None:
    entries = [
        checkpoint.memory_entry(Memory(), 41, NOW, OFFSETS),
        checkpoint.rings_entry("b", ModelPast(Rings(1).to_bytes(0), NOW, positions={"m/0": 7}).to_bytes()),
    ]
    good, state = dict(entries)[key], a_start()
    for bit in range(8 * len(good)):
        value = bytearray(good)
        value[bit // 8] ^= 1 << bit % 8
        restored = checkpoint.read([*entries, (key, bytes(value))], ["b"], NOW)
        assert [key.decode() in problem for problem in restored.problems] in ([], [True])
        state.restore_rings("b", restored.rings["b"])


def test_offsets_that_are_none_cost_their_entry_and_no_start() -> None:
    past = ModelPast(Rings(1).to_bytes(0), NOW, positions={"metrics/0": 7}).to_bytes()
    good = [checkpoint.memory_entry(MEMORY, 41, NOW, OFFSETS), checkpoint.rings_entry("b", past)]
    spoiled = [(key, value.replace(b"metrics/0", b"metrics/p")) for key, value in good]
    restored = checkpoint.read([*good, *spoiled], ["b"], NOW)
    assert (restored.cycle, restored.offsets, restored.rings) == (41, OFFSETS, {"b": past})
    assert [problem.split("'")[1] for problem in restored.problems] == ["memory", "rings/b"]


def test_a_turned_bit_in_the_head_of_the_rings_costs_that_models_past_and_nobody_elses() -> None:
    """All models share the head: believed, it puts every sample to come before their beginning."""
    rings = Rings(1)
    rings.advance(int(NOW))
    whole = ModelPast(rings.to_bytes(0), NOW).to_bytes()
    turned = bytearray(whole)
    turned[whole.index(b"RNG1") + 6] ^= 0x10
    with pytest.raises(ValueError, match="rebuilt from the metrics topic"):
        ModelPast.from_bytes(bytes(turned))
    assert ModelPast.from_bytes(_without_sums(whole)) == ModelPast.from_bytes(whole)


def test_no_turned_bit_beside_the_rings_is_read_as_another_number() -> None:
    past = ModelPast(Rings(1).to_bytes(0), NOW, 5.0, offsets={"metrics/0": 9}, positions={"metrics/0": 7}, caching=True)
    entry = past.to_bytes()
    for bit in range(8 * entry.index(b"RNG1")):
        turned = bytearray(entry)
        turned[bit // 8] ^= 1 << bit % 8
        with suppress(ValueError):
            assert ModelPast.from_bytes(bytes(turned)) == past, f"bit {bit}: {bytes(turned[4:400])!r}"


def _without_sums(entry: bytes) -> bytes:
    """The entry as an older version writes it, which knows no such sums."""
    size = int.from_bytes(entry[:4], "little")
    head = msgspec.json.decode(entry[4 : 4 + size])
    del head["head_sum"], head["past_sum"]
    older = msgspec.json.encode(head)
    return len(older).to_bytes(4, "little") + older + entry[4 + size :]


def test_damaged_rings_are_refused_and_harm_nothing() -> None:
    state = feed(a_start(), *history())
    before = load(state)
    with pytest.raises(ValueError, match="damaged"):
        state.restore_rings("b", state.rings_bytes("b")[:-1] + b"x")
    assert load(state) == before


def test_a_model_that_is_not_in_the_policy_has_no_rings() -> None:
    with pytest.raises(KeyError):
        a_state(a_policy(a_model("a"))).rings_bytes("b")


def written(memory: Memory, cycle: int, slot: int, most: int = 200) -> list[checkpoint.Entry]:
    """Memory after `cycle` in chunks of 200 bytes."""
    return chunks.entries(*checkpoint.memory_entry(memory, cycle, NOW + cycle, OFFSETS), slot, most)


def large(replicas: int) -> Memory:
    """Some kilobytes."""
    losses = tuple(Loss(NOW - n, replicas, "step") for n in range(100))
    return Memory(models={"b": ModelMemory(demand=replicas, losses=losses)})


def compacted(records: list[checkpoint.Entry]) -> list[checkpoint.Entry]:
    """Only the last record of each key is left."""
    last = {key: number for number, (key, _) in enumerate(records)}
    return [record for number, record in enumerate(records) if last[record[0]] == number]


def test_memory_that_is_larger_than_a_record_comes_back_whole_and_no_chunk_is_larger() -> None:
    records = written(large(3), 41, slot=0)
    assert len(records) > 10
    assert max(len(value) for _, value in records) < 300
    restored = checkpoint.read(records, ["b"], NOW + 60)
    assert (restored.memory, restored.cycle, restored.slot, restored.problems) == (large(3), 41, 1, ())


def test_the_default_chunk_fits_a_broker_that_takes_a_mebibyte() -> None:
    memory = Memory(models={f"m{n}": large(n).models["b"] for n in range(400)})
    records = chunks.entries(*checkpoint.memory_entry(memory, 7, NOW, OFFSETS), 0)
    assert len(records) > 1
    assert max(len(key) + len(value) for key, value in records) < 1024 * 1024 - 4096
    assert checkpoint.read(records, [], NOW).memory == memory


@pytest.mark.parametrize("written_until", range(1, 20))
def test_of_a_writing_that_broke_off_nothing_is_believed_and_the_one_before_stands(written_until: int) -> None:
    first, second = written(large(3), 41, slot=0), written(large(4), 42, slot=1)
    records = compacted([*first, *second[:written_until]])
    restored = checkpoint.read(records, ["b"], NOW + 60)
    assert (restored.memory, restored.cycle, restored.slot) == (large(3), 41, 1)


def test_a_third_writing_goes_over_the_first_and_the_second_stands_until_it_is_whole() -> None:
    slots = []
    records: list[checkpoint.Entry] = []
    for cycle in (41, 42, 43):
        slots.append(checkpoint.read(compacted(records), ["b"], NOW).slot)
        new = written(large(cycle), cycle, slots[-1])
        assert checkpoint.read(compacted([*records, *new[:-1]]), ["b"], NOW).cycle == (cycle - 1 if records else 0)
        records += new
        assert checkpoint.read(compacted(records), ["b"], NOW).memory == large(cycle)
    assert slots == [0, 1, 0]


def test_memory_that_became_small_again_is_newer_than_its_chunks_and_the_other_way_round() -> None:
    small = checkpoint.memory_entry(MEMORY, 42, NOW + 42, OFFSETS)
    chunked = written(large(3), 41, slot=0)
    for records in ([*chunked, small], [small, *chunked]):  # partitions are read one after the other
        assert checkpoint.read(records, ["b"], NOW).memory == MEMORY
    later = written(large(5), 43, slot=0)
    assert checkpoint.read(compacted([*chunked, small, *later]), ["b"], NOW).memory == large(5)


def test_a_shorter_writing_over_a_longer_one_is_whole_without_the_rest_of_that() -> None:
    records = compacted([*written(large(3), 41, slot=0), *written(large(4), 42, slot=0, most=3000)])
    assert checkpoint.read(records, ["b"], NOW).memory == large(4)


@pytest.mark.parametrize("value", [b"", b"x", b'{"digest":"d","index":7,"count":3}\nx', b'{"index":0}\nx'])
def test_a_chunk_that_is_none_is_reported_and_costs_nothing_else(value: bytes) -> None:
    small = checkpoint.memory_entry(MEMORY, 42, NOW, OFFSETS)
    restored = checkpoint.read([small, (b"memory/0/0", value)], ["b"], NOW)
    assert restored.memory == MEMORY
    assert len(restored.problems) == (0 if not value else 1)


def test_a_model_may_be_named_like_the_memory() -> None:
    assert not chunks.belongs(checkpoint.MEMORY_KEY, checkpoint.rings_entry("memory", b"x")[0])


def test_open_notices_come_back_with_the_memory() -> None:
    before = feed(a_start(), a_told_notice("n1", deadline=NOW + 600.0))
    entry = checkpoint.memory_entry(MEMORY, 41, NOW, OFFSETS, (), before.notices_past())
    after = a_start()
    after.restore_notices(checkpoint.read([entry], ["b"], NOW + 30.0).notices)
    assert after.peek(NOW + 30.0).notices == before.peek(NOW + 30.0).notices != ()


def test_the_policy_in_force_comes_back_and_is_no_models_past() -> None:
    entries = [checkpoint.policy_entry(a_policy()), checkpoint.policy_entry(a_policy(a_model("policy")))]
    assert checkpoint.read_policy(entries) == a_policy(a_model("policy"))
    assert checkpoint.read(entries, ["policy"], NOW).problems == ()


@pytest.mark.parametrize("value", [b"", b"none", zlib.compress(b"{}"), zlib.compress(b"no json")])
def test_without_a_policy_that_can_be_read_none_is_known(value: bytes) -> None:
    assert checkpoint.read_policy([(checkpoint.POLICY_KEY, value)]) is None
    assert checkpoint.read_policy([]) is None


def test_the_policy_of_a_thousand_models_fits_a_brokers_record() -> None:
    models = [a_model(f"model-{number}", max_replicas=number + 1) for number in range(1000)]
    _, value = checkpoint.policy_entry(a_policy(*models))
    assert len(value) < chunks.CHUNK_BYTES
