"""The scenarios that the suite plays, built from traces."""

from pathlib import Path

from rebalancer.sim.scenario import Model, Scenario
from rebalancer.sim.suite.work import TokenRates
from rebalancer.sim.traces.servegen import LLM_3, servegen

# Prefill from Splitwise's medians, time per token at the full batch.
LLM_3_RATES = {
    "m-large": TokenRates(9_700, 0.0524, 64, 3.6),
    "m-mid": TokenRates(12_000, 0.040, 64, 1.9),
    "m-small": TokenRates(20_000, 0.02, 128, 7.5),
}


def s2(folder: Path, day: int, gpus: int, start_seconds: int) -> Scenario:
    """Three language models on one budget, one GPU each replica, started with a third each; floor 2.

    Late above 2 s of waiting, gone above 30 s. Raises MissingTrace.
    """
    demand = servegen(folder, day, LLM_3)
    models = tuple(
        Model(
            stream.model,
            work=LLM_3_RATES[stream.model].work(stream),
            requests=stream.requests,
            first=gpus // len(LLM_3),
            floor=2,
            start_seconds=start_seconds,
        )
        for stream in demand.streams
    )
    return Scenario("S2", str(day), models, (gpus,), demand.seconds)
