"""The files that the service reads, and what a start reads of the topic `state`."""

import re
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from rebalancer.app.own_writes import OwnWrites
from rebalancer.app.past import begin_from
from rebalancer.domain.memory import Loss, Memory, ModelMemory
from rebalancer.domain.snapshot import ForeignChange
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.planning import plan
from rebalancer.settings.policy_file import check_bytes
from rebalancer.state import ClusterState, checkpoint, chunks
from rebalancer.state.checkpoint import ModelPast, Restored
from rebalancer.state.foreign import ForeignPast
from rebalancer.state.rings import Rings
from tests.builders import NAMESPACE, a_model, a_policy
from tests.fuzz.decoder import Decoder
from tests.ingest.wire import NOW
from tests.state.objects import a_cluster_node, a_ready_pod, a_sample, a_state, a_told_notice, a_workload, feed

POLICY = Path(__file__).parents[2] / "config/policy.yaml"


def _policies() -> Iterator[bytes]:
    yield POLICY.read_bytes()
    yield b"models:\n- name: chat\n  targets: [{name: chat, pool: a}]\npools: [{name: a}]\n"


def _policy(data: bytes) -> object:
    return check_bytes(data, "policy.yaml")


# --- the checkpoint, up to what a start makes of it

HEAD_SIZE = struct.Struct("<I")  # before the head of a model's past
NO_RINGS = Rings(1).to_bytes(0)


def checkpoints() -> Iterator[bytes]:
    """A policy; memories, and a chunk of one; a model's past with rings and without, and its head alone.

    That one as an older version wrote it, without a checksum: what is spoiled in it may be believed.
    """
    yield checkpoint.policy_entry(a_policy(a_model("b")))[1]
    yield checkpoint.memory_entry(Memory(), 41, NOW, {("metrics", 0): 120, ("notices", 0): 3})[1]
    yield _memory_of(41)
    yield _chunks_of(41)[1][1]
    samples = (a_sample(at=NOW - 5.0 * n, running=6.0, finished=99.0 - n) for n in range(9, 0, -1))
    state = feed(a_state(None, a_cluster_node(), a_workload(replicas=1), a_ready_pod("b-1")), *samples)
    state.offsets = {("metrics", 0): 24}
    whole = state.rings_bytes("b")
    yield whole
    head = replace(ModelPast.from_bytes(whole), rings=NO_RINGS).to_bytes()
    yield head
    yield re.sub(rb',"past_sum":\d+}$', b"}", head[HEAD_SIZE.size : -len(NO_RINGS)])


def _memory_of(cycle: int) -> bytes:
    before = feed(a_state(), a_told_notice("n1", deadline=NOW + 600.0))
    memory = Memory(models={"b": ModelMemory(demand=3, lower_since=NOW - 5.0, losses=(Loss(NOW - 9, 1, "step"),))})
    fight = ForeignPast(WorkloadRef(NAMESPACE, "Deployment", "b"), (ForeignChange(NOW - 30.0, "helm"),), ours=(6,))
    offsets = {("metrics", 0): 120, ("notices", 0): 3}
    return checkpoint.memory_entry(memory, cycle, NOW, offsets, (fight,), before.notices_past(), "prod/rebalancer")[1]


@cache
def _chunks_of(cycle: int) -> list[checkpoint.Entry]:
    return chunks.entries(checkpoint.MEMORY_KEY, _memory_of(cycle), 1, most=200)


def restored(data: bytes) -> Restored:
    """The record as each kind of entry: as memory, whole and in chunks and as one of them, as a past or its head."""
    others = [entry for entry in _chunks_of(7) if not entry[0].endswith(b"/1")]
    entries = [
        *others,
        (b"memory/1/1", data),
        *chunks.entries(checkpoint.MEMORY_KEY, data, 0, most=len(data) // 3 + 1),
        *((key, data) for key in (checkpoint.MEMORY_KEY, checkpoint.POLICY_KEY, b"rings/b", data)),
        (b"rings/b", HEAD_SIZE.pack(len(data)) + data + NO_RINGS),
    ]
    checkpoint.read_policy(entries)
    return checkpoint.read(entries, ("b",), NOW)


def _start(data: bytes) -> object:
    """What a start makes of it, as far as its first plan."""
    policy = a_policy()
    start = begin_from(restored(data), OwnWrites(), policy, NOW)
    state = ClusterState(policy, NOW)
    start.into(state, NOW)
    return plan(state.snapshot(NOW, start.first_cycle), policy, start.memory)


OF_FILES = (
    Decoder("policy", _policies, _policy, longest_seconds=2.0),
    Decoder("checkpoint", checkpoints, _start),
)
