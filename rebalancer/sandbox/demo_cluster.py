"""The demo's cluster: two nodes that the models own, a spot NodePool, and what users ask of three models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.settings.problems import check_text
from rebalancer.world import Dial, Engine, Requests, World

POLICY_FILE = files("rebalancer.sandbox") / "demo_policy.yaml"
HISTORY_SECONDS = 3600.0  # what is usual of a model is known after some 28 minutes: a demo shows a service that knows
SEED = 7

ENGINES = {
    "chat": Engine(concurrency=24.0, prompt_tokens_per_second=8000.0, seconds_per_token=0.03, patience_seconds=8.0),
    "code": Engine(concurrency=24.0, prompt_tokens_per_second=8000.0, seconds_per_token=0.03, patience_seconds=8.0),
    "image": Engine(concurrency=24.0, prompt_tokens_per_second=8000.0, seconds_per_token=0.03, patience_seconds=4.0),
}
REQUESTS = {
    "chat": Requests(1, prompt_tokens=800, generated_tokens=100),  # 3.1 s alone on a replica
    "code": Requests(1, prompt_tokens=2400, generated_tokens=100),  # 3.3 s
    "image": Requests(1, prompt_tokens=200, generated_tokens=150),  # 4.5 s
}
IDLE_RATES = {"chat": 12.0, "code": 1.6, "image": 8.0}  # requests per second: 37, 5 and 36 in flight
# Deployment -> replicas at the start, seconds to load, seconds to stop. Starts are as short as the story: both stand
# for ten times as much.
DEPLOYMENTS = {"chat": (3, 8.0, 2.0), "code": (5, 8.0, 2.0), "image": (2, 8.0, 2.0)}
LAUNCH_SECONDS = 25.0


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """The world at the end of its history, and the dials by which the story moves it."""

    world: World
    policy: Policy
    dials: Mapping[str, Dial]


def demo_policy() -> Policy:
    """The packaged policy. Raises ValueError if it has problems, which a test rules out."""
    policy, problems = check_text(POLICY_FILE.read_text(), POLICY_FILE.name)
    if policy is None:
        raise ValueError("\n".join(map(str, problems)))
    return policy


def build(
    policy: Policy, started_at: float, keda_maximum: Callable[[Model], int] | None = None, seed: int = SEED
) -> DemoCluster:
    """A cluster for the demo's policy that has run for `HISTORY_SECONDS` at `started_at`.

    With `keda_maximum` each model has a ScaledObject from its floor (at least 1) up to that, all the while, and the
    spot NodePool the limit that the policy allows the service: KEDA and Karpenter alone run it.
    """
    dials = {model: Dial(REQUESTS[model], rate, f"{seed}/{model}") for model, rate in IDLE_RATES.items()}
    world = World(started_at - HISTORY_SECONDS, seed=seed)
    for name in ("a100-1", "a100-2"):
        world.add_node(name, 8, {"rebalancer.io/pool": "a100"})
    limit = 2 if keda_maximum is None else next(pool.gpu_limit for pool in policy.pools if pool.name == "spot")
    world.add_node_pool("spot", 2, {"rebalancer.io/pool": "spot"}, LAUNCH_SECONDS, limit=limit, nodes=1)
    for model in policy.models:
        slo_seconds = None if model.slo is None else model.slo.latency_seconds
        world.add_model(model.id, ENGINES[model.id], dials[model.id], slo_seconds)
        for target in model.targets:
            replicas, load_seconds, stop_seconds = DEPLOYMENTS[target.name]
            ref = WorkloadRef(model.namespace, target.kind, target.name)
            world.add_deployment(
                model.id,
                ref,
                replicas,
                model.gpus_per_replica,
                node_selector={"rebalancer.io/pool": target.pool},
                load_seconds=load_seconds,
                stop_seconds=stop_seconds,
                grace_seconds=10,
            )
            if keda_maximum is not None:
                world.add_scaled_object(model.id, ref, max(1, model.min_replicas), keda_maximum(model))
    world.advance(started_at)
    return DemoCluster(world, policy, dials)
