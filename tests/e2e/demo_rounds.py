"""The demo's rounds in virtual time: its story, then its loop of traffic, served by us and by KEDA alone.

`python -m tests.e2e.demo_rounds --seeds 7,8 --rounds 10` prints each round's late requests; `--surge 60@20` has
somebody ask for a surge of chat of 60 s, 20 s into each round. What is played is the demo's own cluster, policy,
traffic and peers; Kafka and the Kubernetes API are left out, so that a round of 255 s takes a second or two.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalancer.act.gate import Gate
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Plan
from rebalancer.leader.right import Alone
from rebalancer.loop.cycle import cycle
from rebalancer.loop.gate_ports import GatePorts, mark_unconfirmed
from rebalancer.sandbox.demo_cluster import IDLE_RATES, SEED, build, demo_policy
from rebalancer.sandbox.demo_loop import ROUND
from rebalancer.sandbox.demo_peers import OURS, SideTally, Stretch, peers
from rebalancer.sandbox.demo_story import BACK_RATE, EBB_RATE, RAMP_SECONDS, SETTLED_SECONDS, SURGE_RATE
from rebalancer.sim.product.clock import WorldClock, still
from rebalancer.sim.product.ears import Ears
from rebalancer.sim.product.notes import Unwritten
from rebalancer.state import ClusterState
from rebalancer.world import World
from rebalancer.world.port import WorldPort

START = 1_800_000_000.0
POLICY = demo_policy()
POLICY = POLICY.model_copy(  # no Deployment of the demo has an autoscaler, so its scale is what is written
    update={"models": tuple(model.model_copy(update={"actuation": "scale"}) for model in POLICY.models)}
)
MODELS = tuple(model.id for model in POLICY.models)
# As the story's acts take: chat surges, is in time again and ebbs as code's users return, is calm.
STORY = (
    (SETTLED_SECONDS, "chat", SURGE_RATE),
    (60.0, "chat", EBB_RATE),
    (0.0, "code", BACK_RATE),
    (60.0, "chat", IDLE_RATES["chat"]),
    (60.0, "chat", IDLE_RATES["chat"]),
)
ROUND_SECONDS = sum(seconds for seconds, _, _ in ROUND)


class Asked(NamedTuple):
    """A surge of chat that somebody asks for in each round: how long, to its end at most, and how far into it."""

    seconds: float
    after: float


class Service:
    """The service's own parts on a world, with the world's history read as a start reads it."""

    def __init__(self, world: World) -> None:
        history = world.take_samples()
        self._state, self._world = ClusterState(POLICY, world.now), world
        self._ears = Ears(world, self._state)
        self._state.apply_all(history, world.now)
        clock, recorder = WorldClock(world), Unwritten()
        gate = Gate(
            WorldPort(world),
            facts=self._state.peek,
            clock=clock,
            recorder=recorder,
            right=Alone(),
            write_mode="act",
            on_written=mark_unconfirmed(self._state),
        )
        self._ports = GatePorts(POLICY, Memory(), self._state, recorder, gate, clock, self._again, first_cycle=1)
        self._due_at = world.now

    def _again(self) -> None:
        self._due_at = self._world.now

    @property
    def plan(self) -> Plan | None:
        """The last plan."""
        return self._ports.last_plan

    async def live(self, now: float) -> None:
        """Up to `now`, and a turn of the wheel when it is due."""
        self._world.advance(now)
        self._ears.hear()
        if now >= self._due_at or self._state.wakes:
            self._due_at = now + POLICY.plan_every_seconds
            (await cycle(now, self._ports)).whole()
            self._world.advance(now)


@dataclass
class Rounds:
    """The sides at one instant of one run; `look` is called each second."""

    seed: int = SEED
    asked: Asked | None = None
    look: Callable[["Rounds"], None] = lambda _: None
    now: float = START
    stretches: list[Stretch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clusters = {OURS: build(POLICY, START, seed=self.seed), **peers(POLICY, START, self.seed)}
        self.tally = SideTally({name: cluster.world for name, cluster in self.clusters.items()})
        self.world = self.clusters[OURS].world
        self.service = Service(self.world)

    def play(self, rounds: int) -> list[Stretch]:
        """The story, then so many rounds: what was noted in each."""
        with still() as runner:
            runner.run(self._play(rounds))
        return self.stretches

    async def _play(self, rounds: int) -> None:
        for seconds, model, per_second in STORY:
            await self._live(seconds)
            self._turn(model, per_second)
        usual = {"chat": IDLE_RATES["chat"], "code": BACK_RATE}
        for _ in range(rounds):
            begun, surges = self.now, False
            for at, model, rate in sorted(self._turns(begun), key=lambda turn: turn[0]):
                await self._live(at - self.now)
                if rate is None:  # a surge that was asked for begins or ends
                    surges = not surges
                else:
                    usual[model] = rate
                asked = surges and model == "chat"
                self._turn(model, SURGE_RATE if asked else usual[model])
            self.stretches.append(self.tally.between(begun, self.now))
            del self.tally.looks[:-1]

    def _turns(self, begun: float) -> Iterator[tuple[float, str, float | None]]:
        """When whose rate changes in the round that begins now."""
        at = begun
        for seconds, model, rate in ROUND:
            at += seconds
            yield at, model, rate
        if self.asked is not None:
            yield begun + self.asked.after, "chat", None
            yield begun + min(self.asked.after + self.asked.seconds, ROUND_SECONDS), "chat", None

    async def _live(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.now += 1.0
            await self.service.live(self.now)
            self.tally.look(self.now)
            self.look(self)

    def _turn(self, model: str, rate: float) -> None:
        for cluster in self.clusters.values():
            cluster.dials[model].turn(rate, self.now, RAMP_SECONDS)


def late(stretch: Stretch, side: str) -> float:
    """Late requests of all models."""
    return sum(stretch.late(side, model) for model in MODELS)


def _main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", default=str(SEED))
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--surge", help="SECONDS@AFTER: somebody asks for a surge of chat in each round")
    chosen = options.parse_args()
    asked = Asked(*map(float, chosen.surge.split("@"))) if chosen.surge else None
    totals: dict[str, float] = {}
    played = behind = 0
    for seed in map(int, chosen.seeds.split(",")):
        for number, stretch in enumerate(Rounds(seed, asked).play(chosen.rounds)):
            sums = {side: late(stretch, side) for side in stretch.sides}
            totals = {side: totals.get(side, 0.0) + count for side, count in sums.items()}
            played, behind = played + 1, behind + (sums[OURS] > sums["KEDA, shared"])
            each = ", ".join(
                f"{side} {count:.0f} ({' '.join(f'{model} {stretch.late(side, model):.0f}' for model in MODELS)})"
                for side, count in sums.items()
            )
            sys.stdout.write(f"seed {seed} round {number}: {each}\n")
            sys.stdout.flush()
    whole = ", ".join(f"{side} {count:.0f}" for side, count in totals.items())
    sys.stdout.write(f"{behind} of {played} rounds later than KEDA, shared; late: {whole}\n")


if __name__ == "__main__":
    _main()
