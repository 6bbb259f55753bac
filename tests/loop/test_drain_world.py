"""A node that nobody else drains, in virtual time: the service's state, cycle and gate against a simulated cluster."""

import itertools
from dataclasses import dataclass, field

import pytest

from rebalancer.act.gate import Gate
from rebalancer.domain.account import NoticeAccount
from rebalancer.domain.codec import from_bytes, to_bytes
from rebalancer.domain.events import CapacityNotice
from rebalancer.domain.memory import Memory
from rebalancer.domain.policy import Policy
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kube.errors import Temporary
from rebalancer.kube.resources import Ref
from rebalancer.leader.right import Alone
from rebalancer.loop.cycle import cycle
from rebalancer.loop.gate_ports import GatePorts, mark_unconfirmed
from rebalancer.sim.product.clock import WorldClock
from rebalancer.sim.product.ears import Ears
from rebalancer.sim.product.notes import Unwritten
from rebalancer.state import ClusterState
from rebalancer.world import World
from rebalancer.world.port import WorldPort
from rebalancer.world.things import WorldPod
from tests.builders import NAMESPACE, NOW, a_model, a_policy, a_pool

B = WorkloadRef(NAMESPACE, "Deployment", "b")
PERIOD_SECONDS = 10


class Budgeted(WorldPort):
    """A cluster in which a disruption budget declines every eviction; `asked`: when."""

    def __init__(self, world: World, *, declines: bool) -> None:
        super().__init__(world)
        self._declines = declines
        self.asked: list[float] = []
        self.deleted: list[tuple[float, int | None]] = []

    async def evict(self, pod: Ref, uid: str) -> None:
        self.asked.append(self._world.now - NOW)
        if self._declines:
            raise Temporary("Cannot evict pod as it would violate the pod's disruption budget.")
        await super().delete(pod, uid=uid)

    async def delete(self, ref: Ref, *, uid: str | None = None, grace_seconds: int | None = None) -> None:
        self.deleted.append((self._world.now - NOW, grace_seconds))
        await super().delete(ref, uid=uid, grace_seconds=grace_seconds)


@dataclass
class Bench:
    """`nodes` nodes of 2 GPUs, the first of which go; 2 replicas of b run on each, and its floor is `floor`."""

    nodes: int
    replicas: int
    floor: int
    declines: bool = False
    world: World = field(default_factory=lambda: World(NOW))

    def __post_init__(self) -> None:
        self.policy: Policy = a_policy(
            a_model("b", self.floor, entitlement=self.replicas, actuation="scale", max_replicas=self.replicas),
            pools=(a_pool(gpus=2 * self.nodes, drain=True),),
        )
        for number in range(self.nodes):
            self.world.add_node(f"n{number}", 2, {"pool": "a100"})
        self.world.add_deployment("b", B, self.replicas, 1, node_selector={"pool": "a100"}, load_seconds=30.0)
        self.world.advance(NOW + 0.0)
        self.port = Budgeted(self.world, declines=self.declines)
        self.begin(Memory(), 1)

    def begin(self, memory: Memory, first_cycle: int) -> None:
        """The service starts with what a checkpoint has."""
        self.state = ClusterState(self.policy, self.world.now, "us", drains_nodes=True)
        self.ears = Ears(self.world, self.state)
        for thing in (*self.world.nodes.values(), *self.world.deployments.values(), *self.world.pods.values()):
            self.world._cluster.touch(thing)  # noqa: SLF001  # a list tells of what is there anyway
        clock = WorldClock(self.world)
        gate = Gate(
            self.port,
            facts=self.state.peek,
            clock=clock,
            recorder=Unwritten(),
            right=Alone(),
            write_mode="act",
            on_written=mark_unconfirmed(self.state),
            installation="us",
        )
        self.ports = GatePorts(
            self.policy, memory, self.state, Unwritten(), gate, clock, lambda: None, first_cycle=first_cycle
        )

    def restart(self) -> None:
        """The process is killed; another one reads the checkpoint."""
        past, memory = self.state.notices_past(), from_bytes(to_bytes(self.ports.memory), Memory)
        self.begin(memory, self.ports.next_cycle)
        self.ears.hear()
        self.state.restore_notices(past)

    async def live(self, until: int) -> None:
        """Turns each planning period and whenever something cannot wait, up to that second."""
        due = self.world.now
        for second in range(int(self.world.now - NOW), until + 1):
            self.world.advance(NOW + second)
            self.ears.hear()
            if self.world.now >= due or self.state.wakes:
                due = self.world.now + PERIOD_SECONDS
                (await cycle(self.world.now, self.ports)).whole()

    def notice(self, node: str, seconds: float, *, cancelled: bool = False) -> None:
        at = self.world.now
        told = CapacityNotice("s", f"e-{node}", at, "spot-interruption", at + seconds, node=node, cancelled=cancelled)
        self.world.announce(told)

    def on(self, *nodes: str) -> list[WorldPod]:
        return [pod for pod in self.world.pods.values() if pod.node is not None and pod.node.name in nodes]

    @property
    def account(self) -> NoticeAccount:
        (account,) = self.ports.memory.accounts
        return account


async def test_with_room_elsewhere_numbers_end_them_after_their_replacements_and_before_the_last_seconds() -> None:
    bench = Bench(nodes=3, replicas=4, floor=4)
    await bench.live(60)
    doomed = min({pod.node.name for pod in bench.on("n0", "n1", "n2") if pod.node is not None})
    bench.notice(doomed, 120.0)
    await bench.live(61)
    assert bench.world.nodes[doomed].cordoned_by == "us"
    await bench.live(185)
    account = bench.account
    assert (bench.on(doomed), bench.port.asked, bench.port.deleted) == ([], [], [])
    assert account.drained_by == ("rebalancer",)
    assert account.spare_seconds is not None
    assert 20.0 <= account.spare_seconds <= 50.0
    assert account.replaced_at is not None
    assert account.drained_at is not None
    assert account.replaced_at < account.drained_at
    assert len([pod for pod in bench.world.pods.values() if pod.ready]) == 4


@pytest.mark.parametrize("declines", [False, True], ids=["budgets allow it", "a budget declines"])
@pytest.mark.parametrize("killed", [False, True], ids=["one process", "killed after the cordon"])
async def test_what_the_floor_keeps_is_evicted_or_at_last_deleted_with_the_seconds_left(
    declines: bool,  # noqa: FBT001  # a case
    killed: bool,  # noqa: FBT001  # a case
) -> None:
    bench = Bench(nodes=2, replicas=4, floor=4, declines=declines)  # no room: nothing can replace them
    await bench.live(60)
    bench.notice("n0", 120.0)
    await bench.live(100)
    assert bench.world.nodes["n0"].cordoned_by == "us"
    assert bench.port.asked == []
    heard = bench.account.heard_at
    if killed:
        bench.restart()
    await bench.live(175)
    assert bench.port.asked[0] - 60 in range(70, 81)  # 120 - 30 - 20 s, at the next planning period
    if declines:
        first = bench.port.asked[::2]
        assert all(9.0 <= later - sooner <= 20.0 for sooner, later in itertools.pairwise(first))
        assert len(bench.port.deleted) == 2
        assert all(at - 60 in range(100, 111) and grace in range(9, 21) for at, grace in bench.port.deleted)
    else:
        assert (len(bench.port.asked), bench.port.deleted) == (2, [])
    assert bench.on("n0") == []
    account = bench.account
    assert (account.heard_at, account.drained_by) == (heard, ("rebalancer",))
    assert account.spare_seconds is not None
    assert account.spare_seconds > 0.0


async def test_a_notice_that_is_taken_back_uncordons_what_we_cordoned() -> None:
    bench = Bench(nodes=3, replicas=2, floor=2)
    await bench.live(60)
    bench.notice("n0", 120.0)
    await bench.live(70)
    assert bench.world.nodes["n0"].cordoned_by == "us"
    bench.world.advance(bench.world.now + 1.0)
    bench.notice("n0", 120.0, cancelled=True)
    await bench.live(90)
    assert (bench.world.nodes["n0"].cordoned_by, bench.world.nodes["n0"].taints) == ("", ())


async def test_ten_nodes_at_once_are_cordoned_and_acted_on_within_a_second_and_none_is_late() -> None:
    bench = Bench(nodes=30, replicas=40, floor=10)
    await bench.live(60)
    full = sorted({pod.node.name for pod in bench.world.pods.values() if pod.node is not None})[:10]
    for node in full:
        bench.notice(node, 120.0)
    await bench.live(62)
    assert {name for name, node in bench.world.nodes.items() if node.cordoned_by} == {*full}
    await bench.live(185)
    accounts = bench.ports.memory.accounts
    assert len(accounts) == 10
    assert all(one.acted_at is not None and one.acted_at - one.heard_at <= 1.0 for one in accounts)
    assert all((one.spare_seconds or 0.0) >= 20.0 for one in accounts)
    assert len([pod for pod in bench.world.pods.values() if pod.ready]) == 40
