"""A large busy world from a seed: many models on full pools, for benchmarks, replay and byte-equality."""

import random

from msgspec.structs import replace

from rebalancer.domain.readings import Work
from tests.builders import Replicas, a_load, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story

PER_REPLICA = 4.0


def a_busy_story(rng: random.Random, models: int, pools: int = 1, gpus_per_model: int = 10) -> Story:
    """`models` models of 1, 2 or 4 GPUs per replica, about 90 % of the GPUs held, loads near what each holds."""
    names = [f"pool-{n}" for n in range(pools)]
    total = models * gpus_per_model
    there = [a_pool(name, -(-total // pools // 8) * 8) for name in names]
    specs, held, level = [], {}, {}
    for n in range(models):
        gpus = rng.choice([1, 1, 2, 4])
        many = max(1, round(gpus_per_model * 0.9 / gpus * rng.uniform(0.6, 1.3)))
        own = rng.sample(names, k=rng.randint(1, min(2, pools)))
        name = f"m{n:04}"
        specs.append(
            a_model(
                name,
                rng.randint(0, max(0, many // 3)),
                pools=tuple(own),
                gpus_per_replica=gpus,
                entitlement=max(many // 2, many // 3),
                max_replicas=100,
                priority=rng.choice([50, 100, 100, 200]),
                signals={"concurrency": {"per_replica": PER_REPLICA}, "utilisation": True},
            )
        )
        replicas: Replicas = {own[0]: many}
        held[name], level[name] = replicas, many * rng.uniform(0.5, 1.1)
    policy = a_policy(*specs, pools=tuple(there))
    story = Story(policy, a_snapshot(policy, held))
    offer_all(story, level)
    return story


def offer_all(story: Story, levels: dict[str, float], *, surging: frozenset[str] = frozenset()) -> None:
    """Every model's metrics follow its level of work; `surging` ones were at half of it until now."""
    loads = []
    for load in story.snapshot.loads:
        level = levels[load.model]
        slow = level / 2 if load.model in surging else level
        use = min(1.0, 0.5 * level / max(1, story.replicas(load.model)))
        readings = {"concurrency": level * PER_REPLICA, "utilisation": use}
        loads.append(a_load(load.model, readings, Work(short=level, last_60s=slow, long=slow, slow=slow)))
    story.snapshot = replace(story.snapshot, loads=tuple(loads))
    story.levels.update(levels)
