"""Small worlds: a pool of two nodes with 8 GPUs, a spot NodePool, Deployments of one model each."""

from collections.abc import Mapping

from rebalancer.domain.cluster import Toleration
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import Deployment, Dial, Engine, Requests, World, WorldNodePool

START = 1_800_000_000.0
OWNED = {"pool": "owned"}
SPOT = {"pool": "spot"}
ONE_REQUEST = Requests(1, prompt_tokens=800, generated_tokens=100)  # 0.1 + 4.0 s by the default engine
LAUNCH_SECONDS = 25.0


def a_world(nodes: int = 2, **overrides: object) -> World:
    """Nodes `n1`, `n2`, ... of 8 GPUs."""
    world = World(START, **overrides)  # type: ignore[arg-type]  # keyword arguments of World
    for number in range(1, nodes + 1):
        world.add_node(f"n{number}", 8, OWNED)
    return world


def a_deployment(  # what a test may want to say of it
    world: World,
    name: str = "a",
    replicas: int = 2,
    gpus: int = 2,
    *,
    selector: Mapping[str, str] = OWNED,
    load_seconds: float = 20.0,
    stop_seconds: float = 4.0,
    tolerations: tuple[Toleration, ...] = (),
) -> Deployment:
    """A Deployment of a model of the same name."""
    return world.add_deployment(
        name,
        WorkloadRef("serving", "Deployment", name),
        replicas,
        gpus,
        node_selector=selector,
        load_seconds=load_seconds,
        stop_seconds=stop_seconds,
        tolerations=tolerations,
    )


def a_node_pool(world: World, limit: int | None = 4, nodes: int = 0) -> WorldNodePool:
    """NodePool `spot` with nodes of 2 GPUs."""
    return world.add_node_pool("spot", 2, SPOT, LAUNCH_SECONDS, limit, nodes)


def a_served_model(world: World, name: str = "a", rate_per_second: float = 2.0, seed: str | None = None) -> Dial:
    """Model `name` gets that many requests; the dial to turn."""
    dial = Dial(ONE_REQUEST, rate_per_second, seed)
    world.add_model(name, Engine(concurrency=8.0), dial)
    return dial


def used(world: World) -> dict[str, int]:
    """GPUs held per node."""
    return {name: node.used for name, node in world.nodes.items()}
