"""Small scenarios: three models on 12 GPUs, one of which surges while the others idle."""

import numpy as np

from rebalancer.sim.scenario import Scenario, ScenarioModel

GPUS = 12


def a_model(name: str, level: float, surge: float, seconds: int, seed: int, part: int = 3) -> ScenarioModel:
    """Poisson requests of 0.25 replica-seconds: `level` replicas busy, and `surge` in the second of `part` parts."""
    rng = np.random.default_rng(seed)
    mean = np.full(seconds, level)
    mean[seconds // part : 2 * seconds // part] = surge
    requests = rng.poisson(mean * 4.0).astype(np.float64)
    return ScenarioModel(name, work=requests / 4.0, requests=requests, first=4, floor=2, start_seconds=40)


def a_surge(seconds: int = 1800) -> Scenario:
    """`a` needs twice what it has for a third of the time."""
    levels = {"a": (2.0, 7.0), "b": (1.0, 1.0), "c": (1.5, 1.5)}
    models = tuple(a_model(name, *level, seconds, seed) for seed, (name, level) in enumerate(levels.items()))
    return Scenario("surge", "0", models, (GPUS,), seconds)
