"""The scenarios of the fluid world that the suite plays, built from traces. All of them raise MissingTrace."""

from pathlib import Path

import numpy as np

from rebalancer.sim.demand import F64, DemandStreams
from rebalancer.sim.scenario import Scenario, ScenarioModel
from rebalancer.sim.suite.surges import Surges
from rebalancer.sim.suite.work import TokenRates
from rebalancer.sim.traces.azure_functions import azure_functions
from rebalancer.sim.traces.azure_llm import azure_llm
from rebalancer.sim.traces.servegen import LLM_3, LLM_5, servegen

# Prefill from Splitwise's medians, time per token at the full batch.
LLM_3_RATES = {
    "m-large": TokenRates(9_700, 0.0524, 64, 3.6),
    "m-mid": TokenRates(12_000, 0.040, 64, 1.9),
    "m-small": TokenRates(20_000, 0.02, 128, 7.5),
}


def s2(folder: Path, day: int, gpus: int, start_seconds: int) -> Scenario:
    """Three language models on one budget, one GPU each replica, started with a third each; floor 2.

    Late above 2 s of waiting, gone above 30 s.
    """
    demand = servegen(folder, day, LLM_3)
    models = tuple(
        ScenarioModel(
            stream.model,
            work=LLM_3_RATES[stream.model].work(stream),
            requests=stream.requests,
            first=gpus // len(LLM_3),
            floor=2,
            start_seconds=start_seconds,
            slots=LLM_3_RATES[stream.model].batch,
            scale=LLM_3_RATES[stream.model].scale,
        )
        for stream in demand.streams
    )
    return Scenario("S2", str(day), models, (gpus,), demand.seconds)


NODE_GPUS = 8
LARGE_GPUS = 4  # from here on a replica starts in 180 s instead of 60
# GPUs of a replica, its share of the mean demand of 0.6 GPUs in each, SLO and priority; the largest first, so that
# the first replicas fit on their nodes. DeepSeek-R1 has BLOOM-176B's prefill on eight H100.
_S3 = {
    "deepseek-r1": (8, 0.22, 5.0, 2.0, TokenRates(7_400, 0.064, 64)),
    "m-large": (4, 0.27, 2.0, 3.0, TokenRates(9_700, 0.0524, 64)),
    "m-mid": (2, 0.19, 2.0, 2.0, TokenRates(12_000, 0.040, 64)),
    "m-small": (1, 0.19, 1.0, 1.0, TokenRates(20_000, 0.02, 128)),
    "mm-image": (1, 0.13, 2.0, 1.0, TokenRates(12_000, 0.040, 64)),
}
_S3_FIRST = {"deepseek-r1": 2, "m-large": 4, "m-mid": 6, "m-small": 12, "mm-image": 8}  # at 64 GPUs


def s3(folder: Path, gpus: int) -> Scenario:
    """Five models of 1 to 8 GPUs per replica on nodes of 8, day 0; 64 or 96 GPUs, of which they need 0.6 on average.

    Floor 1 replica. The published file has one day only of deepseek-r1 and mm-image.
    """
    demand = servegen(folder, 0, LLM_5)
    streams = {stream.model: stream for stream in demand.streams}
    models = []
    for name, (size, share, slo, priority, rates) in _S3.items():
        work = rates.work(streams[name])
        scale = 0.6 * gpus * share / size / work.mean()
        models.append(
            ScenarioModel(
                name,
                work=work * scale,
                requests=streams[name].requests,
                first=_S3_FIRST[name] * gpus // 64,
                gpus=size,
                priority=priority,
                start_seconds=180 if size >= LARGE_GPUS else 60,
                slo_wait_seconds=slo,
                slots=rates.batch,
                scale=scale,
            )
        )
    return Scenario("S3", "0", tuple(models), (NODE_GPUS,) * (gpus // NODE_GPUS), demand.seconds)


BUSY = 0.6  # of the budget, on average
IDLE_BELOW = 0.1  # replicas busy on average: such a model has floor 0


def s4(folder: Path, day: int, gpus: int, start_seconds: int) -> Scenario:
    """Eighteen small models with a long tail (days 8-11): one factor turns requests into 0.6 GPUs of work in each.

    A minute's requests come anywhere in it. Late above 5 s of waiting; a model that keeps less than 0.1 replicas
    busy may have none.
    """
    recorded = azure_functions(folder, day)
    each = BUSY * gpus / (recorded.counts.sum() / 86_400)
    chance = np.random.default_rng(day)
    requests = np.stack([_spread(counts, chance) for counts in recorded.counts])
    busy = each * requests.mean(axis=1)
    models = tuple(
        ScenarioModel(
            name,
            work=each * requests[index],
            requests=requests[index],
            first=first,
            floor=int(busy[index] >= IDLE_BELOW),
            start_seconds=start_seconds,
            slo_wait_seconds=5.0,
        )
        for index, (name, first) in enumerate(zip(recorded.names, _split(busy, gpus), strict=True))
    )
    return Scenario("S4", str(day), models, (gpus,), requests.shape[1])


def s7(gpus: int, start_seconds: int, seed: int = 0) -> Scenario:
    """Twelve surges to four times the demand within a minute for ten, two models in turn, each else at 3.2 GPUs."""
    surges = Surges()
    work, requests = surges.draw(seed)
    return _two_models("generated", work, requests, gpus, start_seconds, surges.starts)


def s7_code(folder: Path, gpus: int, start_seconds: int) -> Scenario:
    """Azure's code service twelve times over as two models half a recording apart, at 3.2 GPUs each on average."""
    demand = azure_llm(folder, "code")
    requests, work = _repeated(demand, Surges().count)
    scale = Surges().busy / work.mean()
    work *= scale
    shift = demand.seconds // 2
    both = np.stack([work, np.roll(work, shift)]), np.stack([requests, np.roll(requests, shift)])
    scale *= LLM_3_RATES["m-large"].scale
    return _two_models("azure-code", *both, gpus, start_seconds, (), scale)


def _two_models(  # noqa: PLR0913  # one thing each
    day: str, work: F64, requests: F64, gpus: int, start_seconds: int, surges: tuple[int, ...], scale: float = 1.0
) -> Scenario:
    models = tuple(
        ScenarioModel(name, work[index], requests[index], gpus // 2, start_seconds=start_seconds, scale=scale)
        for index, name in enumerate(("a", "b"))
    )
    return Scenario("S7", day, models, (gpus,), work.shape[1], surges=surges)


def _repeated(demand: DemandStreams, times: int) -> tuple[F64, F64]:
    stream = demand.streams[0]
    return np.tile(stream.requests, times), np.tile(LLM_3_RATES["m-large"].work(stream), times)


def _spread(per_minute: F64, chance: np.random.Generator) -> F64:
    """Each minute's requests over its seconds, with equal chances."""
    return chance.multinomial(per_minute.astype(np.int64), np.full(60, 1 / 60)).reshape(-1).astype(np.float64)


def _split(busy: F64, gpus: int) -> list[int]:
    """A replica each and the rest by demand: largest remainders."""
    exact = (gpus - len(busy)) * busy / busy.sum()
    whole = np.floor(exact).astype(int)
    for index in np.argsort(whole - exact, kind="stable")[: gpus - len(busy) - int(whole.sum())]:
        whole[index] += 1
    return [1 + int(more) for more in whole]
