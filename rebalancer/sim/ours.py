"""The service itself as a contender: its production cycle, state and gate over the simulated cluster."""

from collections.abc import Callable, Sequence

from rebalancer.domain.policy import Policy
from rebalancer.sim.contenders import Ours
from rebalancer.sim.product import FluidService, Metrics, play_product
from rebalancer.sim.record import Record
from rebalancer.sim.recorded import Service, Terms
from rebalancer.sim.scenario import Model, Scenario
from rebalancer.world import Pod


class _Told(FluidService):
    """Says how far the run is."""

    tell: Callable[[float], None]

    def flow(self, since: float, until: float, pods: Sequence[Pod]) -> None:
        super().flow(since, until, pods)
        self.tell(self._now / len(self.wait))


def play_ours(
    who: Ours,
    scenario: Scenario,
    policy: Policy,
    terms: Terms,
    tell: Callable[[float], None],
) -> Record:
    """One run of the product; a full replica has as many requests in hand as its `Service` decodes at once."""
    batch = {each.id: terms.services.get(each.id, Service()).rates(each).batch for each in policy.models}
    first = scenario.models[0].name

    def serve(model: Model, started_at: float, seconds: int) -> FluidService:
        if model.name != first:
            return FluidService(model, started_at, seconds, slots=batch[model.name])
        told = _Told(model, started_at, seconds, slots=batch[model.name])
        told.tell = tell
        return told

    metrics = Metrics(delay_seconds=terms.metrics_delay_seconds)
    record = play_product(scenario, policy, who.actuation, terms.seed, serve=serve, metrics=metrics, name=who.name)
    tell(1.0)
    return record
