"""The service itself as a contender: its production cycle, state and gate over the simulated cluster."""

from collections.abc import Callable, Mapping, Sequence

from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.sim.product import FluidService, RunMetrics, play_product
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.suite.names import Ours
from rebalancer.world import WorldPod

TOLD_SECONDS = 60  # a day is told in 1,440 steps: a bar that moves costs more than a simulated second


class _Told(FluidService):
    """Says how far the run is."""

    tell: Callable[[float], None]

    def flow(self, since: float, until: float, pods: Sequence[WorldPod]) -> None:
        super().flow(since, until, pods)
        if self._now % TOLD_SECONDS == 0:
            self.tell(self._now / len(self.wait))


def play_ours(  # noqa: PLR0913  # each is one thing a run is asked to do otherwise
    who: Ours,
    scenario: Scenario,
    policy: Policy,
    metrics: RunMetrics,
    slots: Mapping[str, float],
    seed: int,
    tell: Callable[[float], None],
    keep: Callable[[Plan], None],
) -> Record:
    """One run of the product; `slots`: as `FluidService` has it, by model; others have their own.

    `keep` takes each plan. Raises ValueError when the policy and the scenario do not go together.
    """
    first = scenario.models[0].name

    def serve(model: ScenarioModel, started_at: float, seconds: int) -> FluidService:
        in_hand = slots.get(model.name)
        if model.name != first:
            return FluidService(model, started_at, seconds, slots=in_hand)
        service = _Told(model, started_at, seconds, slots=in_hand)
        service.tell = tell
        return service

    record = play_product(
        scenario, policy, who.actuation, seed, serve=serve, metrics=metrics, journal=keep, name=who.name
    )
    tell(1.0)
    return record
