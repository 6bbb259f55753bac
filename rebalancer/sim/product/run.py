"""Plays a scenario with the product: time goes on by the second, and the wheel turns when it would in a stage."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rebalancer.act.gate import Gate
from rebalancer.domain.memory import Memory
from rebalancer.domain.policy import Policy
from rebalancer.leader.right import Alone
from rebalancer.loop.cycle import CyclePorts, cycle
from rebalancer.loop.gate_ports import CycleRecorder, GatePorts, mark_unconfirmed
from rebalancer.obs.journal import code_digest
from rebalancer.sim.product.clock import WorldClock, still
from rebalancer.sim.product.ears import Ears
from rebalancer.sim.product.fluid import FluidService
from rebalancer.sim.product.inside import Autoscalers
from rebalancer.sim.product.notes import Notes, notes
from rebalancer.sim.product.stage import STARTED_AT, Serve, Stage
from rebalancer.sim.product.timing import PlanTimes, TimedPorts
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario
from rebalancer.state import ClusterState
from rebalancer.world.port import WorldPort

Actuation = Literal["scale", "bounds"]


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """How the product sees the cluster: a scrape every so often, there to be read `lag_seconds` later."""

    scrape_seconds: float = 5.0
    lag_seconds: float = 1.0


METRICS = RunMetrics()


def play_product(  # noqa: PLR0913  # each is one thing a run may be asked to do otherwise
    scenario: Scenario,
    policy: Policy,
    actuation: Actuation = "scale",
    seed: int = 0,
    *,
    serve: Serve = FluidService,
    metrics: RunMetrics = METRICS,
    journal: Notes | None = None,
    name: str = "ours",
    times: PlanTimes | None = None,
) -> Record:
    """One run from the first second to the last. The same arguments give the same record, byte by byte.

    `policy` names the scenario's models, its first pool stands for the scenario's nodes; `actuation` is put in place
    of the models' own: by `bounds` each Deployment has a simulated HPA (sim.product.inside). `journal`: a file to
    write, which `rebalancer replay` re-runs, or who takes each plan. `times` takes what the plans took; the record
    knows nothing of it. Raises OSError when the journal cannot be written, ValueError when the policy and the scenario
    do not go together.
    """
    policy = _acting_by(policy, actuation)
    stage = Stage(scenario, policy, seed, serve, metrics.scrape_seconds, metrics.lag_seconds)
    return play_on(stage, policy, journal, name, times)


def play_on(  # noqa: PLR0913  # what a run is made of
    stage: Stage,
    policy: Policy,
    journal: Notes | None = None,
    name: str = "ours",
    times: PlanTimes | None = None,
    gate: type[Gate] = Gate,
) -> Record:
    """The same on a stage of one's own, which keeps more than the record; `gate` writes. Raises OSError."""
    code = code_digest() if isinstance(journal, Path) else ""
    with still() as runner:
        return runner.run(_play(stage, policy, journal, code, name, times, gate))


def _acting_by(policy: Policy, actuation: Actuation) -> Policy:
    models = tuple(model.model_copy(update={"actuation": actuation}) for model in policy.models)
    return policy.model_copy(update={"models": models})


async def _play(  # noqa: PLR0913  # as `play_on`
    stage: Stage, policy: Policy, journal: Notes | None, code: str, name: str, times: PlanTimes | None, gate: type[Gate]
) -> Record:
    async with notes(journal, policy, code, STARTED_AT) as recorder:
        product = Product(stage, policy, recorder, times, gate)
        for second in range(stage.scenario.seconds):
            await product.live(second)
            stage.note(second)
        stage.world.advance(STARTED_AT + stage.scenario.seconds)
    return stage.record(name)


class Product:
    """The service's own parts, connected to a simulated stage."""

    def __init__(
        self,
        stage: Stage,
        policy: Policy,
        recorder: CycleRecorder,
        times: PlanTimes | None = None,
        gate: type[Gate] = Gate,
    ) -> None:
        world = stage.world
        bounded = any(model.actuation == "bounds" for model in policy.models)
        self._autoscalers = Autoscalers(stage) if bounded else None
        self._world = world
        self._state = state = ClusterState(policy, world.now)
        self._ears = Ears(world, state)
        clock = WorldClock(world)
        gated = gate(
            WorldPort(world),
            facts=state.peek,
            clock=clock,
            recorder=recorder,
            right=Alone(),
            write_mode="act",
            on_written=mark_unconfirmed(state),
        )
        self.ports = GatePorts(policy, Memory(), state, recorder, gated, clock, self._wanted, first_cycle=1)
        self._turning: CyclePorts = self.ports if times is None else TimedPorts(self.ports, times)
        self._turn_again = False
        self._due_at = world.now

    def _wanted(self) -> None:
        self._turn_again = True

    async def live(self, second: int) -> None:
        """Everything that happens at the beginning of that second: what is due in the cluster, then a turn if due."""
        now = STARTED_AT + second
        self._world.advance(now)
        if self._autoscalers is not None:
            self._autoscalers.sync(second)
        self._ears.hear()
        if now >= self._due_at or self._turn_again or self._state.wakes:
            self._turn_again = False
            self._due_at = now + self.ports.policy.plan_every_seconds
            (await cycle(now, self._turning)).whole()
            self._world.advance(now)
