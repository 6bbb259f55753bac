"""Small random worlds: one to three pools, two to five models, at most 32 GPUs; and the policy that names them."""

import random

from msgspec import Struct

from rebalancer.domain.policy import Model, Policy, Pool
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import Dial, Engine, Requests, World

START = 1_800_000_000.0
STEP_SECONDS = 5.0
NAMESPACE = "serving"
CONCURRENCY = 4.0  # requests that a replica serves at a time
CARRIED = 3.0  # of them, what the policy says that it carries within its SLO
ONE_REQUEST = Requests(1.0, prompt_tokens=800.0, generated_tokens=100.0)  # 0.1 + 4.0 s
SERVICE_SECONDS = Engine().service_seconds(ONE_REQUEST)
LAUNCH_SECONDS = 40.0
NOT_READY_SECONDS = 60.0  # a NotReady node counts so long, and a device that is not shown: a history is minutes
SPOT = "spot"
ONE = ((4,), (8,))
SEVERAL = ((4, 4), (8, 8), (4, 4, 4))


class PoolSpec(Struct, frozen=True):
    """Nodes by their GPUs; an elastic pool begins without any, and Karpenter brings `most_nodes`."""

    name: str
    nodes: tuple[int, ...]
    most_nodes: int = 0

    @property
    def elastic(self) -> bool:
        return self.most_nodes > 0


class ModelSpec(Struct, frozen=True):
    """One model on its primary pool, and on the elastic one where `spot`. `owner`: none, hpa or keda."""

    name: str
    pool: str
    gpus: int
    floor: int
    entitlement: int
    load_seconds: float
    owner: str
    level: float
    spot: bool = False
    idle: int | None = None
    priority: int = 100


class WorldSpec(Struct, frozen=True):
    """All that a world begins with. `density`: disturbances a step, on average; `per`: whose samples there are.

    `marks`: whether the service marks the pods that shall go (`actuation.deletionCost`, which is off unless asked for);
    `mistaken`: the policy says that each pod holds one GPU; `slow_steps`: a model may lose a fifth in five minutes, as
    by default, which is longer than a start holds back.
    """

    seed: int
    pools: tuple[PoolSpec, ...]
    models: tuple[ModelSpec, ...]
    density: float
    look_ahead: bool = False
    per: str = "model"
    marks: bool = False
    launch_seconds: float = LAUNCH_SECONDS
    mistaken: bool = False
    slow_steps: bool = False


def a_spec(seed: int, *, apart: bool = False, spot: bool = False, several: bool = False) -> WorldSpec:
    """The world of that seed.

    `apart`: two pools that share no model; `spot`: certainly one that Karpenter fills; `several`: one pool of several
    nodes.
    """
    rng = random.Random(seed)
    pools = [
        PoolSpec(name, tuple(rng.choice(SEVERAL if several else (*ONE, *SEVERAL))))
        for name in "xy"[: 2 if apart else rng.choice([1, 1, 1 if several else 2])]
    ]
    spot = not apart and (rng.random() < 0.35 or spot)
    models: list[ModelSpec] = []
    for pool in pools:
        models += _models(rng, pool, spot=spot, first=len(models))
    if spot:
        pools.append(PoolSpec(SPOT, (), most_nodes=rng.choice([1, 2])))
    density = rng.choice([0.02, 0.05, 0.15, 0.5])
    per = rng.choice(["model", "pod"])
    look_ahead, marks = rng.random() < 0.2, rng.random() < 0.5
    return WorldSpec(seed, tuple(pools), tuple(models), density, look_ahead, per, marks)


def _models(rng: random.Random, pool: PoolSpec, *, spot: bool, first: int) -> list[ModelSpec]:
    """Two or three that own the pool between them."""
    found, left = [], sum(pool.nodes)
    for name in "abcdef"[first : first + rng.choice([2, 2, 3])]:
        gpus = rng.choice([1, 1, 1, 2])
        own = min(left // gpus, rng.randint(1, max(1, sum(pool.nodes) // gpus // 2)))
        if own < 1:
            continue
        left -= own * gpus
        found.append(
            ModelSpec(
                name=name,
                pool=pool.name,
                gpus=gpus,
                floor=rng.randint(min(1, own), max(1, own // 2)),
                entitlement=own,
                load_seconds=rng.choice([20.0, 40.0, 60.0]),
                owner=rng.choice(["none", "none", "hpa", "keda"]),
                level=rng.uniform(0.2, own),
                spot=spot and rng.random() < 0.7,
                idle=0 if rng.random() < 0.15 else None,
                priority=rng.choice([50, 100, 100, 200]),
            )
        )
    return found


def rate_of(level: float) -> float:
    """Requests per second that keep so many replicas busy to what the policy says that they carry."""
    return level * CARRIED / SERVICE_SECONDS


def policy_of(spec: WorldSpec) -> Policy:
    """What the platform team wrote; short windows, so that ten quiet minutes are long."""
    return Policy.model_validate(
        {
            "apiVersion": "rebalancer.io/v1alpha1",
            "kind": "Policy",
            "pools": tuple(_pool(pool) for pool in spec.pools),
            "models": tuple(_model(model, spec) for model in spec.models),
            "lookAhead": spec.look_ahead,
            "nodes": {"notReadyGraceSeconds": NOT_READY_SECONDS},
            "guards": {
                "step": {"share": 0.2, "windowSeconds": 300.0}
                if spec.slow_steps
                else {"share": 0.5, "windowSeconds": 60.0},
                "fleet": {"share": 1.0, "windowSeconds": 60.0},
                "sudden": {"holdSeconds": 120.0, "leastModels": 1000},
                "foreign": {"windowSeconds": 120.0},
            },
        }
    )


def _pool(spec: PoolSpec) -> Pool:
    fields: dict[str, object] = {
        "name": spec.name,
        "kind": "elastic" if spec.elastic else "primary",
        "node_labels": {"pool": spec.name},
        "gpu_limit": spec.most_nodes * 4 if spec.elastic else sum(spec.nodes),
    }
    if spec.elastic:
        fields |= {"capacity_type": "spot", "node_pools": (spec.name,), "gpus_per_node": 4, "price_per_gpu_hour": 1.0}
    return Pool.model_validate(fields)


def _model(spec: ModelSpec, world: WorldSpec) -> Model:
    targets = [{"pool": spec.pool, "name": spec.name}]
    if spec.spot:
        targets.append({"pool": SPOT, "name": f"{spec.name}-{SPOT}"})
    room = sum(sum(pool.nodes) + 4 * pool.most_nodes for pool in world.pools)
    return Model.model_validate(
        {
            "id": spec.name,
            "namespace": NAMESPACE,
            "targets": tuple(targets),
            "gpus_per_replica": 1 if world.mistaken else spec.gpus,
            "min_replicas": spec.floor,
            "max_replicas": max(1, room // spec.gpus),
            "entitlement": spec.entitlement,
            "priority": spec.priority,
            "load_seconds": spec.load_seconds,
            "signals": {"concurrency": {"per_replica": CARRIED}},
        }
    )


def built(spec: WorldSpec, *, uids_by_owner: bool = False) -> tuple[World, dict[str, Dial]]:
    """The cluster of the spec a while after its start: all replicas that were there are Ready."""
    world = World(
        START - 120.0,
        seed=spec.seed,
        step_seconds=STEP_SECONDS,
        interval_seconds=STEP_SECONDS,
        per="pod" if spec.per == "pod" else "model",
        load_jitter=0.0,
        pods_outlive_nodes=True,
        uids_by_owner=uids_by_owner,
    )
    for pool in spec.pools:
        for number, gpus in enumerate(pool.nodes, 1):
            world.add_node(f"{pool.name}{number}", gpus, {"pool": pool.name})
        if pool.elastic:
            world.add_node_pool(pool.name, 4, {"pool": pool.name}, spec.launch_seconds, limit=0, empty_seconds=60.0)
    dials = {model.name: _add(world, model) for model in spec.models}
    world.advance(START)
    return world, dials


def _add(world: World, spec: ModelSpec) -> Dial:
    dial = Dial(ONE_REQUEST, rate_of(spec.level))
    world.add_model(spec.name, Engine(concurrency=CONCURRENCY), dial)
    pools = [spec.pool, *([SPOT] if spec.spot else [])]
    for number, pool in enumerate(pools):
        name = spec.name if number == 0 else f"{spec.name}-{pool}"
        ref = WorkloadRef(NAMESPACE, "Deployment", name)
        world.add_deployment(
            spec.name,
            ref,
            spec.entitlement if number == 0 else 0,
            spec.gpus,
            node_selector={"pool": pool},
            load_seconds=spec.load_seconds,
        )
        if number == 0:
            _own(world, spec, ref)
    return dial


def _own(world: World, spec: ModelSpec, ref: WorkloadRef) -> None:
    """Its autoscaler, as somebody had set it up before us."""
    if spec.owner == "hpa":
        world.follow(world.add_hpa(spec.name, ref, max(1, spec.floor), spec.entitlement + 2))
    elif spec.owner == "keda":
        idle = spec.idle if spec.floor else None
        world.add_scaled_object(spec.name, ref, max(1, spec.floor), spec.entitlement + 2, idle)
