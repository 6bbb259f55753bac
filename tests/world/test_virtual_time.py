"""The service's own cycle turns on the demo's world without any API, minutes in a moment."""

import pytest

from rebalancer.domain.events import CapacityNotice
from rebalancer.sandbox.demo_cluster import DemoCluster, build, demo_policy
from rebalancer.sandbox.demo_story import BACK_RATE, SURGE_RATE
from rebalancer.world import World
from tests.world.virtual import VirtualPorts
from tests.world.worlds import START

WARM_SECONDS = 60.0
POLICY = demo_policy()


def ready(world: World) -> dict[str, int]:
    return {model: len(world.ready_pods(model)) for model in world.models}


@pytest.fixture
def demo() -> DemoCluster:
    return build(POLICY, START)


@pytest.fixture
async def ports(demo: DemoCluster) -> VirtualPorts:
    """The service has looked at the idle cluster for a minute."""
    ports = VirtualPorts(demo.world, demo.policy)
    await ports.live(WARM_SECONDS)
    return ports


async def test_in_a_surge_idle_gpus_are_lent_and_come_home_when_their_owner_needs_them(
    demo: DemoCluster, ports: VirtualPorts
) -> None:
    world = demo.world
    assert ready(world) == {"chat": 3, "code": 5, "image": 2}
    demo.dials["chat"].turn(SURGE_RATE, world.now)
    await ports.live(60)
    lent = ready(world)
    assert lent["chat"] == 7
    assert lent["code"] == 1
    demo.dials["code"].turn(BACK_RATE, world.now)
    await ports.live(60)
    assert ready(world)["code"] == 5
    assert ready(world)["chat"] == 3


async def test_a_quiet_cluster_is_left_alone(demo: DemoCluster, ports: VirtualPorts) -> None:
    before, written = ready(demo.world), len(ports.outcomes)
    await ports.live(120)
    assert [outcome.intent.reason for outcome in ports.outcomes[written:]] == []
    assert ready(demo.world) == before


async def test_a_spot_notice_brings_the_replacement_up_elsewhere(demo: DemoCluster, ports: VirtualPorts) -> None:
    world = demo.world
    (node,) = world.node_claims
    world.interrupt(node, world.now + 120)
    ports.tell(CapacityNotice("test", "1", world.now, "spot-interruption", world.now + 120, node=node))
    await ports.live(60)
    assert node not in world.nodes
    assert ready(world)["image"] == 2


async def test_the_same_world_is_decided_the_same_way_twice(demo: DemoCluster, ports: VirtualPorts) -> None:
    other = build(POLICY, START)
    twin = VirtualPorts(other.world, other.policy)
    await twin.live(WARM_SECONDS)
    for cluster, each in ((demo, ports), (other, twin)):
        cluster.dials["chat"].turn(SURGE_RATE, cluster.world.now)
        await each.live(40)
    assert ports.outcomes
    assert ports.outcomes == twin.outcomes
