"""`python -m tests.bench.deferral [USER ...] [--who NAME ...]`: batch work beside long prompts, where floors are owned.

Three users' traffic, generated from a seed as the shipped traces are: what is late of each model, and in all, with the
service, with a KEDA tuned on this very trace and with foresight. No model owns more than its floor.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from rebalancer.domain.policy import Policy
from rebalancer.sim.contest.contest import Side, contest
from rebalancer.sim.contest.recorded import ContestTerms, scenario_of
from rebalancer.sim.data.generate import Recipe, _rows, _surges, _tide
from rebalancer.sim.demand import DemandStreams, Stream
from rebalancer.sim.suite.names import contender

SEED, SECONDS = 5, 3 * 3600
WHO = ("ours", "keda@best", "foresight")


class Traffic(NamedTuple):
    """One model's requests, what a replica carries of them, and what the policy says of it beside that."""

    recipe: Recipe
    carries: int
    said: dict[str, object]
    floor: int = 1


class User(NamedTuple):
    """GPUs, and what runs on them; the last model is the batch one."""

    gpus: int
    models: dict[str, Traffic]


def _dumps(level: float, seconds: int, every: int) -> Callable[[int], float]:
    """All at once: so many requests a second for `seconds`, again `every` so many."""
    return lambda second: level if second % every < seconds else 0.02


PROMISED: dict[str, object] = {"class": "interactive", "slo": {"latencySeconds": 2.0}}
FIVE_MINUTES: dict[str, object] = {"class": "batch", "slo": {"latencySeconds": 300.0}}
TWENTY_MINUTES: dict[str, object] = {"class": "batch", "deferral": {"deadlineSeconds": 1200.0}}
USERS = {
    # Documents are summed up beside chat and code with prompts of 12,000 tokens: room for all but in the surges.
    "documents": User(
        24,
        {
            "chat": Traffic(Recipe(_tide(10.0, 0.6, -math.pi / 2), 1500, 250), 32, PROMISED),
            "code": Traffic(Recipe(_surges(2.2, 2.4, 900, 720), 12_000, 200), 16, PROMISED),
            "summary": Traffic(Recipe(lambda _: 2.0, 10_000, 400), 16, {"class": "batch"}),
        },
    ),
    # Jobs come in heaps, due in five minutes by the promise, beside agents with prompts of 14,000 tokens.
    "heaps": User(
        16,
        {
            "agent": Traffic(Recipe(_tide(1.6, 0.5, -math.pi / 2), 14_000, 300), 16, PROMISED),
            "search": Traffic(Recipe(_surges(4.0, 2.5, 1500, 600), 4000, 40), 8, PROMISED),
            "jobs": Traffic(Recipe(_dumps(2.0, 600, 2400), 10_000, 400), 16, FIVE_MINUTES),
        },
    ),
    # More than fits when both are busy; the embeddings may take 20 minutes.
    "short": User(
        12,
        {
            "agent": Traffic(Recipe(_tide(1.6, 0.5, -math.pi / 2), 14_000, 300), 16, PROMISED),
            "search": Traffic(Recipe(_surges(3.5, 2.5, 1500, 900), 4000, 40), 8, PROMISED),
            "embed": Traffic(Recipe(lambda _: 1.6, 12_000, 40), 16, TWENTY_MINUTES, floor=0),
        },
    ),
}


def policy_of(user: User) -> Policy:
    """Floors, and nothing owned beyond them."""
    models = [
        {
            "id": name,
            "namespace": "serving",
            "targets": ({"pool": "gpus", "name": name},),
            "gpusPerReplica": 1,
            "minReplicas": traffic.floor,
            "maxReplicas": user.gpus,
            "entitlement": traffic.floor,
            "signals": {"concurrency": {"perReplica": float(traffic.carries)}, "latency": True},
            **traffic.said,
        }
        for name, traffic in user.models.items()
    ]
    pool = {"name": "gpus", "kind": "primary", "nodeLabels": {"pool": "gpus"}, "gpuLimit": user.gpus}
    whole = {"apiVersion": "rebalancer.io/v1alpha1", "kind": "Policy", "pools": (pool,), "models": tuple(models)}
    return Policy.model_validate(whole)


def demand_of(name: str) -> DemandStreams:
    """What comes, by second."""
    streams = []
    for model, traffic in USERS[name].models.items():
        rows = np.array(list(_rows(traffic.recipe, Random(f"{SEED}/{name}/{model}"), SECONDS)), float)
        streams.append(Stream(model, *rows.T))
    return DemandStreams(name, tuple(streams))


def play(name: str, who: str) -> str:
    """A line: late of all, and of each model."""
    policy = policy_of(USERS[name])
    scenario = scenario_of(policy, ContestTerms(demand_of(name)))
    slots = {model.name: model.slots for model in scenario.models}
    result, _ = contest(name, [Side(contender(who), scenario, policy, None, slots)], lambda *_: None)
    (run,) = result.runs
    parts = ", ".join(f"{each.model} {each.violation or 0.0:7.2%}" for each in run.models)
    return f"{name:<10} {run.name:<34} {run.violation or 0.0:7.2%}  {parts}  {run.starts_and_stops} starts and stops"


def main(arguments: Sequence[str]) -> None:
    """The table."""
    asked = argparse.ArgumentParser()
    asked.add_argument("users", nargs="*", default=list(USERS))
    asked.add_argument("--who", nargs="*", default=list(WHO))
    given = asked.parse_args(arguments)
    for name in given.users:
        for who in given.who:
            print(play(name, who), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
