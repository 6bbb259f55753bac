"""The fluid form is the fast mode of continuous batching: what both say of the worst two hours of S2."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rebalancer.sim.batching.engines import Served, shaped
from rebalancer.sim.batching.world import play
from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import DemandStreams, Stream
from rebalancer.sim.fluid.fast import play as play_fluid
from rebalancer.sim.suite.scenarios import LLM_3_RATES, s2
from rebalancer.sim.traces.servegen import servegen

pytestmark = [
    pytest.mark.slow,  # two million requests: 5 s of an idle core
    pytest.mark.timeout(300),  # the first run compiles the kernel: 15 s of an idle core
]

BOUND = 0.1  # of late requests, relative
SECONDS = 7200


class Static:
    every_seconds = 600

    def decide(self, seen: Seen) -> Sequence[int]:
        return list(seen.desired)


def test_both_forms_agree_on_s2_where_nobody_moves_anything(traces: Path) -> None:
    whole, day = s2(traces, 0, 40, 60), servegen(traces, 0)
    late = play_fluid(whole, Static(), "fluid").late.sum(axis=0)
    begin = max(range(0, whole.seconds, SECONDS), key=lambda start: late[start : start + SECONDS].sum())
    some = slice(begin, begin + SECONDS)
    models = tuple(replace(model, work=model.work[some], requests=model.requests[some]) for model in whole.models)
    scenario = replace(whole, models=models, seconds=SECONDS)
    demand = DemandStreams(
        "worst",
        tuple(
            Stream(one.model, one.requests[some], one.prompt_tokens[some], one.generated_tokens[some])
            for one in day.streams
        ),
    )
    served = [
        Served(shaped(rates.prefill_per_second, rates.seconds_per_token, rates.batch, 450_000), rates.scale)
        for rates in LLM_3_RATES.values()
    ]
    fluid = play_fluid(scenario, Static(), "fluid")
    batches = play(scenario, demand, served, Static(), "batches")
    asked = sum(model.requests.sum() for model in models)
    shares = fluid.late.sum() / asked, batches.record.late.sum() / asked
    print(  # noqa: T201  # a gate shows both numbers
        f"\nS2 day 0, 40 GPUs, static, seconds {begin}-{begin + SECONDS}: late {shares[0]:.3%} in the fluid form,"
        f" {shares[1]:.3%} request by request ({batches.simulated} requests)"
    )
    assert shares[1] == pytest.approx(shares[0], rel=BOUND)
