"""`python -m tests.bench.sleepers [--scenario S4] [--hours FROM TO]`: what victims by sleeping engines are worth.

The service plays a day's hours on nodes of 8 GPUs where engines sleep (`rebalancer.world.slots`): with victims as they
are, and with those on whose GPU an engine of the model sleeps that the release is for (twin victims). That choice is
made here, behind the plan: same donors, same numbers, another of the donor's Ready replicas. It is no rule of the
product; the figures say whether it should be. Traces are read from REBALANCER_TRACES.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from rebalancer.act.gate import Gate
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Change, Plan
from rebalancer.domain.policy import Policy
from rebalancer.sim.product import default_policy
from rebalancer.sim.product.run import METRICS, play_on
from rebalancer.sim.product.stage import Stage
from rebalancer.sim.scenario import Scenario
from rebalancer.sim.score import score
from rebalancer.sim.suite import scenarios
from rebalancer.sim.traces.folder import traces_folder
from rebalancer.world.slots import Sleeping, Slots

NODE_GPUS = 8
DAY_GPUS = {"S2": (1, 32), "S4": (9, 24)}
HOUR = 3600


class Told(NamedTuple):
    """One run: share of late requests, starts and stops, and starts by kind."""

    late: float
    moves: int
    hot: int
    warm: int
    cold: int

    @property
    def hits(self) -> float:
        """Share of the starts that found their engine asleep, failed wakes among them."""
        return (self.hot + self.cold) / max(1, self.hot + self.warm + self.cold)

    def __str__(self) -> str:
        kinds = f"{self.hot} hot, {self.warm} warm, {self.cold} failed"
        return f"late {100 * self.late:.2f} %, hits {100 * self.hits:.0f} % ({kinds}), {self.moves} starts and stops"


def case(name: str, hours: tuple[int, int]) -> Scenario:
    """These hours of a day of the scenario, in nodes of 8 GPUs; replicas start as in a launcher."""
    day, gpus = DAY_GPUS[name]
    make = {"S2": scenarios.s2, "S4": scenarios.s4}[name]
    whole = make(traces_folder(None, os.environ), day, gpus, round(Sleeping(1).warm_seconds))
    return cut(whole, *(hour * HOUR for hour in hours))


def cut(whole: Scenario, since: int, until: int) -> Scenario:
    """The seconds `since` to `until` of a scenario, on nodes of 8 GPUs."""
    models = [
        replace(model, work=model.work[since:until], requests=model.requests[since:until]) for model in whole.models
    ]
    nodes = (NODE_GPUS,) * (whole.gpus // NODE_GPUS)
    return replace(whole, models=tuple(models), nodes=nodes, seconds=until - since)


def play(scenario: Scenario, sleeping: Sleeping, *, twins: bool, seed: int = 0) -> Told:
    """One run of the service."""
    policy = default_policy(scenario)
    slots = Slots(sleeping, policy.models[0].namespace, seed)
    stage = Stage(scenario, policy, seed, scrape_seconds=METRICS.scrape_seconds, slots=slots)
    slots.kinds.clear()  # what models began with
    record = play_on(stage, policy, gate=twin_gate(slots) if twins else Gate)
    kinds = {kind: sum(count for (each, _), count in slots.kinds.items() if each == kind) for kind in SHOWN}
    return Told(score(record).violation, record.starts + record.stops, **kinds)


SHOWN = ("hot", "warm", "cold")


def twin_gate(slots: Slots) -> type[Gate]:
    """The gate, with victims chosen anew before anything is written."""

    class TwinGate(Gate):
        async def apply(self, plan: Plan, policy: Policy, memory: Memory) -> tuple[Outcome, ...]:
            changes = tuple(twin_victims(change, slots.engines) for change in plan.changes)
            return await super().apply(msgspec.structs.replace(plan, changes=changes), policy, memory)

    return TwinGate


def twin_victims(change: Change, engines: Callable[[str], Sequence[str]]) -> Change:
    """The change with Ready victims exchanged for others of the target on whose GPU a recipient's engine sleeps.

    `engines`: models whose engines are on the GPU of a pod, by its UID.
    """
    if not change.recipients or not change.victims:
        return change
    ready = {pod.uid: pod for pod in change.target.pods if pod.phase == "ready"}
    chosen: list[str] = [uid for uid in change.victims if uid not in ready]
    left = [uid for uid in change.victims if uid in ready]
    twins = [uid for uid in ready if set(engines(uid)) & set(change.recipients)]
    kept = [uid for uid in left if uid in twins]
    better = kept + [uid for uid in sorted(twins) if uid not in kept]
    chosen += (better + [uid for uid in left if uid not in better])[: len(left)]
    names = {pod.uid: pod.name for pod in change.target.pods}
    return msgspec.structs.replace(change, victims=tuple(chosen), victim_names=tuple(names[uid] for uid in chosen))


def main(arguments: Sequence[str]) -> int:
    """Plays each number of sleepers with both choices of victims."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sleepers", description=__doc__)
    parser.add_argument("--scenario", choices=DAY_GPUS, default="S4")
    parser.add_argument("--hours", type=int, nargs=2, default=(0, 24))
    parser.add_argument("--sleepers", type=int, nargs="+", default=[1])
    parser.add_argument("--failed", type=float, default=0.0, help="share of wakes that fail")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    chosen = parser.parse_args(arguments)
    scenario = case(chosen.scenario, tuple(chosen.hours))
    for seed in chosen.seeds:
        for sleepers in chosen.sleepers:
            for twins in (False, True):
                told = play(scenario, Sleeping(sleepers, failed_share=chosen.failed), twins=twins, seed=seed)
                who = "twin victims" if twins else "victims as today"
                sys.stdout.write(f"{chosen.scenario}h, {sleepers} sleepers, seed {seed}, {who}: {told}\n")
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
