"""What a cycle was told of our writes is remembered even where the cycle fails, and fails no other one."""

import pytest
from msgspec.structs import replace

from rebalancer.act.gate import Gate
from rebalancer.domain.autoscalers import Originals
from rebalancer.domain.cluster import ClusterObject
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.domain.plan import Change
from rebalancer.domain.snapshot import Snapshot
from rebalancer.leader.right import Alone
from rebalancer.loop.cycle import cycle
from rebalancer.loop.gate_ports import GatePorts, mark_unconfirmed
from rebalancer.sim.product.clock import WorldClock
from rebalancer.sim.product.notes import Unwritten
from rebalancer.state import ClusterState
from rebalancer.world import World
from rebalancer.world.port import WorldPort
from tests.builders import NOW, a_policy
from tests.state.objects import a_cluster_node, a_ready_pod, a_scaled_object, a_state, a_workload, changed, feed


class Noted(Unwritten):
    """What is recorded, with how often it began anew."""

    def __init__(self) -> None:
        super().__init__()
        self.cycles: list[tuple[int, Memory]] = []
        self.begun = 0

    def begin(self, snapshot: Snapshot, memory_before: Memory) -> None:
        self.cycles.append((snapshot.cycle, memory_before))

    def begin_anew(self) -> None:
        self.begun += 1


class CyclePorts(GatePorts):
    """The service's, on a state of two models with two replicas; `skipped`: outcomes nobody remembers, and why."""

    def __init__(self, first_cycle: int = 7) -> None:
        world = World(NOW)
        policy = a_policy()
        pods = [a_ready_pod(f"{name}-{number}", name) for name in "ab" for number in (1, 2)]
        self.state: ClusterState = a_state(policy, a_cluster_node(), a_workload("a", 2), a_workload("b", 2), *pods)
        self.noted = Noted()
        self.skipped: list[tuple[str, str]] = []
        clock = WorldClock(world)
        gate = Gate(
            WorldPort(world),
            facts=self.state.peek,
            clock=clock,
            recorder=self.noted,
            right=Alone(),
            write_mode="shadow",
            on_written=mark_unconfirmed(self.state),
        )
        super().__init__(policy, Memory(), self.state, self.noted, gate, clock, lambda: None, first_cycle)

    def skip(self, outcome: Outcome, why: str) -> None:
        super().skip(outcome, why)
        self.skipped.append((outcome.intent.id, why))


def a_loss(model: str, at: float = NOW - 5.0) -> Outcome:
    intent = Intent(
        id=f"6-{model}-a100",
        cycle=6,
        at=at,
        kind="release",
        subject=model,
        object=f"deployment/serving/{model}",
        replicas_from=3,
        replicas_to=2,
        reason="test",
        pool="a100",
        counts="step",
        counted=1,
    )
    return Outcome(intent, at, WRITTEN)


def a_riddle() -> Outcome:
    """An outcome that no code understands."""
    loss = a_loss("a")
    return replace(loss, intent=replace(loss.intent, id="6-riddle", replaces=None))


async def test_after_a_failed_cycle_the_other_outcomes_are_in_memory_and_the_next_cycle_plans() -> None:
    ports = CyclePorts()
    for outcome in (a_loss("a"), a_riddle(), a_loss("b")):
        ports.state.note(outcome, NOW)
    with pytest.raises(TypeError):
        await cycle(NOW, ports)
    ports.recover(NOW)
    assert {name: len(one.losses) for name, one in ports.memory.models.items()} == {"a": 1, "b": 1}
    assert [name for name, _ in ports.skipped] == ["6-riddle"]
    before = ports.memory
    turn = await cycle(NOW + 10.0, ports)
    assert turn.decision.plan.cycle == 8
    assert ports.noted.cycles == [(8, before)]
    assert {name: len(one.losses) for name, one in ports.memory.models.items()} == {"a": 1, "b": 1}


async def test_after_a_cycle_that_failed_the_next_one_is_recorded_whole_for_a_number_is_left_out() -> None:
    ports = CyclePorts()
    ports.recover(NOW)
    assert (ports.noted.begun, ports.next_cycle) == (1, 8)
    ports.state.note(a_loss("a"), NOW)
    ports.recover(NOW)
    assert (ports.noted.begun, ports.next_cycle) == (2, 9)


@pytest.mark.parametrize("step", [1800.0, -1800.0])
async def test_a_loss_before_the_clock_was_set_counts_in_its_window_for_as_long_as_it_would_have(step: float) -> None:
    """Its window is 300 s; both what is remembered and what no cycle has looked at yet."""
    ports = CyclePorts()
    ports.state.note(a_loss("a"), NOW)
    await cycle(NOW, ports)
    ports.state.note(a_loss("b"), NOW)
    ports.state.stepped(step)
    ports.stepped(step)
    assert ports.noted.begun == 1
    await cycle(NOW + step + 290.0, ports)
    assert {name: len(one.losses) for name, one in ports.memory.models.items()} == {"a": 1, "b": 1}
    await cycle(NOW + step + 300.0, ports)
    assert {name: len(one.losses) for name, one in ports.memory.models.items()} == {"a": 0, "b": 0}


async def test_a_cycle_that_fails_without_outcomes_leaves_memory_as_it_was() -> None:
    ports = CyclePorts()
    await cycle(NOW, ports)
    before = ports.memory
    ports.recover(NOW + 10.0)
    assert ports.memory == before


async def test_an_outcome_of_a_model_that_left_the_policy_is_told_and_the_cycle_plans() -> None:
    ports = CyclePorts()
    for outcome in (a_loss("left"), a_loss("b")):
        ports.state.note(outcome, NOW)
    await cycle(NOW, ports)
    assert ports.skipped == [("6-left-a100", "left is no model of the policy any more")]
    assert len(ports.memory.models["b"].losses) == 1


@pytest.mark.parametrize(("paused", "ours"), [(False, (2, 5)), (True, (5,))])
def test_what_was_written_are_bounds_where_an_autoscaler_chooses_and_else_replicas(
    *, paused: bool, ours: tuple[int, ...]
) -> None:
    """Who writes over them is told from who puts them back by these numbers."""
    bounds = replace(a_scaled_object(bounds=(1, 4)), originals=Originals(1, 4), paused=paused)
    state = a_state(a_policy(), a_workload("b", 4), bounds)
    (target,) = next(model for model in state.peek(NOW).models if model.id == "b").targets
    mark_unconfirmed(state)(Change("1", "grant", "b", target, 4, 5, 2, ""), 5, NOW)
    by_hand: ClusterObject = replace(bounds, maximum=9, writers=("", "kubectl-edit"), resource_version="2")
    if paused:
        by_hand = replace(a_workload("b", 7), writer="kubectl-edit", resource_version="2")
    feed(state, changed(by_hand))
    assert [one.ours for one in state.foreign_past()] == [ours]
