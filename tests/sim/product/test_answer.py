"""How soon a surge is answered: the figure of docs/rules.md, section 2, from the whole service in virtual time."""

from collections import Counter

import numpy as np
import pytest

from rebalancer.sim.product import default_policy
from rebalancer.sim.product.run import METRICS, play_on
from rebalancer.sim.product.stage import Stage
from rebalancer.sim.scenario import Scenario, ScenarioModel

PAST, LONGEST = 600, 60
DRAWS = 20  # the step comes at each second of a planning period twice


def answered_after(draw: int) -> int:
    """Seconds from the step to the first write that asks for more."""
    step = PAST + draw % 10
    rate = np.where(np.arange(step + LONGEST) < step, 3.0, 9.0)
    requests = np.random.default_rng(draw).poisson(rate).astype(np.float64)
    model = ScenarioModel("a", work=requests, requests=requests, first=5, floor=1, start_seconds=60)
    scenario = Scenario("step", "0", (model,), (24,), len(rate))
    stage = Stage(scenario, default_policy(scenario))
    play_on(stage, default_policy(scenario))
    asked = stage.desired[0]
    more = np.flatnonzero(asked[step:] > asked[step - 1])
    return int(more[0]) if len(more) else LONGEST


def samples_by_then(draw: int, after: int) -> int:
    """Samples that speak of any time since the step and were there when it was answered."""
    step, every = PAST + draw % 10, int(METRICS.scrape_seconds)
    return int((step + after - METRICS.lag_seconds) // every - step // every)


@pytest.mark.slow  # 20 s of an idle core
@pytest.mark.timeout(600)
def test_a_step_from_3_to_9_requests_a_second_sampled_every_5_s_is_answered_after_18_s_with_the_fourth_sample() -> None:
    assert METRICS.scrape_seconds == 5
    after = [answered_after(draw) for draw in range(DRAWS)]
    samples = Counter(samples_by_then(draw, seconds) for draw, seconds in enumerate(after))

    assert np.mean(after) == pytest.approx(17.5, abs=1.0), after
    assert samples.most_common(1)[0][0] == 4, samples
