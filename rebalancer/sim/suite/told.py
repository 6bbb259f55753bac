"""What the product is told of a scenario: its policy and its metrics, exact or as users have them (`Given`)."""

from collections.abc import Sequence

from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.signals import ConcurrencySignal
from rebalancer.sim import scenario as played
from rebalancer.sim.product import FluidService, RunMetrics
from rebalancer.sim.product.run import METRICS
from rebalancer.sim.product.stage import RecordedService, Serve
from rebalancer.sim.suite.given import Given
from rebalancer.world import Look, WorldPod


def policy_of(exact: Policy, given: Given) -> Policy:
    """The policy with every model's `perReplica` off by what is given, or without any."""
    if given.carries == 1.0:
        return exact
    return exact.model_copy(update={"models": tuple(_off(model, given) for model in exact.models)})


def _off(model: Model, given: Given) -> Model:
    exact = model.signals.concurrency
    if exact is None or exact.per_replica is None:
        return model
    limit = None if given.carries is None else given.carries * exact.per_replica
    signals = model.signals.model_copy(update={"concurrency": ConcurrencySignal(per_replica=limit)})
    return model.model_copy(update={"signals": signals})


def metrics_of(given: Given) -> RunMetrics:
    """How its metrics are scraped and when they come."""
    return RunMetrics(
        METRICS.scrape_seconds if given.scrape_seconds is None else float(given.scrape_seconds),
        METRICS.lag_seconds if given.lag_seconds is None else float(given.lag_seconds),
    )


def service_of(given: Given) -> Serve:
    """How a model serves, and what its metrics show."""
    if not given.gaps:
        return FluidService

    def gapped(model: played.ScenarioModel, started_at: float, seconds: int) -> RecordedService:
        service = Gapped(model, started_at, seconds)
        service.given = given
        return service

    return gapped


class Gapped(FluidService):
    """The fluid service where some scrapes are missing: its counters count on, gauges are of 5 s as always."""

    given: Given

    def looks(self, pods: Sequence[WorldPod]) -> list[Look]:
        """What the scrape shows, nothing in a gap."""
        shown = super().looks(pods)
        return [] if self.given.silent(self._now) else shown
