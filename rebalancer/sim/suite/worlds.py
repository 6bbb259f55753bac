"""The worlds in which the suite plays a case: the fluid one, Faro's requests, and continuous batching.

Peers are tuned in the fluid world. What they are worth request by request is another world's row, to be compared with
foresight's and ours of the same world.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from rebalancer.domain.policy import Policy
from rebalancer.domain.signals import ConcurrencySignal
from rebalancer.sim.batching.engines import Served, shaped
from rebalancer.sim.batching.plug import BatchingService
from rebalancer.sim.batching.plug import serving as batching_services
from rebalancer.sim.batching.world import play as play_batches
from rebalancer.sim.controller import Controller
from rebalancer.sim.demand import DemandStreams, Stream
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.product import PlanTimes, default_policy, play_product
from rebalancer.sim.product.run import Actuation
from rebalancer.sim.product.stage import RecordedService, Serve
from rebalancer.sim.record import Record
from rebalancer.sim.requests.minutes import Minutes
from rebalancer.sim.requests.plug import HeadService
from rebalancer.sim.requests.plug import serving as head_services
from rebalancer.sim.requests.scenarios import s1a, s1b
from rebalancer.sim.requests.world import RequestScenario, play_requests
from rebalancer.sim.scenario import BY_MINUTE, Scenario, ScenarioModel
from rebalancer.sim.suite.cases import SuiteCase
from rebalancer.sim.suite.given import EXACT, Given, Watching
from rebalancer.sim.suite.scenarios import LLM_3_RATES
from rebalancer.sim.suite.told import metrics_of, policy_of, service_of
from rebalancer.sim.traces.azure_llm import azure_llm
from rebalancer.sim.traces.servegen import LLM_3, servegen

World = Literal["fluid", "requests", "batching"]
WORLDS: tuple[World, ...] = ("fluid", "requests", "batching")

KV_TOKENS = 450_000  # what four H100 leave beside a 70B model's weights: 150 of 320 GB at 0.33 MB a token
RELEASE_SECONDS = 30  # a replica that goes finishes what it has, for so long; then it is cut off


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one run. `minutes`: Faro's score of every request, in the world that has them.

    `slow`: share of requests whose time per token missed its objective, None where tokens have no times.
    """

    record: Record
    minutes: Minutes | None = None
    slow: float | None = None


class Arena(Protocol):
    """One case in one world. `contents`: all values that decide what happens there, of dataclasses and arrays."""

    scenario: Scenario
    contents: object

    def peer(self, controller: Controller, name: str) -> Run:
        """Under that controller."""
        ...

    def ours(self, actuation: Actuation, seed: int, times: PlanTimes | None = None) -> Run:
        """Under the product, with the suite's one policy; `times` takes what its plans took."""
        ...


class Fluid:
    """The fluid form (sim.fluid.fast), for who decides by exact figures or by what else is given."""

    def __init__(self, scenario: Scenario, given: Given = EXACT) -> None:
        self.scenario = scenario
        self.contents: object = scenario, given
        self._given = given

    def peer(self, controller: Controller, name: str) -> Run:
        """On the fast path; what its targets make of wrong figures is in the controller."""
        seeing = controller if self._given == EXACT else Watching(controller, self._given)
        return Run(play(self.scenario, seeing, name))

    def ours(self, actuation: Actuation, seed: int, times: PlanTimes | None = None) -> Run:
        """In the full world, with fluid services."""
        policy = policy_of(default_policy(self.scenario, actuation), self._given)
        serve, metrics = service_of(self._given), metrics_of(self._given)
        return Run(play_product(self.scenario, policy, actuation, seed, serve=serve, metrics=metrics, times=times))


class Heads:
    """Faro's jobs, every request simulated (sim.requests). A replica finishes what it holds: nobody dies with it."""

    def __init__(self, requests: RequestScenario) -> None:
        self.scenario = requests.scenario
        self.contents: object = requests
        self._requests = requests

    def peer(self, controller: Controller, name: str) -> Run:
        """As `sim.requests.world` plays it."""
        run = play_requests(self._requests, controller, name)
        return Run(replace(run.record, lost_in_flight=0.0), run.minutes)

    def ours(self, actuation: Actuation, seed: int, times: PlanTimes | None = None) -> Run:
        """In the full world, with a head for each job."""
        made = _Made(head_services(self._requests))
        record = play_product(self.scenario, self.policy(actuation), actuation, seed, serve=made, times=times)
        heads = [each.minutes for each in made.services if isinstance(each, HeadService)]
        return Run(replace(record, lost_in_flight=0.0), Minutes.of(heads, self._requests.slo_seconds))

    def policy(self, actuation: Actuation) -> Policy:
        """The suite's one policy, in what heads measure."""
        return _as_heads_measure(default_policy(self.scenario, actuation), self._requests.slo_seconds)


def _as_heads_measure(policy: Policy, slo_seconds: float) -> Policy:
    """The same policy for other metrics: a replica serves one request at a time, and a latency includes its service."""
    models = tuple(
        model.model_copy(update={"slo": model.slo and model.slo.model_copy(update={"latency_seconds": slo_seconds})})
        for model in policy.models
    )
    return _in_hand(policy.model_copy(update={"models": models}), dict.fromkeys((model.id for model in models), 1.0))


def _in_hand(policy: Policy, requests: Mapping[str, float]) -> Policy:
    """The same policy where a replica of each model carries so many `requests`, as its metrics count them."""
    signals = {
        model.id: model.signals.model_copy(update={"concurrency": ConcurrencySignal(per_replica=requests[model.id])})
        for model in policy.models
    }
    models = tuple(model.model_copy(update={"signals": signals[model.id]}) for model in policy.models)
    return policy.model_copy(update={"models": models})


class Batches:
    """Language models, iteration by iteration (sim.batching). A replica that goes holds its GPU until it is cut off.

    Raises ValueError when the demand is not what arrives in the scenario.
    """

    def __init__(self, scenario: Scenario, demand: DemandStreams, served: Sequence[Served]) -> None:
        for model, stream in zip(scenario.models, demand.streams, strict=True):
            if not np.array_equal(model.requests, stream.requests[: len(model.requests)]):
                raise ValueError(f"the requests of {model.name} are not those of its stream")
        models = tuple(replace(model, release_seconds=RELEASE_SECONDS) for model in scenario.models)
        self.scenario = replace(scenario, models=models)
        self.contents: object = self.scenario, demand, tuple(served)
        self._demand, self._served = demand, served

    def peer(self, controller: Controller, name: str) -> Run:
        """As `sim.batching.world` plays it."""
        run = play_batches(self.scenario, self._demand, self._served, controller, name)
        return self._run(run.record, run.lost_in_flight, float(run.slow.sum()))

    def ours(self, actuation: Actuation, seed: int, times: PlanTimes | None = None) -> Run:
        """In the full world, with continuous batching behind each model."""
        how = dict(zip((model.name for model in self.scenario.models), self._served, strict=True))
        made = _Made(batching_services(self._demand, how))
        batches = {model.name: model.slots for model in self.scenario.models}
        policy = _in_hand(default_policy(self.scenario, actuation), batches)
        record = play_product(self.scenario, policy, actuation, seed, serve=made, times=times)
        lines = [each for each in made.services if isinstance(each, BatchingService)]
        lost = sum(line.lost_in_flight for line in lines)
        return self._run(record, lost, sum(float(line.slow.sum()) for line in lines))

    def _run(self, record: Record, lost_in_flight: float, slow: float) -> Run:
        requests = sum(float(model.requests[: self.scenario.seconds].sum()) for model in self.scenario.models)
        return Run(replace(record, lost_in_flight=float(lost_in_flight)), slow=float(slow / max(requests, 1e-12)))


class _Made:
    """Makes services, and keeps them for what a record does not hold."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.services: list[RecordedService] = []

    def __call__(self, model: ScenarioModel, started_at: float, seconds: int) -> RecordedService:
        service = self._serve(model, started_at, seconds)
        self.services.append(service)
        return service


def open_arena(case: SuiteCase, world: World, folder: Path, seed: int = 0) -> Arena:
    """A case in a world that has it (`worlds_of`). Raises MissingTrace, and ValueError for any other."""
    if world == "fluid":
        return Fluid(case.build(folder, seed), case.given)
    if world == "requests" and case.scenario in BY_MINUTE:
        build = s1a if case.scenario == "S1a" else s1b
        return Heads(build(folder, int(case.day), case.gpus, seed))
    if world == "batching" and case.scenario == "S2":
        scenario = case.build(folder, seed)
        served = [_served(model.name, model) for model in scenario.models]
        return Batches(scenario, servegen(folder, int(case.day), LLM_3), served)
    if world == "batching" and (case.scenario, case.day) == ("S7", "azure-code"):
        return _code_twice(case.build(folder, seed), azure_llm(folder, "code").streams[0])
    raise ValueError(f"{case.scenario} {case.day} is not played in the world {world}")


def _served(name: str, model: ScenarioModel) -> Served:
    """With the engine of that language model, as many requests as the scenario's model stands for."""
    rates = LLM_3_RATES[name]
    engine = shaped(rates.prefill_per_second, rates.seconds_per_token, rates.batch, KV_TOKENS)
    return Served(engine, model.scale)


def _code_twice(scenario: Scenario, recorded: Stream) -> Batches:
    """S7's two models, half a recording apart, with the tokens of that recording."""
    seconds = len(recorded.requests)
    whole = -(-scenario.seconds // seconds)
    streams = []
    for index, model in enumerate(scenario.models):
        rows = (recorded.requests, recorded.prompt_tokens, recorded.generated_tokens)
        tiled = (np.roll(np.tile(each, whole), index * (seconds // 2)) for each in rows)
        streams.append(Stream(model.name, *tiled))
    served = [_served("m-large", model) for model in scenario.models]
    return Batches(scenario, DemandStreams(scenario.name, tuple(streams)), served)
