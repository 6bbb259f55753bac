"""A scenario played request by request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from rebalancer.sim.batching.engines import Served, shaped
from rebalancer.sim.batching.state import FINISHED
from rebalancer.sim.batching.world import BatchingWorld, BatchOutcome, play
from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import DemandStreams, Stream
from rebalancer.sim.fluid.fast import play as play_fluid
from rebalancer.sim.scenario import Scenario, ScenarioModel

pytestmark = pytest.mark.timeout(300)  # the first run compiles the kernel: 15 s of an idle core

SECONDS = 600
ENGINE = shaped(10_000.0, 0.04, 64, 400_000)
SERVED = Served(ENGINE)


@dataclass
class Script:
    """Asks for what it is told to at each second."""

    asked: Callable[[int], int]
    every_seconds: int = 1

    def decide(self, seen: Seen) -> Sequence[int]:
        return [self.asked(seen.now)]


def always(count: int) -> Script:
    return Script(lambda _: count)


def demand(rate: float, prompt: float = 800.0, tokens: float = 160.0, seconds: int = SECONDS) -> DemandStreams:
    requests = np.random.default_rng(3).poisson(rate, seconds).astype(float)
    return DemandStreams("even", (Stream("m", requests, requests * prompt, requests * tokens),))


def scenario(of: DemandStreams, gpus: int, served: Served = SERVED, **model: object) -> Scenario:
    stream = of.streams[0]
    rate = served.engine.prefill_per_second
    work = served.scale * (stream.prompt_tokens / rate + stream.generated_tokens * served.work_per_token)
    known: dict[str, object] = {"first": gpus, "start_seconds": 30}
    one = ScenarioModel("m", work=work, requests=stream.requests, **{**known, **model})  # type: ignore[arg-type]  # any of its fields
    return Scenario("S", "0", (one,), (gpus,), of.seconds)


def played(
    of: DemandStreams, gpus: int, script: Script | None = None, served: Served = SERVED, **model: object
) -> BatchOutcome:
    return play(scenario(of, gpus, served, **model), of, [served], script or always(gpus), "script")


def test_a_request_needs_the_same_work_as_in_the_fluid_form() -> None:
    """0.08 s of prompts and 160 tokens at 0.04/64 s: 0.18 s. Five of six seconds of two replicas are busy."""
    one = scenario(demand(9.0), 2)
    world = BatchingWorld(one, demand(9.0), [SERVED])
    world.advance(SECONDS)
    assert world.seen.busy.sum() == pytest.approx(one.models[0].work.sum(), rel=0.01)


def test_nobody_is_late_where_there_is_room_and_most_are_where_there_is_not() -> None:
    room, none = played(demand(9.0), 4).record, played(demand(9.0), 1).record
    asked = demand(9.0).streams[0].requests.sum()
    assert room.late.sum() < 0.001 * asked
    assert none.late.sum() > 0.8 * asked


def test_an_overloaded_fleet_turns_away_what_the_fluid_form_does() -> None:
    """What is above capacity leaves after 30 s; both forms agree on the share, and that hardly anybody is on time."""
    one = demand(20.0)
    batches, fluid = played(one, 2), play_fluid(scenario(one, 2), always(2), "fluid")
    asked = one.streams[0].requests.sum()
    assert batches.record.lost.sum() / asked == pytest.approx(fluid.lost.sum() / asked, abs=0.06)
    assert batches.record.late.sum() / asked == pytest.approx(fluid.late.sum() / asked, abs=0.05)


def test_requests_are_finished_lost_or_inside_and_so_is_their_work() -> None:
    one = demand(20.0)
    world = BatchingWorld(scenario(one, 2), one, [SERVED])
    world.advance(300)
    line = world._lines[0]  # noqa: SLF001  # conservation is about what the world keeps to itself
    happened = line.state.seconds
    finished = int(line.state.counts[FINISHED])
    assert happened["came"].sum() == finished + happened["lost"].sum() + len(line.inside())
    left = happened["brought"].sum() - happened["done"].sum() - happened["dropped"].sum()
    assert left >= world.seen.left[0, 299] > 0  # what decodes is inside too, but not left to begin


def test_a_thinned_trace_is_scored_in_recorded_requests() -> None:
    one = demand(2.0)
    whole = played(one, 1, served=Served(ENGINE, scale=5.0))
    assert whole.simulated == 5 * one.streams[0].requests.sum()
    assert 0 < whole.record.late.sum() <= one.streams[0].requests.sum()


def test_one_seed_gives_the_same_run_and_another_another() -> None:
    one = demand(10.0)
    runs = [play(scenario(one, 2), one, [SERVED], always(2), "s", seed=seed) for seed in (0, 0, 1)]
    assert np.array_equal(runs[0].record.wait, runs[1].record.wait)
    assert not np.array_equal(runs[0].record.wait, runs[2].record.wait)


def test_how_often_somebody_decides_changes_nothing() -> None:
    one = demand(10.0)
    often, seldom = (play(scenario(one, 2), one, [SERVED], Script(lambda _: 2, every), "s") for every in (1, 97))
    assert np.array_equal(often.record.wait, seldom.record.wait)


def fewer(now: int) -> int:
    return 3 if now < 300 else 2


def test_a_replica_that_may_drain_loses_nobody() -> None:
    assert played(demand(9.0), 3, Script(fewer), release_seconds=60).lost_in_flight == 0


def test_a_replica_that_ends_at_once_loses_what_it_had_in_hand() -> None:
    out = played(demand(9.0), 3, Script(fewer), release_seconds=0)
    assert 5 < out.lost_in_flight < 64
    assert out.record.lost[0, 240:301].sum() == pytest.approx(out.lost_in_flight)


def test_a_draining_replica_gets_no_more_requests() -> None:
    """It runs dry, and the two others have all of them: as many run as where there never were three."""
    one = demand(9.0)
    three, two = (BatchingWorld(scenario(one, 3, first=first, release_seconds=200), one, [SERVED]) for first in (3, 2))
    three.advance(300)
    three.ask(0, 2)
    three.advance(400)
    two.advance(400)
    assert three.seen.running[0, 399] == pytest.approx(two.seen.running[0, 399], rel=0.1)


def test_requests_wait_at_the_gateway_until_a_replica_is_ready_or_patience_ends() -> None:
    out = played(demand(2.0), 1, Script(lambda now: 0 if now < 50 else 1), floor=0, release_seconds=60)
    wait, lost = out.record.wait[0], out.record.lost[0]
    asked = demand(2.0).streams[0].requests
    # The last replica goes at 1, what it had ends with it at 61; the next is Ready at 91 (its GPU was free at 61).
    assert lost[2:60].sum() == asked[2:60].sum()
    assert lost[62:].sum() == 0
    assert 91 - 71 <= wait[70] <= 91 - 70 + 0.1 * asked[62:71].sum()  # and then the prompts of those before it


def test_slow_tokens_are_counted_apart_from_late_first_tokens() -> None:
    """A batch of ten takes 25 ms, more when a prompt is computed beside it: never 20, hardly ever 60."""
    one = demand(9.0)
    out, strict = played(one, 4), played(one, 4, served=replace(SERVED, slo_token_seconds=0.020))
    asked = one.streams[0].requests.sum()
    assert np.array_equal(out.record.late, strict.record.late)
    assert strict.slow.sum() > 0.95 * asked  # all but those still inside at the end
    assert out.slow.sum() < 0.05 * asked


def test_engines_show_what_runs_waits_and_is_in_the_cache() -> None:
    one = demand(9.0)
    world = BatchingWorld(scenario(one, 1), one, [SERVED])
    world.advance(60)
    assert world.seen.running[0, 59] == 64
    assert world.seen.queued[0, 59] > 100
    assert 0.05 < world.seen.kv_use[0, 59] < 0.3  # 64 x (800 + some of 160) of 400,000 tokens


def test_the_wait_that_engines_show_is_not_the_own_prompts_time() -> None:
    """One request every 20 s, whose prompt takes 0.8 s: nobody waits, as in the fluid form."""
    requests = (np.arange(200) % 20 == 0).astype(float)
    one = DemandStreams("alone", (Stream("m", requests, 8000.0 * requests, 20.0 * requests),))
    world = BatchingWorld(scenario(one, 1), one, [SERVED])
    world.advance(200)
    assert world.seen.wait.max() < 0.1
    pairs = DemandStreams("pairs", (Stream("m", 2 * requests, 16_000.0 * requests, 40.0 * requests),))
    world = BatchingWorld(scenario(pairs, 1), pairs, [SERVED])
    world.advance(200)
    assert world.seen.wait.max() > 0.2  # the second is held up by the first


def test_streams_must_be_those_of_the_models() -> None:
    one = demand(1.0)
    with pytest.raises(ValueError, match="are not those of models"):
        BatchingWorld(scenario(one, 1), DemandStreams("none", ()), [SERVED])
