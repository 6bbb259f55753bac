"""S1a and S1b: Faro's ten jobs on a fixed budget of replicas, request by request, and their fluid form."""

from pathlib import Path

from rebalancer.sim.demand import F64
from rebalancer.sim.requests.arrivals import RESNET_34, ROUTE, Kind, draw
from rebalancer.sim.requests.minutes import QUANTILE
from rebalancer.sim.requests.world import RequestScenario
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.traces.faro import FaroDay, faro

NAMES: dict[Kind, str] = {"compatible": "S1a", "clean": "S1b"}
BUDGETS = (16, 20, 24, 28, 32, 36, 40)
SLO_SECONDS = 0.72
# The 99th percentile of a request that nothing holds up, 272 ms. With the mean (163 ms) the fluid form saw 5-22 % less
# lost utility than every request simulated (fixed replicas, KEDA, AIAD at 32); with this one -5 to +2 %.
OWN_SECONDS = RESNET_34.quantile_seconds(QUANTILE) + 2 * ROUTE.mean_seconds
START_SECONDS, RELEASE_SECONDS = 35, 30  # a replica that moves between jobs is away for 65 s
QUEUE_LIMIT, ONGOING_LIMIT = 50, 4  # of the head, and of one replica
NEVER_SECONDS = 86_400.0  # a client of Faro's waits for as long as it takes


def faro_model(job: str, requests: F64, first: int = 1) -> ScenarioModel:
    """One job in the fluid form; `requests`: (seconds,).

    A request is late when what is left of earlier seconds keeps it for longer than the SLO less its own time. A head
    holds `QUEUE_LIMIT` requests besides those of its replicas and turns away the next; request by request it holds one
    more, and one in hand (`requests.head`).
    """
    return ScenarioModel(
        job,
        work=requests * RESNET_34.mean_seconds,
        requests=requests,
        first=first,
        start_seconds=START_SECONDS,
        release_seconds=RELEASE_SECONDS,
        slo_wait_seconds=SLO_SECONDS - OWN_SECONDS,
        headroom_seconds=0.0,
        patience_seconds=NEVER_SECONDS,
        queue_base=QUEUE_LIMIT,
        queue_per_replica=ONGOING_LIMIT,
        slots=1.0,  # one at a time: the others that are with a replica wait there
    )


def s1(day: FaroDay, gpus: int, kind: Kind, seed: int, first: int = 1) -> RequestScenario:
    """Ten jobs with `first` replicas each at the beginning, floor 1; one GPU stands for one replica."""
    jobs = draw(day.counts, kind, seed)
    seconds = day.counts.shape[1] * 60
    models = tuple(
        faro_model(job, requests.per_second(seconds), first) for job, requests in zip(day.jobs, jobs, strict=True)
    )
    scenario = Scenario(NAMES[kind], str(day.day), models, (gpus,), seconds)
    return RequestScenario(scenario, jobs, seed, SLO_SECONDS, ONGOING_LIMIT, QUEUE_LIMIT)


def s1a(folder: Path, day: int, gpus: int, seed: int, first: int = 1) -> RequestScenario:
    """With arrivals as Faro's load generator has them. Raises MissingTrace."""
    return s1(faro(folder, day), gpus, "compatible", seed, first)


def s1b(folder: Path, day: int, gpus: int, seed: int, first: int = 1) -> RequestScenario:
    """With clean arrivals: uniform within each minute. Raises MissingTrace."""
    return s1(faro(folder, day), gpus, "clean", seed, first)
